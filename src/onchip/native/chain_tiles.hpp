// Tiles that may stay where loops have remainders, as far as outer points determine it. Replacement windows of tiles,
// as far as inner points determine them, and cycles without a window at a port.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "chain_search.hpp"

namespace onchip::chains {

// A boundary with an upper bound on the part of its tiles that may stay, known from the places up to `before`. Outside
// these places the part is at most `outside`; inside, it is at most `settled`, by memory.
struct Placed {
    Placed(std::size_t number, std::size_t place) : boundary(number), point(place), before(place) {}

    std::size_t boundary;
    std::size_t point;
    std::size_t before;
    double stays = 1.0;
    double outside = 1.0;
    std::array<double, 2> settled = {0.0, 0.0};
    double window = 0.0;  // upper bound on its replacement window
};

// The state of the placed boundaries: their tiles, and by port a lower bound on the cycles without a window.
struct Chain {
    std::vector<Placed> tiles;
    std::vector<double> without_window;
};

// Returns true if all tables have a value for each point.
bool is_of_each_point(const Problem& problem, std::size_t points);

// By boundary: the cost added if none of its tiles stay; empty for no cost.
std::vector<std::vector<double>> costs_if_all_move(const Criterion& criterion);

// Places a boundary at a point outside the chain. Adds to all criteria the costs that this determines for the chain's
// tiles and its own. `at` holds the cells of the points, last dimension fastest.
void follow(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
            Chain& chain, std::vector<double>& added);

// Adds the cost that a boundary at its point causes at least, whichever boundaries come between.
void follow_at_least(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
                     const Chain& chain, std::vector<double>& added);

// Adds the cost of all loops outside a chain whose boundaries are all placed.
void end(const Problem& problem, const std::vector<std::uint16_t>& at, Chain& chain, std::vector<double>& added);

}  // namespace onchip::chains
