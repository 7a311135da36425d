// The mapping of least energy over all orders and all cuts of each operand: label setting from the empty tile outwards.
//
// `mapping/tile_search/uneven.py` describes the mapspace. A state of a tile is the number of placed cuts of each
// operand, and whether sums leave the last of them complete. A label is the energy so far and the bits that placed cuts
// take in memories with cuts still to be placed. It is pruned if another label of its state dominates it.

#pragma once

#include <array>
#include <vector>

#include "layer.hpp"
#include "loma.hpp"

namespace onchip::layer {

// One cut of an operand, by tile.
struct Cut {
    std::vector<double> energy_pj;
    std::array<std::vector<std::vector<Count>>, 2> need_bits;  // by completeness of arriving sums and shared memory
    std::vector<bool> leaves_complete;                         // sums are complete above the cut
};

// `least_to_come`: lower bound in pJ on the remaining cuts, by number of placed cuts and tile.
struct CutsOfOperand {
    std::vector<Cut> cuts;
    std::vector<std::vector<double>> least_to_come;
};

struct UnevenProblem {
    std::vector<Kind> kinds;
    std::array<CutsOfOperand, operands> of;
    std::vector<Count> capacity_bits;        // by memory that more than one cut needs
    std::vector<std::vector<bool>> is_open;  // by placed cuts and memory: true if a cut that needs it remains
    double worst_pj = 0.0;                   // cost of the best known mapping
    bool starts_complete = false;

    // Throws std::invalid_argument if a table has the wrong size.
    void check() const;
    Index tiles() const;
    Index placings() const;
};

class UnevenSearch {
public:
    explicit UnevenSearch(UnevenProblem problem);

    // Processes `tiles` more tiles. Returns false once the last one is done.
    bool go_on(Index tiles);

    // An action adds a factor of a kind or, numbered after the kinds, places a cut of an operand.
    struct Best {
        double energy_pj = 0.0;
        std::vector<Index> actions;
    };

    // The best label of the whole nest with all cuts placed; no actions if none fits. Valid once the last tile is done.
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
    std::array<Index, operands> step_{};  // stride of an operand in the number of placed cuts
    Index placings_ = 1;
    Index tiles_ = 1;
    Index tile_ = 0;
    std::vector<Index> first_;  // by tile and state
    std::vector<Label> labels_;
    std::vector<Count> used_bits_;  // label by label, one value per memory
    std::vector<Count> trial_bits_;
};

}  // namespace onchip::layer
