// Iterated local search that improves a mapping with separate cuts for each operand. It proves nothing.
//
// A move changes the position of a cut, a loop or one prime factor of a loop, or moves the factor onto or off the
// array. The search makes the best move until none improves, perturbs at random, and repeats. The same seed gives the
// same moves.

#pragma once

#include <random>
#include <utility>
#include <vector>

#include "exact.hpp"
#include "exact_uneven.hpp"

namespace onchip::exact {

class Refiner {
public:
    // `unrolls` is true per dimension of the array and loop if the loop may be unrolled along it. Throws
    // std::invalid_argument if the cuts do not cover each level, or do not ascend from level to level of an operand.
    Refiner(Layer layer, Machine machine, Objective objective, std::vector<std::vector<bool>> unrolls, UnevenNest start,
            std::uint32_t seed);

    // Evaluates about `mappings` more mappings.
    void go_on(Count mappings);

    // In femtojoules, cycles or their product; infinite if neither the start nor any later mapping fits.
    double value() const { return best_value_.first; }
    Nest nest() const;

private:
    // The objective, then energy times cycles as a tie-breaker, so that equal mappings still give a direction.
    using Value = std::pair<double, double>;

    void check() const;
    Value cost(const UnevenNest& nest);
    bool step();
    void shake();
    void offer(UnevenNest nest);

    template <typename Take>
    void each_step(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void move_cuts(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void move_turns(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void unroll(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void exchange(const UnevenNest& taken, const layer::Beside& added, Take take) const;
    template <typename Take>
    void roll_up(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void insert_anywhere(const UnevenNest& nest, const layer::Turn& turn, Take take) const;

    layer::Costs costs_;
    Objective objective_;
    std::vector<Count> units_;
    std::vector<std::vector<bool>> unrolls_;  // by dimension of the array and loop
    std::size_t levels_;
    UnevenNest now_, best_, next_;
    Value now_value_, best_value_, next_value_;
    Count costed_ = 0;
    std::mt19937 random_;
};

}  // namespace onchip::exact
