// What is left of all points is searched from the units outwards.

#include "chain_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "chain_searching.hpp"

namespace onchip::chains {

namespace {

constexpr int rounds = 2;
constexpr std::size_t points_a_step = 16;  // that are passed over as they cannot follow

}  // namespace

Found Search::run() {
    for (int round = 0; round < rounds && take_out(); ++round) {
    }
    if (floor_ >= limit_) return {limit_, true, steps_, {}, {}};
    list();
    auto cells = cells_left();
    placed_.assign(count_.size(), 0);
    chosen_.assign(problem_.boundaries.size(), 0);
    used_bits_.assign(problem_.room_bits.size(), 0.0);
    chain_.without_window.assign(problem_.ports.size(), 0.0);
    Found found = look_ever_higher();
    found.cells = std::move(cells);
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
        if (!is_whole) return {std::min(std::max(proven, not_looked_into_), limit_), false, steps_, best_, {}};
        if (!best_.empty()) break;
        proven = limit_;
    }
    return {limit_, true, steps_, best_, {}};
}

double Search::guided(std::size_t boundary, std::size_t state, std::size_t x, std::vector<double>& sums) const {
    const std::size_t operand = problem_.boundaries[boundary].operand;
    for (std::size_t k = 0; k < sums.size(); ++k) {
        const Criterion& own = problem_.criteria[k];
        if (!own.guides) continue;
        sums[k] += (own.costs[boundary].empty() ? 0.0 : own.costs[boundary][x]) + outside_[k][operand][state][x];
    }
    return worth(sums);
}

double Search::worth_of(std::size_t boundary, std::size_t state, std::size_t x, std::vector<double>& sums) const {
    const std::size_t operand = problem_.boundaries[boundary].operand;
    for (std::size_t k = 0; k < sums.size(); ++k) {
        const Criterion& own = problem_.criteria[k];
        sums[k] += (own.costs[boundary].empty() ? 0.0 : own.costs[boundary][x]);
        if (own.guides) sums[k] += outside_[k][operand][state][x];
    }
    return worth(sums);
}

void Search::go_on(std::size_t state, std::size_t point, std::size_t least_operand, const std::vector<double>& added) {
    if (state + 1 == states_) {
        end(added);
        return;
    }
    std::vector<Step> steps;
    std::vector<double> sums;
    Chain chain;
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
            chain = chain_;
            follow(problem_, at_, b, x, chain, sums);
            const double least = worth_of(b, state + step_[operand], x, sums);
            if (least < limit_) steps.push_back({least, operand, x});
        }
    }
    std::sort(steps.begin(), steps.end(), [](const Step& one, const Step& two) {
        return one.worth != two.worth ? one.worth < two.worth
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

void Search::end(const std::vector<double>& added) {
    std::vector<double> whole(added);
    Chain chain = chain_;
    chains::end(problem_, at_, chain, whole);
    const double found = worth(whole);
    if (!(found < limit_)) return;
    limit_ = found;
    best_ = chosen_;
}

void Search::take(const Step& step, std::size_t state, const std::vector<double>& added) {
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
    go_on(state + step_[step.operand], step.point, step.operand, next);
    chain_ = before;
    used_bits_[own.memory] -= own.bits[step.point];
    --placed_[step.operand];
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
