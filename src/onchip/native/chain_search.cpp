// Points that no chain below the limit goes through are taken out; what is left is searched from the units outwards.

#include "chain_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "chain_tiles.hpp"

namespace onchip::chains {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int rounds = 3;
constexpr std::size_t points_a_step = 16;  // that are passed over as they cannot follow

class Search {
public:
    Search(const Problem& problem, double limit, std::size_t most_steps)
        : problem_(problem), limit_(limit), most_steps_(most_steps) {
        points_ = std::accumulate(problem.shape.begin(), problem.shape.end(), std::size_t{1}, std::multiplies<>());
        if (!is_of_each_point(problem, points_)) throw std::invalid_argument("costs are not of each point");
        for (const Boundary& own : problem.boundaries) {
            if (count_.size() <= own.operand) count_.resize(own.operand + 1, 0);
            ++count_[own.operand];
        }
        for (const std::size_t own : count_) {
            first_.push_back(step_.empty() ? 0 : first_.back() + count_[step_.size() - 1]);
            step_.push_back(states_);
            states_ *= own + 1;
        }
        lay_out();
    }

    Found run() {
        for (int round = 0; round < rounds && take_out(); ++round) {
        }
        if (floor_ >= limit_) return {limit_, true, steps_, {}, {}};
        list();
        auto cells = cells_left();
        placed_.assign(count_.size(), 0);
        chosen_.assign(problem_.boundaries.size(), 0);
        used_bits_.assign(problem_.room_bits.size(), 0.0);
        Found found = look_ever_higher();
        found.cells = std::move(cells);
        return found;
    }

private:
    // A search that is cut short says no more than where it began. So what is below a part of the way to the limit is
    // looked into first: if that ends, there is none below it, or the least is found.
    Found look_ever_higher() {
        std::vector<double> added;
        for (const Criterion& own : problem_.criteria) added.push_back(own.fixed);
        const double limit = limit_, first = floor_;
        double proven = floor_;
        for (double part = std::isfinite(limit) ? 1.0 / 32 : 1.0; part <= 1.0; part *= 2) {
            limit_ = part < 1.0 ? first + part * (limit - first) : limit;
            go_on(0, 0, 0, added);
            const bool is_whole = not_looked_into_ >= limit_;
            if (!is_whole) return {std::min(std::max(proven, not_looked_into_), limit_), false, steps_, best_, {}};
            if (!best_.empty()) break;
            proven = limit_;
        }
        return {limit_, true, steps_, best_, {}};
    }

    // Coordinates of points, and which points have room.
    void lay_out() {
        const std::size_t sides = problem_.shape.size();
        at_.resize(points_ * sides);
        for (std::size_t point = 0; point < points_; ++point) {
            std::size_t rest = point;
            for (std::size_t side = sides; side-- > 0; rest /= problem_.shape[side])
                at_[point * sides + side] = static_cast<std::uint16_t>(rest % problem_.shape[side]);
        }
        alive_.assign(problem_.boundaries.size(), std::vector<std::uint8_t>(points_, 1));
    }

    // Each boundary's least bits among points that are left; what all others of a memory take at least is no room.
    void take_out_without_room() {
        least_bits_.clear();
        std::vector<double> together(problem_.room_bits.size(), 0.0);
        for (std::size_t b = 0; b < problem_.boundaries.size(); ++b) {
            double least = infinity;
            for (std::size_t x = 0; x < points_; ++x) {
                if (alive_[b][x]) least = std::min(least, problem_.boundaries[b].bits[x]);
            }
            least_bits_.push_back(least);
            together[problem_.boundaries[b].memory] += least;
        }
        for (std::size_t b = 0; b < problem_.boundaries.size(); ++b) {
            const Boundary& own = problem_.boundaries[b];
            const double room = problem_.room_bits[own.memory] - (together[own.memory] - least_bits_[b]);
            for (std::size_t x = 0; x < points_; ++x) {
                if (!(own.bits[x] <= room)) alive_[b][x] = 0;
            }
        }
    }

    double worth(const std::vector<double>& criteria) const {
        if (problem_.is_product) return criteria[0] * *std::max_element(criteria.begin() + 1, criteria.end());
        return *std::max_element(criteria.begin(), criteria.end());
    }

