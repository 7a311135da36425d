// LOMA's mappings: one order of the loops' factors after the other, each filled into the memories from the units up.
//
// `mapping/baselines/loma.py` says what it is for; tiles are numbered as in `tiles.py` beside it: by how many
// factors of each kind stand inside.

#pragma once

#include <array>
#include <vector>

#include "layer.hpp"

namespace onchip::layer {

// Some factors of a loop that are alike; one more of them inside makes the tile's number so much greater.
struct Kind {
    Turn turn;
    Index step = 0;
    Index count = 0;
};

struct Tile {
    Count iterations = 1;
    bool sums_are_left = false;            // outside it, sums are added to
    std::array<bool, operands> is_left{};  // another tile of the operand follows it
};

// A memory, and the operands that it holds in the order of the file, which decides between equally good ways to fill
// it.
struct FilledLevel {
    Count capacity_bits = 0;
    bool is_double_buffered = false;
    bool adds_beside = false;  // sums of several of its instances are added up above it
    std::array<Index, operands> held{none, none, none};
    std::array<bool, operands> is_home{};
    std::array<std::vector<double>, operands> elements;  // of each tile
};

// What decides how far memories are filled.
struct Filling {
    std::vector<Kind> kinds;
    std::vector<Tile> tiles;
    std::vector<FilledLevel> levels;
    std::array<Count, operands> bits{};
    Count partial_bits = 0;
    std::vector<Index> last_apart;  // of each loop that stands beside: the last level of inputs that does not serve it

    // Throws std::invalid_argument for tiles or operands that there are not.
    void check() const;
};

// What is written of an order that fits; cuts are operand after operand, a level each.
struct Filled {
    std::vector<Turn> turns;
    std::vector<Index> cuts;
    std::vector<Index> inside;  // of each loop that stands beside: how many turns stand inside it
};

class Orders {
public:
    explicit Orders(Filling filling);

    // Goes on to the next order that fits; false after the last.
    bool next();
    const Filled& filled() const { return filled_; }
    const Filling& filling() const { return filling_; }

private:
    // Of one operand in the level that is being filled.
    struct Slot {
        std::vector<double> room_bits;  // with so many further loops, as many as fit
        Index first = 0;                // at least so many
        Index fitting = 1;              // fewer than so many
        Index best = 0;
    };

    bool fill();
    bool fill_level(Index level);
    bool measure(Index level, Slot& slot, Index operand);
    double traffic(Index level, const Slot& slot, Index operand, Index more) const;

    Filling filling_;
    std::vector<Index> order_;  // kinds, innermost first; all orders are found by rising from the sorted one
    bool is_begun_ = false;
    bool is_over_ = false;
    std::vector<Index> tile_;  // of each place
    std::array<Index, operands> cut_{};
    std::array<Slot, operands> slots_;
    Filled filled_;
};

}  // namespace onchip::layer
