// `least_chain` and `least_chain_below` for Python.

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
#include "chain_means.hpp"
#include "chain_search.hpp"
#include "chains.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

// By point, or by cell of each dimension, with one cell where it says the same of all.
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

// Tables of each point; those that are given several times are repeated once.
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

// What is fixed of a criterion, and what each boundary costs, or None.
using CostsRow = std::tuple<double, Tables>;

std::tuple<double, chains::Weights> highest_mean(const std::vector<std::size_t>& shape,
                                                 const std::vector<std::size_t>& operands,
                                                 const std::vector<Broadcast>& room,
                                                 const std::vector<CostsRow>& criteria, std::optional<double> slope,
                                                 double enough, double vain) {
    OfEachPoint tables(shape);
    chains::Problem problem;
    problem.shape = shape;
    problem.is_product = slope.has_value();
    if (operands.size() != room.size()) throw std::invalid_argument("not as many operands as boundaries");
    if (criteria.size() < (slope ? 2 : 1)) throw std::invalid_argument("too few criteria");
    std::vector<std::vector<double>> rooms;
    for (const Broadcast& own : room) {
        const auto found = tables.of(own);
        rooms.emplace_back(found.begin(), found.end());
    }
    for (const std::size_t operand : operands) problem.boundaries.push_back({operand, 0, {}, {}, false});
    for (const auto& [fixed, costs] : criteria) {
        auto& own = problem.criteria.emplace_back();
        own.fixed = fixed;
        own.costs = costs_of(costs, tables);
        if (own.costs.size() != room.size())
            throw std::invalid_argument("a criterion has not a table of each boundary");
    }
    const auto found = [&] {
        const nb::gil_scoped_release without_lock;
        return chains::Means(problem, std::move(rooms)).highest_of_all(slope.value_or(0.0), enough, vain);
    }();
    return {found.least, found.weights};
}

// A row of a boundary: its operand and memory, by point the bits of room that it takes and how often its tiles come;
// whether there is room for two of them.
using BoundaryRow = std::tuple<std::size_t, std::size_t, Broadcast, std::vector<Broadcast>, bool>;
// What is waited for one by one at each boundary: how often, and how long, by point.
using Waits = std::vector<std::vector<std::tuple<Broadcast, Broadcast>>>;
// A row of a criterion: what is fixed, what each boundary costs by point or None, what more, what then, whether it is
// linear, what is waited for, and the port whose transfers it counts.
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
    return std::tuple(found.floor, found.is_least, found.steps, found.points, found.cells, found.criteria);
}

}  // namespace

void add_chains(nb::module_& module) {
    module.def("least_chain", &least_chain, "shape"_a, "operands"_a,
               "The least that boundaries cost in places that stand inside each other; of each operand from the units "
               "upwards.\n"
               "\n"
               "Costs are by point of a lattice of that shape, flat, the last dimension's fastest; infinite where "
               "there is no room.\n"
               "Or they have as many dimensions as the lattice, and one cell where they are the same in all of a "
               "dimension. Raises\n"
               "ValueError for costs that are not of each point.");
    module.def(
        "highest_mean", &highest_mean, "shape"_a, "operands"_a, "room"_a, "criteria"_a, "slope"_a.none(), "enough"_a,
        "vain"_a,
        "What the greatest of several criteria is at least of any chain, and the weights of the mean that says so.\n"
        "\n"
        "No less than any criterion by itself. A mean is looked for until it is enough, or the greatest of some chain "
        "is not\n"
        "above `vain`. With a slope it is so many times the first criterion plus the greatest of all others. "
        "`operands` and\n"
        "`room` (nothing, or infinite) are by boundary, an operand's one after the other from the units upwards. Of a\n"
        "criterion, what is fixed and what boundaries cost, or None; tables as `least_chain` takes them. Raises "
        "ValueError\n"
        "for tables that do not fit, and for too few criteria.");
    module.def("least_chain_below", &least_chain_below, "shape"_a, "may_stand_inside"_a, "leads"_a, "stays"_a,
               "short_turns"_a, "part_of_turn"_a, "counts"_a, "turns"_a, "is_single"_a, "room_bits"_a, "ports"_a,
               "fewest_turns"_a, "last_turns"_a, "is_known"_a, "boundaries"_a, "criteria"_a, "is_product"_a, "limit"_a,
               "most_steps"_a,
               "What no chain below `limit` is worth less than, if one is worth just that, steps, points, cells, and "
               "criteria.\n"
               "\n"
               "A chain is worth the greatest of its criteria, or the first times the greatest of the others. "
               "`boundaries` are their\n"
               "operand, memory, bits of room by point, how often tiles come by point as each memory sees it, and "
               "whether there is\n"
               "room for two, operands one after the other from the units upwards; `criteria` what is fixed, what each "
               "boundary\n"
               "adds, what more where none of its tiles may stay, and what beyond that, whether it is linear in how "
               "often tiles\n"
               "come, by boundary of a memory with room for one tile how often transfers are waited for one by one and "
               "how long each\n"
               "takes, and the port that it counts all transfers of. Tables are as `least_chain` takes them.\n"
               "`may_stand_inside` says by dimension, inner and outer cell, the latter fastest, whether one place may "
               "stand inside\n"
               "the other; `leads` by operand and dimension whether that leads to other elements of the operand, "
               "`counts` whether\n"
               "the part of its cell that `stays`, by dimension and cell, is one of the operand's elements; `turns` "
               "the most cycles\n"
               "that lead to a cell, `is_single` whether no loop may stand between two places in it, `fewest_turns` "
               "those of any\n"
               "part of a place but the last at least, `last_turns` those of the last, `is_known` whether both are "
               "just so many. The\n"
               "cells are by dimension those in which a chain below the limit may stand, the criteria, by their "
               "number, those that\n"
               "may count of one; none if there is no such chain.");
}

}  // namespace onchip
