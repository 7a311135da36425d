// The guides of a search: single criteria, and weighted means of criteria.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "chain_searching.hpp"

namespace onchip::chains {

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
