// Which tiles of boundaries may stay where loops end short, as far as the points outside theirs say; and within how
// many cycles they are replaced, as far as the points inside say, and in how many none at a port is.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "chain_search.hpp"

namespace onchip::chains {

// A boundary, and which part of what can stay of its tiles may do so, as far as it is known from the places up to
// `before`: outside that it is no more than `outside`, and `settled`, by memory, is what may stay inside.
struct Placed {
    Placed(std::size_t number, std::size_t place) : boundary(number), point(place), before(place) {}

    std::size_t boundary;
    std::size_t point;
    std::size_t before;
    double stays = 1.0;
    double outside = 1.0;
    std::array<double, 2> settled = {0.0, 0.0};
    double window = 0.0;  // in which its tile is replaced, at most
};

// What is known of boundaries placed: their tiles, and by port the cycles in which none of them is replaced, at least.
struct Chain {
    std::vector<Placed> tiles;
    std::vector<double> without_window;
};

// Whether all tables have as many points.
bool is_of_each_point(const Problem& problem, std::size_t points);

// By boundary, what is added beyond its costs where none of its tiles stay; empty where that is nothing.
std::vector<std::vector<double>> costs_if_all_move(const Criterion& criterion);

// What is known of a chain's tiles as a boundary's point follows, and of its own, is `added` to all criteria. `at` are
// the cells of points, the last dimension's fastest.
void follow(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
            Chain& chain, std::vector<double>& added);

// What a boundary's own point is known to add if it follows sooner or later, whatever comes between.
void follow_at_least(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
                     const Chain& chain, std::vector<double>& added);

// The same as all loops follow, of a chain whose boundaries are all placed.
void end(const Problem& problem, const std::vector<std::uint16_t>& at, Chain& chain, std::vector<double>& added);

}  // namespace onchip::chains
