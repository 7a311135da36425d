// One unrolling (way) of the array: its share at each boundary, the tiles of the remaining loops, and their transfers.

#pragma once

#include <array>
#include <limits>
#include <span>
#include <vector>

#include "exact_space.hpp"

namespace onchip::exact {

inline constexpr double infinite = std::numeric_limits<double>::infinity();

// Numbers of units, by their elements: in one tile, in adjacent tiles, in other tiles; and with equal elements.
struct Share {
    double inside = 1.0;
    double beside = 1.0;
    double outside = 1.0;
    double copies = 1.0;
    double copies_above = 1.0;
};

struct Tile {
    std::array<Count, layer::loops> loops{1, 1, 1, 1, 1, 1, 1, 1};
    std::array<Index, classes> part{};  // number of the tile with the loops of the class alone
    double iterations = 1.0;
    std::array<double, operands> relevant{1.0, 1.0, 1.0};
    std::array<double, classes> of_class{1.0, 1.0, 1.0, 1.0};
    double channels = 1.0;       // elements of the input at one position of its axes
    bool sums_are_left = false;  // true if loops outside it accumulate into its sums
};

// Tiles are numbered from 0 (one iteration) to the last (all temporal loops).
class Tiling {
public:
    explicit Tiling(const Space& space);

    // Returns false if the way unrolls a loop beyond its bound.
    bool choose(std::span<const Index> way);
    // Lists all tiles, in the order of their digits.
    void list_tiles();
    // Lists only the smallest and the largest tile, numbered 0 and 1, without parts.
    void list_ends();

    Index last() const { return static_cast<Index>(tiles.size()) - 1; }
    const Tile& whole() const { return tiles.back(); }

    // Elements of the largest tile; with adjacent tiles if `beside`.
    double largest(Index operand, Index boundary, Index tile, bool beside) const;
    // Lower bound on `largest` times the number of tiles, if each tile is moved once.
    double moved_once(Index operand, Index boundary, bool beside) const;
    // Returns true if sums of a tile are incomplete.
    bool is_pending(Index boundary, Index tile) const {
        return tiles[tile].sums_are_left || share[layer::output][boundary].copies_above > 1;
    }
    // Bits of a sum on its way up from a tile.
    double bits_of_sums(Index boundary, Index tile) const;
    // Bits of an element in a memory. Sums are complete above cut `complete_from` (from 1) of the output's memories.
    double own_bits(Index operand, Index level, Index complete_from) const;

    // Energy of all tiles of inputs or weights across a boundary.
    double energy_of_reads(Index operand, Index boundary, Index tile) const;
    // Energy as if all sums above had been started; `saved_pj` is the saving below for each sum reduced between
    // memories.
    double energy_of_sums(Index boundary, Index tile, double bits_below, double saved_pj) const;
    // Energy to read one sum back at a boundary: exact at the units, an upper bound elsewhere.
    double price_of_return(Index boundary, double bits_below) const;

    const Space& space;
    std::vector<Index> way;
    std::vector<Tile> tiles;
    std::vector<Index> radix, stride;                // by digit: number of temporal copies, plus 1
    std::array<std::vector<Share>, operands> share;  // by boundary

private:
    void share_units(Index operand, Index boundary);
    void multiply_loops();
    const BlockEntry& block(Index boundary, Index tile, Index axis, bool beside) const;
    double words(Index level, double bits) const;
    double block_words(Index level, Index boundary, Index tile, bool beside, double bits) const;

    std::array<Count, layer::loops> side_{};                        // unrolling of each loop over all dimensions
    std::vector<std::array<Count, layer::sides>> inside_, beside_;  // by boundary: the input's unrolling along its axes
};

}  // namespace onchip::exact
