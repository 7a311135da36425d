// The least chain of one criterion, with one sweep for each number of boundaries inside or outside a point; and of
// means.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
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

namespace onchip::chains {

namespace {

// Sets each value to the minimum over all points inside, including its own.
void spread_outwards(const std::vector<std::size_t>& shape, std::vector<double>& values) {
    std::size_t stride = values.size();
    for (const std::size_t length : shape) {
        const std::size_t whole = stride;
        stride /= length;
        if (length == 1) continue;
        for (std::size_t start = 0; start < values.size(); start += whole) {
            for (std::size_t at = start + stride; at < start + whole; ++at)
                values[at] = std::min(values[at], values[at - stride]);
        }
    }
}

// Sets each value to the minimum over all points outside, including its own.
void spread_inwards(const std::vector<std::size_t>& shape, std::vector<double>& values) {
    std::size_t stride = values.size();
    for (const std::size_t length : shape) {
        const std::size_t whole = stride;
        stride /= length;
        if (length == 1) continue;
        for (std::size_t start = 0; start < values.size(); start += whole) {
            for (std::size_t at = start + whole - stride; at-- > start;)
                values[at] = std::min(values[at], values[at + stride]);
        }
    }
}

// Like the above, along the dimensions that lead to an operand's elements, and without steps that end a dimension.
void spread_inwards(const std::vector<std::size_t>& shape, std::vector<double>& values,
                    const std::vector<std::uint8_t>& leads) {
    std::size_t stride = values.size();
    for (std::size_t side = 0; side < shape.size(); ++side) {
        const std::size_t whole = stride;
        stride /= shape[side];
        if (shape[side] < 3 || !leads[side]) continue;
        for (std::size_t start = 0; start < values.size(); start += whole) {
            for (std::size_t at = start + whole - 2 * stride; at-- > start;)
                values[at] = std::min(values[at], values[at + stride]);
        }
    }
}

void add(const std::vector<double>& before, Costs own, std::vector<double>& least) {
    for (std::size_t at = 0; at < least.size(); ++at) least[at] = std::min(least[at], before[at] + own[at]);
}

// A state is the number of placed boundaries of each operand.
class Sweeps {
public:
    Sweeps(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands)
        : shape_(shape), operands_(operands) {
        points_ = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
        for (const auto& own : operands) {
            step_.push_back(states_);
            states_ *= own.size() + 1;
            for (const Costs costs : own) {
                if (costs.size() != points_) throw std::invalid_argument("costs are not of each point");
            }
        }
        if (points_ == 0) throw std::invalid_argument("a lattice without points");
    }

    void fill(Inside& least) const {
        least.resize(states_);
        least[0].assign(points_, 0.0);
        for (std::size_t state = 1; state < states_; ++state) {
            least[state].assign(points_, infinity);
            for (std::size_t operand = 0; operand < operands_.size(); ++operand) {
                const std::size_t count = placed(state, operand);
                if (count > 0) add(least[state - step_[operand]], operands_[operand][count - 1], least[state]);
            }
            spread_outwards(shape_, least[state]);
        }
    }

    // Returns the least chain; follows it from the last boundary inwards.
    LeastChain least_chain(const Inside& least) const {
        LeastChain found{least.back().back(), {}};
        if (!(found.cost < infinity)) return found;
        std::vector<std::size_t> first;
        for (const auto& own : operands_) {
            first.push_back(found.points.size());
            found.points.resize(found.points.size() + own.size());
        }
        std::size_t point = points_ - 1;
        for (std::size_t state = states_ - 1; state > 0;) {
            const auto [operand, x] = last_inside(least, state, point);
            found.points[first[operand] + placed(state, operand) - 1] = x;
            state -= step_[operand];
            point = x;
        }
        return found;
    }

    // Returns the least cost of all other boundaries outside the point of the last one placed.
    Outside outside(const More& more) const {
        Outside least(operands_.size(), std::vector<std::vector<double>>(states_));
        for (std::size_t operand = 0; operand < operands_.size(); ++operand)
            least[operand][states_ - 1] = at_last(operand, more);
        for (std::size_t state = states_ - 1; state-- > 0;) {
            std::vector<double> next(points_, infinity);
            for (std::size_t operand = 0; operand < operands_.size(); ++operand) {
                const std::size_t count = placed(state, operand);
                if (count < operands_[operand].size())
                    add(least[operand][state + step_[operand]], operands_[operand][count], next);
            }
            auto all = next;
            spread_inwards(shape_, all);
            for (std::size_t operand = 0; operand < operands_.size(); ++operand) {
                const std::size_t count = placed(state, operand);
                if (count == 0) continue;
                const Costs own = more.costs[operand][count - 1];
                least[operand][state] = own.empty() ? all : followed(own, more.leads[operand], next, all);
            }
        }
        return least;
    }

