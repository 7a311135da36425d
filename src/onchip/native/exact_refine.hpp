// A mapping made better step by step, each operand cut at its own places; nothing is proven.
//
// A step moves one cut, one loop, or one prime factor of a loop: to another place, onto the array, or off it. Of all
// steps the best is taken until none is better; then some at random, and again. The same seed takes the same steps.

#pragma once

#include <random>
#include <utility>
#include <vector>

#include "exact.hpp"
#include "exact_uneven.hpp"

namespace onchip::exact {

class Refiner {
public:
    // `unrolls` says for each dimension of the array which loops may run along it. Throws std::invalid_argument for a
    // nest whose cuts are not of each level, or rise from one level of an operand to the next below.
    Refiner(Layer layer, Machine machine, Objective objective, std::vector<std::vector<bool>> unrolls, UnevenNest start,
            std::uint32_t seed);

    // Costs about so many more mappings.
    void go_on(Count mappings);

    // In femtojoules, cycles, or their product; infinite where the start does not fit and nothing better was found.
    double value() const { return best_value_.first; }
    Nest nest() const;

private:
    // What is made least, then energy times cycles, so that equal ones still lead somewhere.
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
    std::vector<std::vector<bool>> unrolls_;  // dimension of the array, loop
    std::size_t levels_;
    UnevenNest now_, best_, next_;
    Value now_value_, best_value_, next_value_;
    Count costed_ = 0;
    std::mt19937 random_;
};

}  // namespace onchip::exact
