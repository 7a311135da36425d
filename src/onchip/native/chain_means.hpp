// Lower bounds on the greatest of several criteria over all chains: the least weighted mean, for any weights.
//
// The criteria are usually minimised by different chains. Then the best mean is a stronger bound than each single
// criterion.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "chain_search.hpp"

namespace onchip::chains {

// By criterion. The weights of the criteria under the maximum add up to one; the first criterion of a product has any
// weight.
using Weights = std::vector<double>;

struct Mean {
    Weights weights;
    double least;                  // lower bound over all chains
    std::vector<double> criteria;  // by criterion: cost of the boundaries of the chain that attains the bound
};

// Means of a problem's criteria over the chains of the remaining points. They ignore costs of moving tiles and of
// waits.
class Means {
public:
    // `room`: by boundary and point, 0 or infinity.
    Means(const Problem& problem, std::vector<std::vector<double>> room);

    Mean of(Weights weights);
    Mean alone(std::size_t criterion);

    // Returns the weights with approximately the highest bound, or with at least `enough`, starting from one criterion.
    // The first criterion of a product has the weight `slope`.
    Mean highest(std::size_t criterion, double slope, double enough);

    // Like `highest`, from any criterion; the bound is at least that of each single criterion (with the first of a
    // product). The search ends if the greatest criterion of some chain is at most `vain`.
    Mean highest_of_all(double slope, double enough, double vain);

private:
    Weights weights_of(std::size_t criterion, double slope) const;
    // Returns the best mean on the way from a mean to a single criterion, or the given mean if none is higher.
    Mean towards(const Mean& from, std::size_t criterion, double enough);
    bool is_all(const Mean& found, double enough) const { return found.least >= enough || least_greatest_ <= vain_; }
    // The value of a mean's chain without, and with, the first criterion of a product.
    double weighed(const Weights& weights, const std::vector<double>& criteria) const;
    double greatest(const Mean& mean) const;

    const Problem& problem_;
    std::vector<std::vector<double>> room_;
    std::vector<std::vector<double>> tables_;  // of one mean, and the inner costs; members, to reuse their memory
    Inside inside_;
    double vain_ = -infinity, least_greatest_ = infinity;
};

// Returns a lower bound on the product of two numbers that are at least `first` and `second`, where `slope` times one
// plus the other is at least `least_sum`. The least product is at a corner of this region.
double least_product(double first, double second, double slope, double least_sum);

}  // namespace onchip::chains
