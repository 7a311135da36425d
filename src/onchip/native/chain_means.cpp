// Weights are improved with the chains that minimise the means: each chain tells its cost under other weights.

#include "chain_means.hpp"

#include <algorithm>
#include <cmath>

namespace onchip::chains {

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
    Mean found{std::move(weights), fixed + chain.cost, std::move(criteria)};
    least_greatest_ = std::min(least_greatest_, greatest(found));
    return found;
}

double Means::weighed(const Weights& weights, const std::vector<double>& criteria) const {
    double found = 0.0;
    for (std::size_t k = problem_.is_product; k < weights.size(); ++k) {
        if (weights[k] > 0.0) found += weights[k] * criteria[k];
    }
    return found;
}

double Means::greatest(const Mean& mean) const {
    const std::size_t first = problem_.is_product;
    const double most =
        *std::max_element(mean.criteria.begin() + static_cast<std::ptrdiff_t>(first), mean.criteria.end());
    return most + (problem_.is_product ? mean.weights[0] * mean.criteria[0] : 0.0);
}

Mean Means::highest(std::size_t criterion, double slope, double enough) {
    Mean found = of(weights_of(criterion, slope));
    for (int joined = 0; joined < criteria_joined && !is_all(found, enough); ++joined) {
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

Mean Means::highest_of_all(double slope, double enough, double vain) {
    const std::size_t first = problem_.is_product;
    vain_ = vain, least_greatest_ = infinity;
    std::vector<double> most(problem_.criteria.size(), infinity);  // no criterion alone exceeds its value for any chain
    const auto look_at = [&](const Mean& mean) {
        const double common = problem_.is_product ? slope * mean.criteria[0] : 0.0;
        for (std::size_t k = first; k < most.size(); ++k) most[k] = std::min(most[k], common + mean.criteria[k]);
    };
    Mean found = highest(first, slope, enough);
    look_at(found);
    for (std::size_t k = first + 1; k < most.size() && !is_all(found, enough); ++k) {
        if (!(most[k] > found.least * (1 + close))) continue;
        Mean one = of(weights_of(k, slope));
        look_at(one);
        if (one.least > found.least) found = std::move(one);
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
    for (int look = 0; look < looks && falling.rise() < 0.0 && !is_all(found, enough); ++look) {
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