    // `after` is the result of `outside`.
    Through through(const Outside& after) const {
        Inside before;
        fill(before);
        Through found;
        for (std::size_t operand = 0; operand < operands_.size(); ++operand) {
            auto& own = found.emplace_back();
            for (const Costs costs : operands_[operand]) {
                auto& least = own.emplace_back(points_, infinity);
                for (std::size_t state = 0; state < states_; ++state) {
                    if (placed(state, operand) + 1 != own.size()) continue;
                    const auto& first = before[state];
                    const auto& last = after[operand][state + step_[operand]];
                    for (std::size_t at = 0; at < points_; ++at)
                        least[at] = std::min(least[at], first[at] + costs[at] + last[at]);
                }
            }
        }
        return found;
    }

private:
    // Returns the operand and the point of the last boundary placed, for the least chain of a state inside a point.
    std::pair<std::size_t, std::size_t> last_inside(const Inside& least, std::size_t state, std::size_t point) const {
        for (std::size_t operand = 0; operand < operands_.size(); ++operand) {
            const std::size_t count = placed(state, operand);
            if (count == 0) continue;
            const auto& before = least[state - step_[operand]];
            const Costs own = operands_[operand][count - 1];
            for (std::size_t x = 0; x <= point; ++x) {
                if (before[x] + own[x] == least[state][point] && is_inside(x, point)) return {operand, x};
            }
        }
        throw std::logic_error("no boundary costs what the least chain does");
    }

    bool is_inside(std::size_t inner, std::size_t outer) const {
        for (std::size_t side = shape_.size(); side-- > 0; inner /= shape_[side], outer /= shape_[side]) {
            if (inner % shape_[side] > outer % shape_[side]) return false;
        }
        return true;
    }

    // Returns at each point the minimum of `next` outside it, including the cost that the boundary at the point adds
    // then.
    std::vector<double> followed(Costs more, const std::vector<std::uint8_t>& leads, const std::vector<double>& next,
                                 const std::vector<double>& all) const {
        auto free = next;
        spread_inwards(shape_, free, leads);
        std::size_t stride = points_;
        for (std::size_t side = 0; side < shape_.size(); ++side) {
            const std::size_t whole = stride;
            stride /= shape_[side];
            if (leads[side]) continue;
            for (std::size_t start = 0; start < points_; start += whole) {
                for (std::size_t at = start; at < start + whole - stride; ++at)
                    free[at] = std::min(free[at], all[at + stride]);
            }
        }
        for (std::size_t at = 0; at < points_; ++at) free[at] = std::min(free[at], all[at] + more[at]);
        return free;
    }

    // Returns the cost added by an operand's last boundary if no others are outside its point: nonzero where only
    // dimensions that lead to its elements remain. All of them end.
    std::vector<double> at_last(std::size_t operand, const More& more) const {
        std::vector<double> found(points_, 0.0);
        const Costs own = operands_[operand].empty() ? Costs() : more.costs[operand].back();
        if (own.empty()) return found;
        std::copy(own.begin(), own.end() - 1, found.begin());
        std::size_t stride = points_;
        for (std::size_t side = 0; side < shape_.size(); ++side) {
            const std::size_t whole = stride;
            stride /= shape_[side];
            if (more.leads[operand][side]) continue;
            for (std::size_t start = 0; start < points_; start += whole)
                std::fill_n(found.begin() + static_cast<std::ptrdiff_t>(start), whole - stride, 0.0);
        }
        return found;
    }

    std::size_t placed(std::size_t state, std::size_t operand) const {
        return state / step_[operand] % (operands_[operand].size() + 1);
    }

    const std::vector<std::size_t>& shape_;
    const std::vector<std::vector<Costs>>& operands_;
    std::size_t points_ = 0;
    std::vector<std::size_t> step_;  // stride of an operand's count among states
    std::size_t states_ = 1;
};

}  // namespace

double least_cost(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands) {
    Inside inside;
    Sweeps(shape, operands).fill(inside);
    return inside.back().back();
}

LeastChain least_chain(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                       Inside& inside) {
    const Sweeps sweeps(shape, operands);
    sweeps.fill(inside);
    return sweeps.least_chain(inside);
}

Through costs_through(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                      const More& more, Outside& outside) {
    const Sweeps sweeps(shape, operands);
    outside = sweeps.outside(more);
    return sweeps.through(outside);
}

// Weights are improved with the chains that minimise the means: each chain tells its cost under other weights.

namespace {

constexpr int criteria_joined = 3;  // criteria mixed in, one after the other, starting from a single criterion
constexpr int looks = 4;            // means evaluated on the way to a criterion
constexpr double close = 1e-6;
constexpr double near = 0.05;  // of the possible gain

// The cost of a chain as a function of the weight, from one mean (at 0) to another (at 1).
struct Line {
    double first, last;

