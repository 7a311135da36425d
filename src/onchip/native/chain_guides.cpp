// What guides a search: criteria by themselves, and means of them.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "chain_searching.hpp"

namespace onchip::chains {

namespace {

constexpr std::array slopes = {1.0, 0.6};  // of energy, in what is least of cycles by what is least of energy
// Of what all but the heaviest criterion weigh in the highest mean: farther along a chain other means are higher.
constexpr std::array parts = {1.0, 0.5, 0.25, 2.0, 4.0};

// A mean of which all but the heaviest weigh a part, or so many times as much; as it is where that would be all.
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
    for (std::size_t k = 0; k < problem_.criteria.size() && guides_.size() < most + problem_.is_product; ++k) {
        if (!problem_.criteria[k].guides) continue;
        Weights alone(problem_.criteria.size(), 0.0);
        alone[k] = 1.0;
        add_guide(alone, 0.0);
        guides_alone_[k] = 1;
    }
    add_means();
}

void Search::add_means() {
    Means means(problem_, room_left());
    const std::size_t first = problem_.is_product;  // of those whose greatest counts
    Weights alone(problem_.criteria.size(), 0.0);
    if (!problem_.is_product) {
        const Weights found = means.highest(first, 0.0, limit_).weights;
        const bool is_alone = std::count(found.begin(), found.end(), 0.0) + 1 == std::ssize(found);
        for (std::size_t at = 0; at < parts.size() && !is_alone; ++at) add_guide(shifted(found, parts[at]), 0.0);
        return;
    }
    alone[0] = 1.0;
    const double energy = means.of(alone).least;
    std::swap(alone[0], alone[first]);
    const double cycles = least_cycles_ = means.of(alone).least;
    if (!(energy > 0.0 && cycles > 0.0 && std::isfinite(energy + cycles + limit_))) return;
    for (const double part : slopes) {
        const double slope = part * cycles / energy;
        const double enough = std::max(slope * energy + limit_ / energy, slope * limit_ / cycles + cycles);
        add_guide(means.highest(first, slope, enough).weights, slope);
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
