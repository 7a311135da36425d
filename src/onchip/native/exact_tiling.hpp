// One way to use the array: what it means at each boundary, the tiles of the loops that it leaves, what these move.

#pragma once

#include <array>
#include <limits>
#include <span>
#include <vector>

#include "exact_space.hpp"

namespace onchip::exact {

inline constexpr double infinite = std::numeric_limits<double>::infinity();

// Of the units: elements of one tile, those of tiles beside it, of other tiles; how many have the same.
struct Share {
    double inside = 1.0;
    double beside = 1.0;
    double outside = 1.0;
    double copies = 1.0;
    double copies_above = 1.0;
};

struct Tile {
    std::array<Count, layer::loops> loops{1, 1, 1, 1, 1, 1, 1, 1};
    std::array<Index, classes> part{};  // number of the tile of a class's loops alone
    double iterations = 1.0;
    std::array<double, operands> relevant{1.0, 1.0, 1.0};
    std::array<double, classes> of_class{1.0, 1.0, 1.0, 1.0};
    double channels = 1.0;       // elements of the input at one place of its axes
    bool sums_are_left = false;  // outside it, sums are added to
};

// Tiles are numbered from 0 (one iteration) to the last (all loops in time).
class Tiling {
public:
    explicit Tiling(const Space& space);

    // False where loops run out.
    bool choose(std::span<const Index> way);
    // All tiles, in the order of their digits.
    void list_tiles();
    // The smallest and the largest only, numbered 0 and 1; they have no parts.
    void list_ends();

    Index last() const { return static_cast<Index>(tiles.size()) - 1; }
    const Tile& whole() const { return tiles.back(); }

    // Elements of the largest tile, with those of the tiles beside it.
    double largest(Index operand, Index boundary, Index tile, bool beside) const;
    // What `largest` is times at least over all tiles, each moved once.
    double moved_once(Index operand, Index boundary, bool beside) const;
    // Whether sums of a tile have something to come.
    bool is_pending(Index boundary, Index tile) const {
        return tiles[tile].sums_are_left || share[layer::output][boundary].copies_above > 1;
    }
    // Bits of a sum that leaves a tile upwards.
    double bits_of_sums(Index boundary, Index tile) const;
    // Of an element in a memory: sums are complete above cut `complete_from` of the output's memories, from 1.
    double own_bits(Index operand, Index level, Index complete_from) const;

    // Of inputs or weights that cross a boundary, tile after tile.
    double energy_of_reads(Index operand, Index boundary, Index tile) const;
    // As if all sums above had begun; `saved_pj` is what a sum added up between memories saves below.
    double energy_of_sums(Index boundary, Index tile, double bits_below, double saved_pj) const;
    // What reading one sum back costs at a boundary: exactly at the units, at most elsewhere.
    double price_of_return(Index boundary, double bits_below) const;

    const Space& space;
    std::vector<Index> way;
    std::vector<Tile> tiles;
    std::vector<Index> radix, stride;                // digit: how many copies are in time, plus 1
    std::array<std::vector<Share>, operands> share;  // boundary

private:
    void share_units(Index operand, Index boundary);
    void multiply_loops();
    const BlockEntry& block(Index boundary, Index tile, Index axis, bool beside) const;
    double words(Index level, double bits) const;
    double block_words(Index level, Index boundary, Index tile, bool beside, double bits) const;

    std::array<Count, layer::loops> side_{};                        // all units along a loop
    std::vector<std::array<Count, layer::sides>> inside_, beside_;  // boundary: of the input along its axes
};

}  // namespace onchip::exact
