// The least chain of places by several criteria at once, with the room that tiles take of memories together.
//
// Boundaries stand in points of a lattice as in chains.hpp. What a chain is worth is the greatest of its criteria, each
// a number that is fixed and what every boundary adds in its place; or, as a product, the first of them times the
// greatest of the others. A lattice's dimension says of any two of its cells whether places in both may stand inside
// each other.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chains.hpp"

namespace onchip::chains {

struct Boundary {
    std::size_t operand;
    std::size_t memory;
    Costs bits;  // of the room of its memory, by point
};

struct Criterion {
    double fixed;
    std::vector<Costs> costs;  // by boundary, none where it adds nothing
    bool guides;               // what is left of it is looked up at each step, not only what has been added
};

struct Problem {
    std::vector<std::size_t> shape;
    std::vector<std::vector<std::uint8_t>> may_stand_inside;  // by dimension, inner and outer cell; inner's slowest
    std::vector<double> room_bits;                            // by memory
    std::vector<Boundary> boundaries;  // of an operand from the units upwards, operands one after the other
    std::vector<Criterion> criteria;
    bool is_product;
};

struct Found {
    double floor;                     // no chain below `limit` is worth less; `limit` itself if there is none
    bool is_least;                    // whether a chain is worth just that, or there is none below `limit`
    std::size_t steps;                // points looked at
    std::vector<std::size_t> points;  // of the least chain, by boundary; empty where none was found
};

// Throws std::invalid_argument for tables that are not of each point.
Found least_chain_below(const Problem& problem, double limit, std::size_t most_steps);

}  // namespace onchip::chains
