// A mapping that is changed step by step; each operand has its own cuts.

#pragma once

#include <vector>

#include "layer.hpp"

namespace onchip::exact {

using layer::Count;
using layer::Index;

// Loops in time innermost first, what stands beside them, and cuts as in `layer::Mapping`.
struct UnevenNest {
    std::vector<layer::Turn> turns;
    std::vector<layer::Beside> beside;
    std::vector<Index> cuts;
};

// Each once, ascending.
std::vector<Count> primes_of(Count size);

// Puts a loop at a place, inside the cuts that are there or right outside them.
void insert(UnevenNest& nest, Index at, const layer::Turn& turn, bool is_inside);
void erase(UnevenNest& nest, Index at);
bool is_cut_at(const UnevenNest& nest, Index at);

// Takes out loops of one iteration; equal neighbours that nothing parts become one.
void tidy(UnevenNest& nest);

Count used_units(const UnevenNest& nest, Index along);

// Some units more of a loop, beside those that it has along a dimension, or at a place of its own.
void put_beside(UnevenNest& nest, const layer::Beside& added);

}  // namespace onchip::exact
