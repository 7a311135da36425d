// From all loops down to the units: the chains of tiles, and orders of loops between them, that no criterion rules out.
//
// A chain has places: 0 the units, level + 1 for the levels, then all loops. Loops stand above their place.

#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "exact_price.hpp"
#include "stop.hpp"

namespace onchip::exact {

inline constexpr Index no_loops = 4;  // stands for the class of loops that are not there

enum class Objective { energy, latency, product };

enum class Step { finished, leaf, paused };

// A mapping: loops innermost first, `along` a dimension of the array or none, and how many of them each level spans.
struct Nest {
    struct Loop {
        Index loop = 0;
        Count size = 1;
        Index along = none;
    };

    std::vector<Loop> loops;
    std::array<std::vector<Index>, operands> kept;  // level; none where it keeps nothing
};

class Descent {
public:
    Descent(const Tiling& tiling, const Prices& prices, Objective objective);

    // Stands above the first memory, with all to try; bounds are joined of these criteria.
    void begin(std::span<const Criterion> criteria);
    // Goes on to the next whole chain whose bound is below the limit, best first at each place.
    Step next(double limit, Count most_nodes, Count most_work, const StopToken& stop);

    Count nodes() const { return nodes_; }
    // How many tiles with orders were priced.
    Count work() const { return work_; }
    Nest nest() const;
    // Of the places of the chain, from all loops down.
    std::vector<double> bounds() const;

private:
    // What stands at a place; `inner` and `outer` are the classes of the loops up to the next place.
    struct Place {
        Index tile = 0;
        Index inner = none;
        Index outer = none;
        Index run_class = none;  // whose run begins here
        Index run_end = 0;       // the tile at which it ends
    };

    struct Candidate {
        double bound = 0.0;
        Index tile = 0;
        Index inner = none;
        Index outer = none;
    };

    // Per depth, from 0 (the memory next to all loops), candidates in the order of their bounds.
    struct Choices {
        bool is_listed = false;
        std::size_t next = 0;
        std::vector<Candidate> candidates;
    };

    // A port's transfers so far.
    struct Busy {
        double alone = 0.0;  // what single ones exceed their windows by
        double busy = 0.0;
        double first = 0.0;           // of them before the loops begin
        bool is_always_open = false;  // it serves the units in every cycle
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
    std::vector<Place> chain_;                      // place
    std::array<std::vector<Index>, operands> cut_;  // level
    std::vector<Choices> choices_;                  // depth
    std::vector<Index> exponent_, most_;            // digit: of the tile looked at, and of the one around it
    std::vector<double> paid_, rest_, value_;       // criterion
    std::vector<Busy> ports_;
    std::array<double, operands> chained_{};  // transfers of an operand's first tiles, or of its last
    std::vector<Index> lowest_;               // port: the lowest level whose boundary it serves
    layer::Windows windows_;
};

}  // namespace onchip::exact
