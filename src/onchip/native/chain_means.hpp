// What the greatest of several criteria is at least: no less than a mean of them, whatever their weights.
//
// What is least by each criterion alone is most often not the same chain, and then the highest mean is above all of
// them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "chain_search.hpp"

namespace onchip::chains {

// By criterion. Of those whose greatest counts weights add up to one; of a product's first it is any.
using Weights = std::vector<double>;

struct Mean {
    Weights weights;
    double least;                  // no chain's is less
    std::vector<double> criteria;  // what boundaries cost of the chain for which it is that, by criterion
};

// Means of a problem's criteria over chains of the points that are left, without what moves or waits beside costs.
class Means {
public:
    // `room` is by boundary and point nothing, or infinite.
    Means(const Problem& problem, std::vector<std::vector<double>> room);

    Mean of(Weights weights);
    Mean alone(std::size_t criterion);

    // The weights for which the least chain's mean is highest, about, or enough; from a criterion on. The first of a
    // product has the weight `slope`.
    Mean highest(std::size_t criterion, double slope, double enough);

    // The same from any criterion on; nor is it below what one of them is by itself, with the first of a product. No
    // more is looked for where the greatest of some chain is not above `vain`.
    Mean highest_of_all(double slope, double enough, double vain);

private:
    Weights weights_of(std::size_t criterion, double slope) const;
    // On the way from a mean to a criterion by itself; the mean as it was if none is higher.
    Mean towards(const Mean& from, std::size_t criterion, double enough);
    bool is_all(const Mean& found, double enough) const { return found.least >= enough || least_greatest_ <= vain_; }
    // Of a mean's chain, without what the first of a product costs, and with it.
    double weighed(const Weights& weights, const std::vector<double>& criteria) const;
    double greatest(const Mean& mean) const;

    const Problem& problem_;
    std::vector<std::vector<double>> room_;
    std::vector<std::vector<double>> tables_;  // of one mean, and what they cost inside: their memory is used again
    Inside inside_;
    double vain_ = -infinity, least_greatest_ = infinity;
};

// What no product is below: of numbers not below `first` and `second`, nor `slope` times one plus the other below
// `least_sum`. The least product is at a corner of what these three leave.
double least_product(double first, double second, double slope, double least_sum);

}  // namespace onchip::chains
