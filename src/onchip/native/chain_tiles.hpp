// Which tiles of boundaries may stay where loops end short, as far as the points outside theirs say; and within how
// many cycles they are replaced, as far as the points inside say.

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
};

// Whether all tables have as many points.
bool is_of_each_point(const Problem& problem, std::size_t points);

// By boundary, what is added beyond its costs where none of its tiles stay; empty where that is nothing.
std::vector<std::vector<double>> costs_if_all_move(const Criterion& criterion);

// What is known of `tiles` as a boundary's point follows, and of its own, is `added` to all criteria. `at` are the
// cells of points, the last dimension's fastest.
void follow(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
            std::vector<Placed>& tiles, std::vector<double>& added);

// The same of a point that no boundary needs to stand in.
void go_outside(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t x, std::vector<Placed>& tiles,
                std::vector<double>& added);

}  // namespace onchip::chains
