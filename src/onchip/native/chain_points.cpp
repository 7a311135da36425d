// Elimination of the points that no chain below the limit passes through, in rounds.

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "chain_searching.hpp"

namespace onchip::chains {

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
    counting_.resize(problem.criteria.size());
    std::iota(counting_.begin(), counting_.end(), std::size_t{0});
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
    counting_.clear();
    for (std::size_t k = 0; k < problem_.criteria.size(); ++k) {
        const Criterion& own = problem_.criteria[k];
        double most = own.fixed + (own.port ? turns() : 0.0);
        for (std::size_t b = 0; b < alive_.size() && most < least; ++b) most += most_of(own, b);
        if (most < least && guides_alone_[k] == 0) continue;
        kept.push_back(own);
        counting_.push_back(k);
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

}  // namespace onchip::chains
