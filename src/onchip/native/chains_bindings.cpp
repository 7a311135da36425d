// Python bindings of `least_chain` and `least_chain_below`.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "chains.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

// By point, or by cell of each dimension, with a single cell along dimensions in which the values do not differ.
using Broadcast = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

std::vector<double> of_each_point(const std::vector<std::size_t>& shape, const Broadcast& table) {
    std::vector<double> found(table.data(), table.data() + table.size());
    if (table.ndim() != shape.size()) return found;
    std::size_t inner = 1;
    for (std::size_t side = shape.size(); side-- > 0; inner *= shape[side]) {
        if (table.shape(side) == shape[side]) continue;
        if (table.shape(side) != 1) throw std::invalid_argument("costs are not of each point");
        std::vector<double> repeated;
        repeated.reserve(found.size() * shape[side]);
        for (auto start = found.begin(); start != found.end(); start += static_cast<std::ptrdiff_t>(inner)) {
            for (std::size_t at = 0; at < shape[side]; ++at)
                repeated.insert(repeated.end(), start, start + static_cast<std::ptrdiff_t>(inner));
        }
        found = std::move(repeated);
    }
    return found;
}

// Tables expanded to all points; a table passed several times is expanded once.
class OfEachPoint {
public:
    explicit OfEachPoint(const std::vector<std::size_t>& shape)
        : shape_(shape), points_(std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>())) {}

    chains::Costs of(const Broadcast& table) {
        auto& found = known_[{table.data(), {table.shape_ptr(), table.shape_ptr() + table.ndim()}}];
        if (found.empty()) found = of_each_point(shape_, table);
        if (found.size() != points_) throw std::invalid_argument("costs are not of each point");
        return found;
    }

private:
    const std::vector<std::size_t>& shape_;
    std::size_t points_;
    std::map<std::pair<const double*, std::vector<std::size_t>>, std::vector<double>> known_;
};

double least_chain(const std::vector<std::size_t>& shape, const std::vector<std::vector<Broadcast>>& operands) {
    OfEachPoint tables(shape);
    std::vector<std::vector<chains::Costs>> costs;
    for (const auto& own : operands) {
        auto& found = costs.emplace_back();
        for (const Broadcast& table : own) found.push_back(tables.of(table));
    }
    const nb::gil_scoped_release without_lock;
    return chains::least_cost(shape, costs);
}

using Tables = std::vector<std::optional<Broadcast>>;

std::vector<chains::Costs> costs_of(const Tables& tables, OfEachPoint& points) {
    std::vector<chains::Costs> found;
    for (const auto& table : tables) found.push_back(table ? points.of(*table) : chains::Costs());
    return found;
}

// A boundary: operand, memory, bits of a tile by point, arrivals of tiles by point, and true if two tiles fit.
using BoundaryRow = std::tuple<std::size_t, std::size_t, Broadcast, std::vector<Broadcast>, bool>;
// By boundary: transfers awaited one by one, as number and duration by point.
using Waits = std::vector<std::vector<std::tuple<Broadcast, Broadcast>>>;
// A criterion: constant, cost table of each boundary or None, `more`, `rest`, true if linear, waits, and the port whose
// transfers it counts.
using CriterionRow = std::tuple<double, Tables, Tables, Tables, bool, Waits, std::optional<std::size_t>>;

std::vector<std::vector<chains::Wait>> waits_of(const Waits& boundaries, OfEachPoint& points) {
    std::vector<std::vector<chains::Wait>> found;
    for (const auto& own : boundaries) {
        auto& waits = found.emplace_back();
        for (const auto& [times, longest] : own) waits.push_back({points.of(times), points.of(longest)});
    }
    return found;
}

auto least_chain_below(std::vector<std::size_t> shape, std::vector<std::vector<std::uint8_t>> may_stand_inside,
                       std::vector<std::vector<std::uint8_t>> leads, std::vector<std::vector<double>> stays,
                       std::vector<std::vector<double>> short_turns, std::vector<double> part_of_turn,
                       std::vector<std::vector<std::uint8_t>> counts, std::vector<std::vector<double>> turns,
                       std::vector<std::vector<std::uint8_t>> is_single, std::vector<double> room_bits,
                       std::vector<std::vector<std::uint8_t>> ports, std::vector<std::vector<double>> fewest_turns,
                       std::vector<std::vector<double>> last_turns, std::vector<std::vector<std::uint8_t>> is_known,
                       const std::vector<BoundaryRow>& boundaries, const std::vector<CriterionRow>& criteria,
                       bool is_product, double limit, std::size_t most_steps) {
    chains::Problem problem{std::move(shape),
                            std::move(may_stand_inside),
                            std::move(leads),
                            std::move(stays),
                            std::move(short_turns),
                            std::move(part_of_turn),
                            std::move(counts),
                            std::move(turns),
                            std::move(is_single),
                            std::move(room_bits),
                            std::move(ports),
                            std::move(fewest_turns),
                            std::move(last_turns),
                            std::move(is_known),
                            {},
                            {},
                            is_product};
    OfEachPoint points(problem.shape);
    for (const auto& [operand, memory, bits, comes, may_come_at_once] : boundaries) {
        problem.boundaries.push_back({operand, memory, points.of(bits), {}, may_come_at_once});
        if (comes.size() > 2) throw std::invalid_argument("a boundary has two memories");
        for (const Broadcast& own : comes) problem.boundaries.back().comes.push_back(points.of(own));
    }
    for (const auto& [fixed, costs, more, rest, is_linear, waits, port] : criteria)
        problem.criteria.push_back({fixed, costs_of(costs, points), costs_of(more, points), costs_of(rest, points),
                                    is_linear, waits_of(waits, points), port});
    chains::Found found;
    {
        const nb::gil_scoped_release without_lock;
        found = chains::least_chain_below(problem, limit, most_steps);
    }
    return std::tuple(found.floor, found.is_least, found.steps, found.points, found.cells);
}

}  // namespace

