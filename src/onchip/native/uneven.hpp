// The mapping of least energy over all orders and all cuts of each operand: labels set from the empty tile on.
//
// `mapping/tile_search/uneven.py` says which mapspace that is. A state of a tile is how many cuts of each operand
// are placed, and whether sums leave the last of them complete. A label is the energy so far and the bits that placed
// cuts take of memories which others still have to fit in; it goes where another of its state is no worse in all.

#pragma once

#include <array>
#include <vector>

#include "layer.hpp"
#include "loma.hpp"

namespace onchip::layer {

// One cut of an operand, by tile.
struct Cut {
    std::vector<double> energy_pj;
    std::array<std::vector<std::vector<Count>>, 2> need_bits;  // whether sums arrive complete; by shared memory
    std::vector<bool> leaves_complete;                         // of sums
};

// `least_to_come` is by how many cuts of an operand are placed, and tile: what the others cost at least, in pJ.
struct CutsOfOperand {
    std::vector<Cut> cuts;
    std::vector<std::vector<double>> least_to_come;
};

struct UnevenProblem {
    std::vector<Kind> kinds;
    std::array<CutsOfOperand, operands> of;
    std::vector<Count> capacity_bits;        // of each memory that more than one cut needs
    std::vector<std::vector<bool>> is_open;  // by cuts placed, and memory: a cut that needs it is yet to be placed
    double worst_pj = 0.0;                   // what the best known mapping costs
    bool starts_complete = false;

    // Throws std::invalid_argument for tables that are too short.
    void check() const;
    Index tiles() const;
    Index placings() const;
};

class UnevenSearch {
public:
    explicit UnevenSearch(UnevenProblem problem);

    // Goes on for so many tiles; false once the last is done.
    bool go_on(Index tiles);

    // A kind of factors that is added, or, after the kinds, an operand of which a cut is placed.
    struct Best {
        double energy_pj = 0.0;
        std::vector<Index> actions;
    };

    // Of the whole nest with all cuts placed; no actions where nothing fits. To be asked once the last tile is done.
    Best best() const;

private:
    struct Label {
        Index before = none;
        Index next = none;
        Index action = none;
        double energy_pj = 0.0;
    };

    struct State {
        Index tile = 0;
        Index placed = 0;
        bool is_complete = false;
    };

    Index& first(const State& state);
    Index placed_of(Index placed, Index operand) const;
    void place_cuts(Index label, const State& state);
    void add_factors(Index label, const State& state);
    void offer(Index before, const State& state, double energy_pj, Index action);
    bool uses_no_more(Index label) const;
    bool is_used_no_less(Index label) const;

    UnevenProblem problem_;
    std::array<Index, operands> step_{};  // one more cut of an operand in the number of cuts placed
    Index placings_ = 1;
    Index tiles_ = 1;
    Index tile_ = 0;
    std::vector<Index> first_;  // by tile and state
    std::vector<Label> labels_;
    std::vector<Count> used_bits_;  // label after label, a memory each
    std::vector<Count> trial_bits_;
};

}  // namespace onchip::layer
