// Branch and bound from the outermost loops down to the units, over chains of tiles and orders of the loops between
// them.
//
// A chain has places: 0 for the units, level + 1 for each level, and one for all loops. Loops belong to the place below
// them.

#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "exact_price.hpp"
#include "stop.hpp"

namespace onchip::exact {

inline constexpr Index no_loops = 4;  // the class of absent loops

enum class Objective { energy, latency, product };

enum class Step { finished, leaf, paused };

// A mapping: loops innermost first (`along`: a dimension of the array, or none in time), and the number of loops that
// each level spans.
struct Nest {
    struct Loop {
        Index loop = 0;
        Count size = 1;
        Index along = none;
    };

    std::vector<Loop> loops;
    std::array<std::vector<Index>, operands> kept;  // by level; none where it keeps no tile
};

class Descent {
public:
    Descent(const Tiling& tiling, const Prices& prices, Objective objective);

    // Restarts at the outermost memory; bounds combine these criteria.
    void begin(std::span<const Criterion> criteria);
    // Advances to the next complete chain with a bound below the limit, best first at each place.
    Step next(double limit, Count most_nodes, Count most_work, const StopToken& stop);

    Count nodes() const { return nodes_; }
    // Number of pairs of tile and order evaluated.
    Count work() const { return work_; }
    Nest nest() const;
    // Bounds of the chain's places, from the outermost inwards.
    std::vector<double> bounds() const;

private:
    // The content of a place; `inner` and `outer` are the classes of the loops up to the next place.
    struct Place {
        Index tile = 0;
        Index inner = none;
        Index outer = none;
        Index run_class = none;  // class of the run that begins here
        Index run_end = 0;       // the tile at its end
    };

    struct Candidate {
        double bound = 0.0;
        Index tile = 0;
        Index inner = none;
        Index outer = none;
    };

    // Per depth, from 0 (the outermost memory): candidates sorted by bound.
    struct Choices {
        bool is_listed = false;
        std::size_t next = 0;
        std::vector<Candidate> candidates;
    };

    // A port's transfers so far.
    struct Busy {
        double alone = 0.0;  // cycles by which single transfers exceed their windows
        double busy = 0.0;
        double first = 0.0;           // of transfers before the loops begin
        bool is_always_open = false;  // true if it serves the units in every cycle
    };

    // exact_descent.cpp
    void expand(double limit);
    bool next_inside(Index& tile);
    void put(Index place, Index tile, Index inner, Index outer);
    void try_orders(Index place, Index tile, double limit);
    void consider(Index place, const Candidate& candidate, double limit);
    bool raise_by_ports(Index place, double limit);
    double joint() const;
    double paid(Index at, Index lowest) const;
    double rest(Index at, Index place) const;

    // exact_nest.cpp
    std::unordered_map<Index, std::vector<Nest::Loop>> loops_beside() const;

    // exact_orders.cpp
    bool is_inner(Index inner, Index tile, Index around) const;
    bool is_outer(Index inner, Index outer, Index tile, Index around) const;
    Index sole_run(Index place) const;
    bool lengthens(Index place, Index inner) const;
    bool narrows(Index place, Index outer) const;
    bool has_free_outer(Index place, Index inner, Index tile) const;

    // exact_stall.cpp
    void account(Index place);
    void add_units(Index operand);
    void add_level(Index operand, Index level, double window);
    double window_of(Index operand, Index level, Index filled) const;
    double stall(Index place);
    Count covered_cycles(Index port, Index place);
    bool uses(Index port, Index operand, Index level, Index tile) const;

    Index tile_spanning(Index tile, Index own, Index around) const {
        return tile - tiling_.tiles[tile].part[own] + tiling_.tiles[around].part[own];
    }

    const Tiling& tiling_;
    const Prices& prices_;
    const Space& space_;
    Objective objective_;
    Index levels_;
    std::vector<Criterion> criteria_;
    Index depth_ = 0;
    Count nodes_ = 0, work_ = 0;
    std::vector<Place> chain_;                      // by place
    std::array<std::vector<Index>, operands> cut_;  // by level
    std::vector<Choices> choices_;                  // by depth
    std::vector<Index> exponent_, most_;            // by digit: of the current tile, and of the tile around it
    std::vector<double> paid_, rest_, value_;       // by criterion
    std::vector<Busy> ports_;
    std::array<double, operands> chained_{};  // transfers of an operand's first tiles (output: of its last)
    std::vector<Index> lowest_;               // by port: the lowest level whose boundary it serves
    layer::Windows windows_;
};

}  // namespace onchip::exact