    double at(double part) const { return first + part * (last - first); }
    double rise() const { return last - first; }
};

Weights between(const Weights& one, const Weights& two, double part) {
    Weights found;
    for (std::size_t k = 0; k < one.size(); ++k) found.push_back((1 - part) * one[k] + part * two[k]);
    return found;
}

}  // namespace

Means::Means(const Problem& problem, std::vector<std::vector<double>> room)
    : problem_(problem), room_(std::move(room)) {}

Weights Means::weights_of(std::size_t criterion, double slope) const {
    Weights found(problem_.criteria.size(), 0.0);
    if (problem_.is_product) found[0] = slope;
    found[criterion] = 1.0;
    return found;
}

Mean Means::alone(std::size_t criterion) {
    return of(weights_of(criterion, 0.0));
}

Mean Means::of(Weights weights) {
    tables_ = room_;
    std::vector<std::vector<Costs>> operands;
    double fixed = 0.0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
        if (weights[k] == 0.0) continue;
        const Criterion& own = problem_.criteria[k];
        fixed += weights[k] * own.fixed;
        for (std::size_t b = 0; b < tables_.size(); ++b) {
            for (std::size_t x = 0; x < own.costs[b].size(); ++x) tables_[b][x] += weights[k] * own.costs[b][x];
        }
    }
    for (std::size_t b = 0; b < tables_.size(); ++b) {
        operands.resize(std::max(operands.size(), problem_.boundaries[b].operand + 1));
        operands[problem_.boundaries[b].operand].emplace_back(tables_[b]);
    }
    const LeastChain chain = least_chain(problem_.shape, operands, inside_);
    std::vector<double> criteria;
    for (const Criterion& own : problem_.criteria) {
        double cost = own.fixed;
        for (std::size_t b = 0; b < chain.points.size(); ++b)
            cost += own.costs[b].empty() ? 0.0 : own.costs[b][chain.points[b]];
        criteria.push_back(cost);
    }
    return {std::move(weights), fixed + chain.cost, std::move(criteria)};
}

double Means::weighed(const Weights& weights, const std::vector<double>& criteria) const {
    double found = 0.0;
    for (std::size_t k = problem_.is_product; k < weights.size(); ++k) {
        if (weights[k] > 0.0) found += weights[k] * criteria[k];
    }
    return found;
}

Mean Means::highest(std::size_t criterion, double slope, double enough) {
    Mean found = of(weights_of(criterion, slope));
    for (int joined = 0; joined < criteria_joined && found.least < enough; ++joined) {
        const double mean = weighed(found.weights, found.criteria);
        std::size_t most = criterion;
        for (std::size_t k = problem_.is_product; k < found.criteria.size(); ++k) {
            if (std::isfinite(found.criteria[k]) && found.criteria[k] > found.criteria[most]) most = k;
        }
        if (!(found.criteria[most] > mean * (1 + close))) break;
        const double before = found.least;
        found = towards(found, most, enough);
        if (!(found.least > before * (1 + close))) break;
    }
    return found;
}

Mean Means::towards(const Mean& from, std::size_t criterion, double enough) {
    const Weights last_weights = weights_of(criterion, from.weights[0]);
    const auto line_of = [&](const Mean& mean) {
        const double common = problem_.is_product ? from.weights[0] * mean.criteria[0] : 0.0;
        return Line{common + weighed(from.weights, mean.criteria), common + mean.criteria[criterion]};
    };
    Mean found = from, last = of(last_weights);
    Line rising = line_of(from), falling = line_of(last);
    if (last.least > found.least) found = last;
    for (int look = 0; look < looks && falling.rise() < 0.0 && found.least < enough; ++look) {
        const double part = (falling.first - rising.first) / (rising.rise() - falling.rise());
        if (!(part > 0.0 && part < 1.0)) break;
        Mean next = of(between(from.weights, last_weights, part));
        const Line own = line_of(next);
        const double most = rising.at(part);
        (own.rise() > 0.0 ? rising : falling) = own;
        const bool is_near = most - next.least <= near * (most - from.least);
        if (next.least > found.least) found = std::move(next);
        if (is_near) break;
    }
    return found;
}

double least_product(double first, double second, double slope, double least_sum) {
    if (slope * first + second >= least_sum) return first * second;
    return std::min(first * (least_sum - slope * first), (least_sum - second) / slope * second);
}

}  // namespace onchip::chains

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `least_chain` and `least_chain_below`.

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