void add_chains(nb::module_& module) {
    module.def("least_chain", &least_chain, "shape"_a, "operands"_a,
               "Return the least total cost of a chain of nested places, one place for each boundary.\n"
               "\n"
               "A place is a point of a lattice: how far the loops inside it lead along each dimension. Of any two\n"
               "places one contains the other, and the boundaries of an operand are listed from the processing\n"
               "elements upwards. `operands` holds one cost table per boundary, infinite where a tile does not\n"
               "fit. A table is flat with the last dimension fastest, or it has the dimensions of the lattice,\n"
               "with one cell along dimensions in which its values do not differ. Raises ValueError if a table\n"
               "does not have a value for each point.");
    module.def("least_chain_below", &least_chain_below, "shape"_a, "may_stand_inside"_a, "leads"_a, "stays"_a,
               "short_turns"_a, "part_of_turn"_a, "counts"_a, "turns"_a, "is_single"_a, "room_bits"_a, "ports"_a,
               "fewest_turns"_a, "last_turns"_a, "is_known"_a, "boundaries"_a, "criteria"_a, "is_product"_a, "limit"_a,
               "most_steps"_a,
               "Search for the chain of least value below `limit`, with several criteria and shared memories.\n"
               "\n"
               "The value of a chain is the greatest of its criteria. If `is_product`, it is the first times the\n"
               "greatest of the others. Stops after about `most_steps` points. Returns a tuple of\n"
               "- the lower bound on the value of every chain below `limit` (`limit` itself if there is none),\n"
               "- True if the bound is attained by a chain, or if no chain is below `limit`,\n"
               "- the number of steps,\n"
               "- the points of the best chain by boundary (empty if none was found),\n"
               "- the cells of each dimension in which a chain below `limit` may have a place (1) or not (0).\n"
               "\n"
               "`boundaries` are operand after operand, each from the processing elements upwards. A boundary is a\n"
               "tuple of its operand, its memory, the bits that a tile takes by point, the numbers of arrivals of\n"
               "its tiles by point (one table for each memory that counts them, at most two), and True if its\n"
               "memory has room for two tiles.\n"
               "\n"
               "`criteria` are tuples of\n"
               "- the fixed part,\n"
               "- the cost table of each boundary, or None,\n"
               "- the cost added at a boundary if none of its tiles may stay, or None,\n"
               "- the further cost added then, of which no part counts if some tiles may stay, or None,\n"
               "- True if the criterion is linear in the number of arrivals,\n"
               "- per boundary the transfers that the array waits for one by one: pairs of tables with their\n"
               "  number and duration,\n"
               "- the number of the port whose transfers it counts, or None.\n"
               "\n"
               "Per dimension and cell: `stays` is the largest part of a tile that stays, `short_turns` the turns\n"
               "of the last part of a place if it is shorter than the others (0 if all are equal, infinity if\n"
               "unknown), `turns` the most cycles that lead to the cell, `is_single` 1 if no loop may stand\n"
               "between two places in it, `fewest_turns` a lower bound on the turns of every part but the last,\n"
               "`last_turns` a lower bound on the turns of the last part, and `is_known` 1 if both are exact.\n"
               "`part_of_turn` is per dimension the largest part that one turn leads to. `may_stand_inside` is 1\n"
               "per dimension, inner cell and outer cell (fastest) if one place may stand inside the other.\n"
               "`leads` is 1 per operand and dimension if the dimension leads to other elements of the operand,\n"
               "and `counts` is 1 if the part that `stays` is in its elements. `room_bits` is per memory; `ports`\n"
               "is 1 per port and boundary if the boundary has transfers there.\n"
               "Raises ValueError if a table has the wrong shape.");
}

}  // namespace onchip
