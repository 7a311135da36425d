// The search: elimination of points, then depth-first search over the remaining points, from the units outwards.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "chains.hpp"

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
    if (floor_ >= limit_) return {limit_, true, steps_, {}, {}};
    gather();
    auto cells = cells_left();
    placed_.assign(count_.size(), 0);
    chosen_.assign(problem_.boundaries.size(), 0);
    last_place_.assign(problem_.boundaries.size(), 0);
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

// Elimination of the points that no chain below the limit passes through, in rounds.

Search::Search(const Problem& problem, double limit, std::size_t most_steps)
    : problem_(problem), limit_(limit), most_steps_(most_steps) {
    points_ = std::accumulate(problem.shape.begin(), problem.shape.end(), std::size_t{1}, std::multiplies<>());
    if (!is_of_each_point(problem, points_)) throw std::invalid_argument("costs are not of each point");
    if (problem.criteria.size() <= problem.is_product)
        throw std::invalid_argument("no criterion of which the greatest counts");
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

void Search::lay_out() {
    const std::size_t sides = problem_.shape.size();
    at_.resize(points_ * sides);
    for (std::size_t point = 0; point < points_; ++point) {
        std::size_t rest = point;
        for (std::size_t side = sides; side-- > 0; rest /= problem_.shape[side])
            at_[point * sides + side] = static_cast<std::uint16_t>(rest % problem_.shape[side]);
    }
    alive_.assign(problem_.boundaries.size(), std::vector<std::uint8_t>(points_, 1));
}

void Search::take_out_without_room() {
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

double Search::worth(const std::vector<double>& criteria) const {
    if (problem_.is_product) return criteria[0] * *std::max_element(criteria.begin() + 1, criteria.end());
    return *std::max_element(criteria.begin(), criteria.end());
}

bool Search::take_out(bool is_last) {
    std::vector<std::vector<std::vector<double>>> through;  // by guide, boundary and point
    columns_.clear();
    list();
    for (const Guide& guide : guides_) through.push_back(costs_through_points(guide, is_last));
    std::vector<double> here(guides_.size());
    const auto have = guided(fixed_costs());
    floor_ = 0.0;
    bool is_less = false;
    for (std::size_t b = 0; b < left_.size(); ++b) {
        double least = infinity;
        for (const std::size_t x : left_[b]) {
            for (std::size_t guide = 0; guide < here.size(); ++guide) here[guide] = through[guide][b][x];
            const double own = at_least(here.data(), have, 0.0);
            least = std::min(least, own);
            if (own < limit_) continue;
            alive_[b][x] = 0;
            is_less = true;
        }
        floor_ = std::max(floor_, least);
    }
    return is_less;
}

std::vector<double> Search::fixed_costs() const {
    std::vector<double> found;
    for (const Criterion& own : problem_.criteria) found.push_back(own.fixed);
    return found;
}

std::vector<std::vector<double>> Search::costs_through_points(const Guide& guide, bool is_last) {
    const auto costs = costs_left(guide), moving = costs_if_all_move(guide);
    std::vector<std::vector<Costs>> operands(count_.size());
    More more{std::vector<std::vector<Costs>>(count_.size()), problem_.leads};
    for (std::size_t b = 0; b < costs.size(); ++b) {
        operands[problem_.boundaries[b].operand].emplace_back(costs[b]);
        more.costs[problem_.boundaries[b].operand].emplace_back(moving[b]);
    }
    Outside outside;
    auto through = costs_through(problem_.shape, operands, more, outside);
    if (is_last) columns_.push_back(columns_of(costs, outside));
    std::vector<std::vector<double>> found;
    for (auto& own : through) std::move(own.begin(), own.end(), std::back_inserter(found));
    return found;
}

Outside Search::columns_of(const std::vector<std::vector<double>>& costs, const Outside& outside) const {
    Outside found(count_.size(), std::vector<std::vector<double>>(states_));
    for (std::size_t operand = 0; operand < count_.size(); ++operand) {
        for (std::size_t state = 0; state < states_; ++state) {
            const std::size_t placed = state / step_[operand] % (count_[operand] + 1);
            if (placed == 0) continue;
            const std::size_t b = first_[operand] + placed - 1;
            for (const std::size_t x : left_[b])
                found[operand][state].push_back(costs[b][x] + outside[operand][state][x]);
        }
    }
    return found;
}

void Search::take_out_criteria() {
    const auto turns = [&] {
        double found = 1.0;
        for (const auto& own : problem_.last_turns) found *= *std::max_element(own.begin(), own.end());
        return found;
    };
    const double least = problem_.is_product ? least_cycles_ : floor_;
    std::vector<Criterion> kept;
    for (std::size_t k = 0; k < problem_.criteria.size(); ++k) {
        const Criterion& own = problem_.criteria[k];
        double most = own.fixed + (own.port ? turns() : 0.0);
        for (std::size_t b = 0; b < alive_.size() && most < least; ++b) most += most_of(own, b);
        if (most < least && guides_alone_[k] == 0) continue;
        kept.push_back(own);
    }
    problem_.criteria = std::move(kept);
}

double Search::most_of(const Criterion& criterion, std::size_t boundary) const {
    double found = 0.0;
    for (std::size_t x = 0; x < points_; ++x) {
        if (!alive_[boundary][x]) continue;
        double own = 0.0;
        for (const auto* tables : {&criterion.costs, &criterion.more, &criterion.rest}) {
            const Costs costs = (*tables)[boundary];
            if (!costs.empty()) own += costs[x];
        }
        for (const auto& [times, longest] : criterion.waits[boundary]) own += times[x] * longest[x];
        found = std::max(found, own);
    }
    return found;
}

void Search::list() {
    left_.assign(problem_.boundaries.size(), {});
    for (std::size_t b = 0; b < problem_.boundaries.size(); ++b) {
        for (std::size_t x = 0; x < points_; ++x) {
            if (alive_[b][x]) left_[b].push_back(x);
        }
    }
}

std::vector<std::vector<std::uint8_t>> Search::cells_left() const {
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

void Search::gather() {
    through_.assign(count_.size(), std::vector<std::vector<double>>(states_));
    for (std::size_t operand = 0; operand < count_.size(); ++operand) {
        for (std::size_t state = 0; state < states_; ++state) {
            const std::size_t placed = state / step_[operand] % (count_[operand] + 1);
            if (placed == 0) continue;
            const auto& before = left_[first_[operand] + placed - 1];
            for (std::size_t at = 0; at < before.size(); ++at) {
                if (!alive_[first_[operand] + placed - 1][before[at]]) continue;
                for (const auto& columns : columns_) through_[operand][state].push_back(columns[operand][state][at]);
            }
        }
    }
    columns_.clear();
    list();
    for (std::size_t side = 0; side < problem_.shape.size(); ++side) {
        if (problem_.shape[side] > 1) sides_.push_back(side);
    }
    for (std::size_t b = 0; b < left_.size(); ++b) {
        auto& least = least_costs_.emplace_back();
        for (const Criterion& own : problem_.criteria) {
            double found = own.costs[b].empty() || left_[b].empty() ? 0.0 : infinity;
            if (!own.costs[b].empty()) {
                for (const std::size_t x : left_[b]) found = std::min(found, own.costs[b][x]);
            }
            least.push_back(found);
        }
    }
    for (const auto& points : left_) {
        auto& cells = cells_.emplace_back();
        for (const std::size_t x : points) {
            for (const std::size_t side : sides_) cells.push_back(at_[x * problem_.shape.size() + side]);
        }
    }
}

// The guides of a search: single criteria, and weighted means of criteria.

namespace {

constexpr std::array slopes = {1.0, 0.6};  // weights of energy, in units of least cycles over least energy
// Factors on the weights of all but the heaviest criterion of the highest mean: farther along a chain other means are
// higher.
constexpr std::array parts = {1.0, 0.5, 0.25, 2.0, 4.0};

constexpr std::size_t most_looked_at = 5;  // of the criteria with the highest `least_apart`

// Returns a mean in which the weights of all but the heaviest criterion are scaled by `part`; the mean itself if the
// heaviest would have no weight left.
Weights shifted(const Weights& weights, double part) {
    Weights found(weights);
    for (double& one : found) one *= part;
    double& heaviest = found[std::max_element(weights.begin(), weights.end()) - weights.begin()];
    heaviest = 0.0;
    heaviest = 1.0 - std::accumulate(found.begin(), found.end(), 0.0);
    return heaviest > 0.0 ? found : weights;
}

}  // namespace

void Search::choose_guides(std::size_t most) {
    guides_.clear();
    guides_alone_.assign(problem_.criteria.size(), 0);
    Means means(problem_, room_left());
    double energy = 1.0;
    if (problem_.is_product) {
        guide_alone(0);
        energy = means.alone(0).least;
    }
    const auto highest = highest_alone(means);
    const Mean cycles = means.highest(highest.front(), 0.0, limit_ / energy);
    least_cycles_ = cycles.least;
    for (std::size_t at = 0; at < std::min(most, highest.size()); ++at) guide_alone(highest[at]);
    if (problem_.is_product)
        add_means_with(energy, highest.front(), means);
    else
        add_means(cycles.weights);
}

std::vector<std::size_t> Search::highest_alone(Means& means) const {
    std::vector<std::size_t> found;
    std::vector<double> least;
    for (std::size_t k = 0; k < problem_.criteria.size(); ++k) {
        least.push_back(least_apart(problem_.criteria[k]));
        if (k >= problem_.is_product) found.push_back(k);
    }
    const auto is_higher = [&](std::size_t one, std::size_t two) { return least[one] > least[two]; };
    std::stable_sort(found.begin(), found.end(), is_higher);
    const auto looked_at = found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), most_looked_at));
    for (auto one = found.begin(); one != looked_at; ++one) least[*one] = means.alone(*one).least;
    std::stable_sort(found.begin(), looked_at, is_higher);
    return found;
}

