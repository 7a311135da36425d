// One sweep for each number of boundaries inside a point, and one for each number outside.

#include "chains.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

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

}  // namespace onchip::chains
