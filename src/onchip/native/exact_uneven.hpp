// A mapping with separate cuts per operand, for local search.

#pragma once

#include <vector>

#include "layer.hpp"

namespace onchip::exact {

using layer::Count;
using layer::Index;

// Temporal loops innermost first, spatial loops, and cuts as in `layer::Mapping`.
struct UnevenNest {
    std::vector<layer::Turn> turns;
    std::vector<layer::Beside> beside;
    std::vector<Index> cuts;
};

// Distinct prime factors, ascending.
std::vector<Count> primes_of(Count size);

// Inserts a loop at a position, inside the cuts there or directly outside them.
void insert(UnevenNest& nest, Index at, const layer::Turn& turn, bool is_inside);
void erase(UnevenNest& nest, Index at);
bool is_cut_at(const UnevenNest& nest, Index at);

// Removes loops of one iteration, and merges adjacent loops of equal kind without a cut between them.
void tidy(UnevenNest& nest);

Count used_units(const UnevenNest& nest, Index along);

// Multiplies an existing spatial loop along a dimension, or adds one at its own position.
void put_beside(UnevenNest& nest, const layer::Beside& added);

}  // namespace onchip::exact