double Search::least_apart(const Criterion& criterion) const {
    double found = criterion.fixed;
    for (std::size_t b = 0; b < alive_.size(); ++b) {
        const Costs costs = criterion.costs[b];
        double least = costs.empty() ? 0.0 : infinity;
        for (std::size_t x = 0; x < costs.size(); ++x) {
            if (alive_[b][x]) least = std::min(least, costs[x]);
        }
        found += least;
    }
    return found;
}

void Search::guide_alone(std::size_t criterion) {
    Weights alone(problem_.criteria.size(), 0.0);
    alone[criterion] = 1.0;
    add_guide(alone, 0.0);
    guides_alone_[criterion] = 1;
}

void Search::add_means(const Weights& highest) {
    const bool is_alone = std::count(highest.begin(), highest.end(), 0.0) + 1 == std::ssize(highest);
    for (std::size_t at = 0; at < parts.size() && !is_alone; ++at) add_guide(shifted(highest, parts[at]), 0.0);
}

void Search::add_means_with(double energy, std::size_t highest, Means& means) {
    const double cycles = least_cycles_;
    if (!(energy > 0.0 && cycles > 0.0 && std::isfinite(energy + cycles + limit_))) return;
    for (const double part : slopes) {
        const double slope = part * cycles / energy;
        const double enough = std::max(slope * energy + limit_ / energy, slope * limit_ / cycles + cycles);
        add_guide(means.highest(highest, slope, enough).weights, slope);
    }
}