    // Points through which all chains are worth too much; whether any was taken out.
    bool take_out() {
        take_out_without_room();
        const std::size_t count = problem_.boundaries.size();
        std::vector<std::vector<double>> first(count), others(count);
        outside_.assign(problem_.criteria.size(), {});
        for (std::size_t k = 0; k < problem_.criteria.size(); ++k) {
            if (!problem_.criteria[k].guides) continue;
            const auto costs = costs_left(k), moving = costs_if_all_move(problem_.criteria[k]);
            std::vector<std::vector<Costs>> operands(count_.size());
            More more{std::vector<std::vector<Costs>>(count_.size()), problem_.leads};
            for (std::size_t b = 0; b < count; ++b) {
                operands[problem_.boundaries[b].operand].emplace_back(costs[b]);
                more.costs[problem_.boundaries[b].operand].emplace_back(moving[b]);
            }
            auto through = costs_through(problem_.shape, operands, more, outside_[k]);
            std::size_t b = 0;
            for (auto& own : through) {
                for (auto& table : own) {
                    for (double& one : table) one += problem_.criteria[k].fixed;
                    auto& most = problem_.is_product && k == 0 ? first[b] : others[b];
                    if (most.empty())
                        most = std::move(table);
                    else
                        for (std::size_t x = 0; x < points_; ++x) most[x] = std::max(most[x], table[x]);
                    ++b;
                }
            }
        }
        bool is_less = false;
        floor_ = 0.0;
        for (std::size_t b = 0; b < count; ++b) {
            double least = infinity;
            for (std::size_t x = 0; x < points_; ++x) {
                if (!alive_[b][x]) continue;
                const double own = problem_.is_product ? first[b][x] * others[b][x] : others[b][x];
                least = std::min(least, own);
                if (!(own < limit_)) {
                    alive_[b][x] = 0;
                    is_less = true;
                }
            }
            floor_ = std::max(floor_, least);
        }
        return is_less && floor_ < limit_;
    }

    std::vector<std::vector<double>> costs_left(std::size_t k) const {
        std::vector<std::vector<double>> found;
        for (std::size_t b = 0; b < problem_.boundaries.size(); ++b) {
            const Costs own = problem_.criteria[k].costs[b];
            auto& costs = found.emplace_back(points_, 0.0);
            for (std::size_t x = 0; x < points_; ++x) costs[x] = !alive_[b][x] ? infinity : own.empty() ? 0.0 : own[x];
        }
        return found;
    }

    void list() {
        left_.assign(problem_.boundaries.size(), {});
        for (std::size_t b = 0; b < problem_.boundaries.size(); ++b) {
            for (std::size_t x = 0; x < points_; ++x) {
                if (alive_[b][x]) left_[b].push_back(x);
            }
        }
    }

    std::vector<std::vector<std::uint8_t>> cells_left() const {
        const std::size_t sides = problem_.shape.size();
        std::vector<std::vector<std::uint8_t>> found;
        for (const std::size_t length : problem_.shape) found.emplace_back(length, std::uint8_t{0});
        for (const auto& points : left_) {
            for (const std::size_t x : points) {
                for (std::size_t side = 0; side < sides; ++side) found[side][at_[x * sides + side]] = 1;
            }
        }
        return found;
    }

    bool may_follow(std::size_t inner, std::size_t outer) const {
        const std::size_t sides = problem_.shape.size();
        for (std::size_t side = 0; side < sides; ++side) {
            const std::size_t one = at_[inner * sides + side], two = at_[outer * sides + side];
            if (one > two || !problem_.may_stand_inside[side][one * problem_.shape[side] + two]) return false;
        }
        return true;
    }

    struct Step {
        double worth;
        std::size_t operand;
        std::size_t point;
    };

    // The worth by criteria that guide alone, as if no tile moved that may stay.
    double guided(std::size_t boundary, std::size_t state, std::size_t x, std::vector<double>& sums) const {
        const std::size_t operand = problem_.boundaries[boundary].operand;
        for (std::size_t k = 0; k < sums.size(); ++k) {
            const Criterion& own = problem_.criteria[k];
            if (!own.guides) continue;
            sums[k] += (own.costs[boundary].empty() ? 0.0 : own.costs[boundary][x]) + outside_[k][operand][state][x];
        }
        return worth(sums);
    }

    // What the rest adds at least to each criterion from a point on.
    double worth_of(std::size_t boundary, std::size_t state, std::size_t x, std::vector<double>& sums) const {
        const std::size_t operand = problem_.boundaries[boundary].operand;
        for (std::size_t k = 0; k < sums.size(); ++k) {
            const Criterion& own = problem_.criteria[k];
            sums[k] += (own.costs[boundary].empty() ? 0.0 : own.costs[boundary][x]);
            if (own.guides) sums[k] += outside_[k][operand][state][x];
        }
        return worth(sums);
    }

