// LOMA's mappings: enumerates the orders of the loop factors, and fills the memories for each from the units outwards.
//
// `mapping/baselines/loma.py` describes the method. Tiles are numbered as in its `tiles.py`: by the number of factors
// of each kind inside.

#pragma once

#include <array>
#include <vector>

#include "layer.hpp"

namespace onchip::layer {

// Equal factors of a loop; each factor inside a tile adds `step` to the tile's number.
struct Kind {
    Turn turn;
    Index step = 0;
    Index count = 0;
};

struct Tile {
    Count iterations = 1;
    bool sums_are_left = false;            // true if loops outside it accumulate into its sums
    std::array<bool, operands> is_left{};  // another tile of the operand follows it
};

// A memory and its operands in the order of the file, which breaks ties between equally good fillings.
struct FilledLevel {
    Count capacity_bits = 0;
    bool is_double_buffered = false;
    bool adds_beside = false;  // sums of several of its instances are reduced above it
    std::array<Index, operands> held{none, none, none};
    std::array<bool, operands> is_home{};
    std::array<std::vector<double>, operands> elements;  // by tile
};

// The data that determine the filling.
struct Filling {
    std::vector<Kind> kinds;
    std::vector<Tile> tiles;
    std::vector<FilledLevel> levels;
    std::array<Count, operands> bits{};
    Count partial_bits = 0;
    std::vector<Index> last_apart;  // by spatial loop: the last input level that does not serve it

    // Throws std::invalid_argument if a tile or an operand does not exist.
    void check() const;
};

// The mapping of an order that fits; cuts by operand, then level.
struct Filled {
    std::vector<Turn> turns;
    std::vector<Index> cuts;
    std::vector<Index> inside;  // by spatial loop: number of temporal loops inside it
};

class Orders {
public:
    explicit Orders(Filling filling);

    // Advances to the next order that fits. Returns false after the last.
    bool next();
    const Filled& filled() const { return filled_; }
    const Filling& filling() const { return filling_; }

private:
    // One operand in the level being filled.
    struct Slot {
        std::vector<double> room_bits;  // by number of further loops, up to the most that fit
        Index first = 0;                // lowest possible number
        Index fitting = 1;              // upper limit, exclusive
        Index best = 0;
    };

    bool fill();
    bool fill_level(Index level);
    bool measure(Index level, Slot& slot, Index operand);
    double traffic(Index level, const Slot& slot, Index operand, Index more) const;

    Filling filling_;
    std::vector<Index> order_;  // kinds, innermost first; next_permutation from the sorted order enumerates all
    bool is_begun_ = false;
    bool is_over_ = false;
    std::vector<Index> tile_;  // by position
    std::array<Index, operands> cut_{};
    std::array<Slot, operands> slots_;
    Filled filled_;
};

}  // namespace onchip::layer