void Search::add_guide(const Weights& weights, double slope) {
    Guide& guide = guides_.emplace_back();
    guide.slope = slope;
    for (std::size_t k = 0; k < weights.size(); ++k) {
        if (weights[k] != 0.0) guide.weights.emplace_back(k, weights[k]);
    }
}

std::vector<std::vector<double>> Search::room_left() const {
    std::vector<std::vector<double>> found;
    for (const auto& own : alive_) {
        auto& room = found.emplace_back();
        for (const std::uint8_t is_left : own) room.push_back(is_left ? 0.0 : infinity);
    }
    return found;
}

std::vector<std::vector<double>> Search::costs_left(const Guide& guide) const {
    auto found = room_left();
    for (std::size_t b = 0; b < problem_.boundaries.size(); ++b) {
        auto& costs = found[b];
        for (const auto& [k, weight] : guide.weights) {
            const Costs own = problem_.criteria[k].costs[b];
            for (std::size_t x = 0; x < own.size(); ++x) costs[x] += weight * own[x];
        }
    }
    return found;
}

std::vector<std::vector<double>> Search::costs_if_all_move(const Guide& guide) const {
    std::vector<std::vector<double>> found(problem_.boundaries.size());
    for (const auto& [k, weight] : guide.weights) {
        const auto moving = chains::costs_if_all_move(problem_.criteria[k]);
        for (std::size_t b = 0; b < found.size(); ++b) {
            found[b].resize(std::max(found[b].size(), moving[b].size()), 0.0);
            for (std::size_t x = 0; x < moving[b].size(); ++x) found[b][x] += weight * moving[b][x];
        }
    }
    return found;
}

std::vector<double> Search::guided(const std::vector<double>& added) const {
    std::vector<double> found;
    for (const Guide& guide : guides_) {
        double own = 0.0;
        for (const auto& [k, weight] : guide.weights) own += weight * added[k];
        found.push_back(own);
    }
    return found;
}

double Search::at_least(const double* through, const std::vector<double>& have, double others) const {
    double first = 1.0, most = others;
    std::size_t guide = 0;
    if (problem_.is_product) first = have[guide] + through[guide], ++guide;
    for (; guide < guides_.size() && guides_[guide].slope == 0.0; ++guide)
        most = std::max(most, have[guide] + through[guide]);
    double found = first * most;
    for (; guide < guides_.size(); ++guide)
        found = std::max(found, least_product(first, most, guides_[guide].slope, have[guide] + through[guide]));
    return found;
}

}  // namespace onchip::chains
