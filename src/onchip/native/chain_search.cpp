// Depth-first search over the remaining points, from the units outwards.

#include "chain_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "chain_searching.hpp"

namespace onchip::chains {

namespace {

constexpr std::size_t most_guides = 2;     // single criteria under the maximum that guide, without means
constexpr std::size_t points_a_step = 16;  // infeasible successors that count as one step

}  // namespace

Found Search::run() {
    const bool is_one = problem_.criteria.size() == 1;
    take_out_without_room();
    choose_guides(1);
    const bool is_less = take_out(is_one);
    if (floor_ < limit_ && (is_less || !is_one)) {
        take_out_without_room();
        take_out_criteria();
        choose_guides(most_guides);
        take_out(true);
    }
    if (floor_ >= limit_) return {limit_, true, steps_, {}, {}, {}};
    gather();
    auto cells = cells_left();
    placed_.assign(count_.size(), 0);
    chosen_.assign(problem_.boundaries.size(), 0);
    last_place_.assign(problem_.boundaries.size(), 0);
    used_bits_.assign(problem_.room_bits.size(), 0.0);
    chain_.without_window.assign(problem_.ports.size(), 0.0);
    Found found = look_ever_higher();
    found.cells = std::move(cells);
    found.criteria = counting_;
    return found;
}

Found Search::look_ever_higher() {
    std::vector<double> added;
    for (const Criterion& own : problem_.criteria) added.push_back(own.fixed);
    const double limit = limit_, first = floor_;
    double proven = floor_;
    for (double part = std::isfinite(limit) ? 1.0 / 32 : 1.0; part <= 1.0; part *= 2) {
        limit_ = part < 1.0 ? first + part * (limit - first) : limit;
        go_on(0, 0, 0, added);
        const bool is_whole = not_looked_into_ >= limit_;
        if (!is_whole) return {std::min(std::max(proven, not_looked_into_), limit_), false, steps_, best_, {}, {}};
        if (!best_.empty()) break;
        proven = limit_;
    }
    return {limit_, true, steps_, best_, {}, {}};
}

double Search::most_of_others(const std::vector<double>& added) const {
    double most = 0.0;
    for (std::size_t k = problem_.is_product; k < added.size(); ++k) {
        if (!guides_alone_[k]) most = std::max(most, added[k]);
    }
    return most;
}

double Search::most_of_others(const std::vector<double>& added, std::size_t boundary, std::size_t x) const {
    double most = 0.0;
    for (std::size_t k = problem_.is_product; k < added.size(); ++k) {
        if (guides_alone_[k]) continue;
        const Costs costs = problem_.criteria[k].costs[boundary];
        most = std::max(most, added[k] + (costs.empty() ? 0.0 : costs[x]));
    }
    return most;
}

bool Search::may_follow(std::size_t inner, const std::uint16_t* outer) const {
    const std::size_t sides = problem_.shape.size();
    for (const std::size_t side : sides_) {
        const std::size_t one = at_[inner * sides + side], two = *outer++;
        if (one > two || !problem_.may_stand_inside[side][one * problem_.shape[side] + two]) return false;
    }
    return true;
}

std::optional<std::size_t> Search::go_on(std::size_t state, std::size_t point, std::size_t least_operand,
                                         const std::vector<double>& added) {
    if (state + 1 == states_) {
        end(added);
        return std::nullopt;
    }
    const auto steps = steps_from(state, point, least_operand, added);
    if (steps.empty()) return without_place(point, added);
    for (const Step& step : steps) {
        if (!(step.worth < limit_)) return std::nullopt;
        if (steps_ >= most_steps_) {
            not_looked_into_ = std::min(not_looked_into_, step.worth);
            return std::nullopt;
        }
        const auto boundary = take(step, state, added);
        if (boundary && !has_place(*boundary, point, added)) return boundary;
    }
    return std::nullopt;
}

std::vector<Search::Step> Search::steps_from(std::size_t state, std::size_t point, std::size_t least_operand,
                                             const std::vector<double>& added) {
    std::vector<Step> steps;
    std::vector<double> sums;
    Chain chain;
    const double others = most_of_others(added);
    const auto have = guided(added);
    for (std::size_t operand = 0; operand < count_.size(); ++operand) {
        if (placed_[operand] == count_[operand]) continue;
        const std::size_t b = first_[operand] + placed_[operand];
        const Boundary& own = problem_.boundaries[b];
        const double room = problem_.room_bits[own.memory] - used_bits_[own.memory] - coming_bits(own.memory, b);
        const auto& left = left_[b];
        const std::size_t start = std::lower_bound(left.begin(), left.end(), point) - left.begin();
        const double* through = through_[operand][state + step_[operand]].data() + start * guides_.size();
        const std::uint16_t* cells = cells_[b].data() + start * sides_.size();
        steps_ += (left.size() - start) / points_a_step + 1;
        for (std::size_t at = start; at < left.size(); ++at, through += guides_.size(), cells += sides_.size()) {
            const std::size_t x = left[at];
            if (!(at_least(through, have, others) < limit_) || !(own.bits[x] <= room)) continue;
            if (state > 0 && (!may_follow(point, cells) || (x == point && operand < least_operand))) continue;
            ++steps_;
            sums = added;
            chain = chain_;
            follow(problem_, at_, b, x, chain, sums);
            const double least = at_least(through, guided(sums), most_of_others(sums, b, x));
            if (least < limit_) steps.push_back({least, operand, x});
        }
    }
    std::sort(steps.begin(), steps.end(), [](const Step& one, const Step& two) {
        return one.worth != two.worth ? one.worth < two.worth
                                      : (one.point != two.point ? one.point < two.point : one.operand < two.operand);
    });
    return steps;
}

std::optional<std::size_t> Search::without_place(std::size_t point, const std::vector<double>& added) {
    if (problem_.ports.empty()) return std::nullopt;
    for (std::size_t operand = 0; operand < count_.size(); ++operand) {
        if (placed_[operand] == count_[operand]) continue;
        const std::size_t b = first_[operand] + placed_[operand];
        if (!has_place(b, point, added)) return b;
    }
    return std::nullopt;
}

bool Search::has_place(std::size_t boundary, std::size_t point, const std::vector<double>& added) {
    const Boundary& own = problem_.boundaries[boundary];
    const double room = problem_.room_bits[own.memory] - used_bits_[own.memory] - coming_bits(own.memory, boundary);
    std::vector<double> others(added), sums;
    for (std::size_t b = 0; b < left_.size(); ++b) {
        const std::size_t operand = problem_.boundaries[b].operand;
        if (b == boundary || b - first_[operand] < placed_[operand]) continue;
        for (std::size_t k = 0; k < others.size(); ++k) others[k] += least_costs_[b][k];
    }
    const std::vector<double> nothing(guides_.size(), 0.0);
    const auto is_place = [&](std::size_t x) {
        if (!(own.bits[x] <= room) || !is_outside(x, point)) return false;
        ++steps_;
        sums = others;
        for (std::size_t k = 0; k < sums.size(); ++k) {
            const Costs costs = problem_.criteria[k].costs[boundary];
            if (!costs.empty()) sums[k] += costs[x];
        }
        follow_at_least(problem_, at_, boundary, x, chain_, sums);
        return at_least(nothing.data(), guided(sums), most_of_others(sums)) < limit_;
    };
    const auto& left = left_[boundary];
    if (!left.empty() && is_place(left[last_place_[boundary]])) return true;
    const auto found = std::find_if(std::lower_bound(left.begin(), left.end(), point), left.end(), is_place);
    if (found == left.end()) return false;
    last_place_[boundary] = found - left.begin();
    return true;
}

bool Search::is_outside(std::size_t outer, std::size_t inner) const {
    const std::size_t sides = problem_.shape.size();
    for (std::size_t side = 0; side < sides; ++side) {
        if (at_[inner * sides + side] > at_[outer * sides + side]) return false;
    }
    return true;
}

void Search::end(const std::vector<double>& added) {
    std::vector<double> whole(added);
    Chain chain = chain_;
    chains::end(problem_, at_, chain, whole);
    const double found = worth(whole);
    if (!(found < limit_)) return;
    limit_ = found;
    best_ = chosen_;
}

std::optional<std::size_t> Search::take(const Step& step, std::size_t state, const std::vector<double>& added) {
    std::vector<double> next(added);
    const Chain before = chain_;
    const std::size_t b = first_[step.operand] + placed_[step.operand];
    follow(problem_, at_, b, step.point, chain_, next);
    const Boundary& own = problem_.boundaries[b];
    for (std::size_t k = 0; k < next.size(); ++k) {
        const Costs costs = problem_.criteria[k].costs[b];
        if (!costs.empty()) next[k] += costs[step.point];
    }
    ++placed_[step.operand];
    used_bits_[own.memory] += own.bits[step.point];
    chosen_[b] = step.point;
    const auto found = go_on(state + step_[step.operand], step.point, step.operand, next);
    chain_ = before;
    used_bits_[own.memory] -= own.bits[step.point];
    --placed_[step.operand];
    return found;
}

double Search::coming_bits(std::size_t memory, std::size_t but) const {
    double found = 0.0;
    for (std::size_t b = 0; b < problem_.boundaries.size(); ++b) {
        const Boundary& own = problem_.boundaries[b];
        if (b != but && own.memory == memory && b - first_[own.operand] >= placed_[own.operand])
            found += least_bits_[b];
    }
    return found;
}

Found least_chain_below(const Problem& problem, double limit, std::size_t most_steps) {
    return Search(problem, limit, most_steps).run();
}

}  // namespace onchip::chains
