// Cost model of layer mappings as in ZigZag and DeFiNES: the figures of `model/layer/cost.py` with ZIGZAG and DEFINES
// of `model/accounting/accounting.py`, fast enough for millions of mappings.
//
// docs/layer_cost.md, sections 8 and 9, defines what is counted. Sizes depend on bounds alone. If the array does not
// divide a loop, units are fractional: 33 channels on 32 units are two iterations of 16.5.

#pragma once

#include <array>
#include <utility>
#include <vector>

#include "layer.hpp"

namespace onchip::layer {

// Options in which ZigZag and DeFiNES differ, named as in `model/accounting/accounting.py`.
struct Accounting {
    bool units_keep_operands = false;
    bool whole_operands_load_meanwhile = false;
    bool parts_are_cut_late = false;
    bool parts_have_whole_room = false;
    bool single_taps_are_channels = false;
    bool accesses_are_of_a_cycle = false;
    bool lone_transfers_never_stall = false;
    bool last_sums_overlap = false;
    std::vector<bool> is_systolic;  // by dimension of the array
};

struct ZigzagProblem {
    Layer layer;
    std::array<Count, loops> bounds{};  // of the layer; mappings may exceed them
    Machine machine;
    std::vector<bool> is_shared;  // by level: true if it holds inputs and weights
    Accounting accounting;

    // Throws std::invalid_argument if the fields are inconsistent or exceed 64 bits.
    void check() const;
};

struct ZigzagCost {
    Status status = Status::costed;
    double energy_pj = 0.0;
    double cycles = 0.0;  // whole, unless loads overlap with the loops
};

// Returns the nearest whole number to a count, which fractional units may miss by less than 1e-6.
Count nearest(double count);

// Evaluates mappings of one layer on one machine.
class ZigzagCosts {
public:
    explicit ZigzagCosts(ZigzagProblem problem);

    // Throws std::invalid_argument if an iteration takes less than one unit.
    ZigzagCost of(const Mapping& mapping);

    std::size_t dimensions() const { return problem_.machine.units.size(); }
    std::size_t levels() const { return problem_.machine.levels.size() - 1; }

private:
    // Products of the temporal loops inside a position in the nest.
    struct Place {
        Count all = 1;
        std::array<Count, loops> of{1, 1, 1, 1, 1, 1, 1, 1};
        std::array<Index, operands> next_relevant{};  // first position from here on with a relevant loop
    };

    // Units of each loop within one instance of a level or of the MACs, and the number of instances in use.
    struct Instances {
        std::array<double, loops> units{};
        double count = 1.0;
    };

    // Fractional or whole units, and the input positions that they use.
    struct Array {
        std::vector<Instances> of;  // the MACs, then each level
        std::array<Count, 2> axis_size{};
    };

    // Between a level that holds an operand, `lower`, and the next one above.
    struct Boundary {
        Index lower = macs;
        Index upper = macs;
        Index cut = 0;
        Index settled = 0;  // the cut above the loops along which the tile is reused
        Count episodes = 1;
        double neighbours = 1.0;  // tiles of `lower` that one transfer of `upper` serves
        Count size = 0;
        Count joint_size = 0;  // of all neighbours
        double moves = 0.0;    // at `lower`; below: at `upper`
        double joint_moves = 0.0;
        bool is_pending = false;  // sums are accumulated further after arrival above
        Count bits = 0;           // of an element
        Count bits_in_use = 0;    // of the part of a tile in use at a time
        bool has_room_for_two = true;
    };

    // Periodic use of a port: `busy` cycles in each period, within a window.
    struct Visit {
        Index port = 0;
        Index level = 0;
        Index operand = 0;
        Index at = 0;  // index of the boundary
        bool returns = false;
        Count bits = 0;
        Count busy = 0;
        Count period = 1;
        Count window = 1;
        Count times = 0;
        double left = 0.0;  // part of `busy` that the loops do not hide
    };

    // Cycles to load an operand, split by whether both ends of a transfer are shared.
    struct Loading {
        double shared = 0.0;
        double apart = 0.0;
        double all() const { return shared + apart; }
    };

    // zigzag.cpp
    void multiply_turns(const Mapping& mapping);
    bool multiply_beside(const Mapping& mapping);
    void count_units();
    void shorten(Index loop);
    void lengthen_input(Index loop, Count more);
    void spread(Array& array) const;
    bool serves(Index level, std::size_t along) const;
    void chain(const Mapping& mapping, Index operand);
    void size_tiles(Index operand);
    bool is_over_capacity();
    Count bits_held(Index operand, const Boundary& one) const;
    bool is_pending(Index cut, Index upper) const;

    // zigzag_tiles.cpp
    double elements(const Array& array, Index operand, Index level, Index cut) const;
    double positions(Index axis, double outputs, double filters) const;
    double neighbours(const Array& array, Index operand, const Boundary& one) const;
    Count whole_neighbours(double count) const;
    Count room(Index operand, const Boundary& one) const;
    double energy_of_moves() const;
    double most_bits(const Boundary& one, Move towards, Move own) const;

    // zigzag_time.cpp
    double cycles_of(const Mapping& mapping);
    void find_room(const Mapping& mapping);
    Count steps_in_use(const Mapping& mapping, Index operand, Index at) const;
    Index first_own(Index operand, Index at) const;
    Count window_of(const Mapping& mapping, Index operand, Index at) const;
    void visit_ports(const Mapping& mapping, Index operand, Index at);
    void visit(Index level, Move move, Visit visit);
    Count stall(Count cycles);
    void hide(Count available, Count cycles);
    double nearest_cycles(const Visit& one, Count bits_per_cycle) const;
    double preload() const;
    Loading loading(Index operand) const;
    double offload() const;
    double longest_end(Index operand, Index at) const;
    double skew(const Mapping& mapping) const;

    ZigzagProblem problem_;
    bool has_axes_ = true;                          // else rows and columns of the input count as channels
    std::array<std::vector<Index>, operands> own_;  // relevant loops that are not along an axis
    std::array<Index, sides> loop_of_side_{};
    std::array<double, 2> stride_{}, dilation_{};  // divided by their common divisor
    std::vector<Place> places_;
    std::vector<std::array<double, loops>> beside_;        // by dimension of the array
    std::vector<std::pair<Index, std::size_t>> unrolled_;  // loops and dimensions with more than one unit
    bool is_in_parts_ = false;
    Array parts_, whole_;
    std::array<std::vector<Boundary>, operands> chain_;
    std::array<Count, operands> nearest_bits_{};  // of a tile in the innermost memory
    std::vector<Count> needs_bits_;
    std::vector<Visit> visits_;
    std::vector<Visit*> once_;
    Windows windows_;
};

}  // namespace onchip::layer