    // After a place in `point` where, of operands placed just there, `least_operand` was the last.
    void go_on(std::size_t state, std::size_t point, std::size_t least_operand, const std::vector<double>& added) {
        if (state + 1 == states_) {
            end(added);
            return;
        }
        std::vector<Step> steps;
        std::vector<double> sums;
        std::vector<Placed> tiles;
        for (std::size_t operand = 0; operand < count_.size(); ++operand) {
            if (placed_[operand] == count_[operand]) continue;
            const std::size_t b = first_[operand] + placed_[operand];
            const Boundary& own = problem_.boundaries[b];
            const double coming = used_bits_[own.memory] + coming_bits(own.memory, b);
            steps_ += left_[b].size() / points_a_step + 1;
            for (const std::size_t x : left_[b]) {
                if (state > 0 && (!may_follow(point, x) || (x == point && operand < least_operand))) continue;
                if (!(own.bits[x] + coming <= problem_.room_bits[own.memory])) continue;
                ++steps_;
                sums = added;
                if (!(guided(b, state + step_[operand], x, sums) < limit_)) continue;
                sums = added;
                tiles = tiles_;
                follow(problem_, at_, b, x, tiles, sums);
                const double least = worth_of(b, state + step_[operand], x, sums);
                if (least < limit_) steps.push_back({least, operand, x});
            }
        }
        std::sort(steps.begin(), steps.end(), [](const Step& one, const Step& two) {
            return one.worth != two.worth
                       ? one.worth < two.worth
                       : (one.point != two.point ? one.point < two.point : one.operand < two.operand);
        });
        for (const Step& step : steps) {
            if (!(step.worth < limit_)) return;
            if (steps_ >= most_steps_) {
                not_looked_into_ = std::min(not_looked_into_, step.worth);
                return;
            }
            take(step, state, added);
        }
    }

    // Outside all places stand all loops: a dimension that moves on from the last place ends there.
    void end(const std::vector<double>& added) {
        std::vector<double> whole(added);
        std::vector<Placed> tiles = tiles_;
        go_outside(problem_, at_, points_ - 1, tiles, whole);
        const double found = worth(whole);
        if (!(found < limit_)) return;
        limit_ = found;
        best_ = chosen_;
    }

    void take(const Step& step, std::size_t state, const std::vector<double>& added) {
        std::vector<double> next(added);
        const std::vector<Placed> before = tiles_;
        const std::size_t b = first_[step.operand] + placed_[step.operand];
        follow(problem_, at_, b, step.point, tiles_, next);
        const Boundary& own = problem_.boundaries[b];
        for (std::size_t k = 0; k < next.size(); ++k) {
            const Costs costs = problem_.criteria[k].costs[b];
            if (!costs.empty()) next[k] += costs[step.point];
        }
        ++placed_[step.operand];
        used_bits_[own.memory] += own.bits[step.point];
        chosen_[b] = step.point;
        tiles_.push_back({b, step.point, 1.0});
        go_on(state + step_[step.operand], step.point, step.operand, next);
        tiles_ = before;
        used_bits_[own.memory] -= own.bits[step.point];
        --placed_[step.operand];
    }

    // What boundaries that are not placed yet will take of a memory, but for one of them.
    double coming_bits(std::size_t memory, std::size_t but) const {
        double found = 0.0;
        for (std::size_t b = 0; b < problem_.boundaries.size(); ++b) {
            const Boundary& own = problem_.boundaries[b];
            if (b != but && own.memory == memory && b - first_[own.operand] >= placed_[own.operand])
                found += least_bits_[b];
        }
        return found;
    }

    const Problem& problem_;
    double limit_;
    std::size_t most_steps_;
    std::size_t points_ = 0, states_ = 1, steps_ = 0;
    std::vector<std::size_t> count_, first_, step_;  // by operand: boundaries, the first of them, its step in a state
    std::vector<std::uint16_t> at_;                  // by point, its cell along each dimension
    std::vector<std::vector<std::uint8_t>> alive_;   // by boundary and point
    std::vector<std::vector<std::size_t>> left_;
    std::vector<double> least_bits_, used_bits_;
    std::vector<Outside> outside_;  // by criterion
    std::vector<std::size_t> placed_, chosen_, best_;
    std::vector<Placed> tiles_;  // of boundaries placed
    double floor_ = 0.0;
    double not_looked_into_ = infinity;  // the least worth of steps that were left
};

}  // namespace

Found least_chain_below(const Problem& problem, double limit, std::size_t most_steps) {
    return Search(problem, limit, most_steps).run();
}

}  // namespace onchip::chains
