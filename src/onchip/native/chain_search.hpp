// The search for the least chain of places by several criteria, with memory capacities that tiles share.
//
// Boundaries are at points of a lattice, as in chains.hpp. The value of a chain is its greatest criterion. Each
// criterion is a constant plus a cost per boundary that depends on its place. As a product, the value is the first
// criterion times the greatest of the others. For each dimension, the problem states which pairs of cells may be
// nested.
//
// If loops have remainders, tiles of a boundary may stay while outer loops iterate. If an outer loop moves on, only the
// elements at the end of every dimension that leads to them and has moved on inside may stay. No element stays if one
// of these dimensions has ended or has parts of equal length.
//
// The last point of the lattice contains all loops and is outside all places. A tile is needed until the last turn of
// the loops that lead to its elements. If no such loop can be between two points, a tile of the outer point is replaced
// within the turns of the inner one. In the last part of a place its tile is not replaced. So of all cycles there, the
// only ones in a window at a port belong to a tile of another boundary inside.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "chains.hpp"

namespace onchip::chains {

struct Boundary {
    std::size_t operand;
    std::size_t memory;
    Costs bits;                // size of its tile in its memory, by point
    std::vector<Costs> comes;  // lower bound on its tiles' arrivals, by point, per memory that counts them
    bool may_come_at_once;     // true if its memory holds two tiles: then the next tile may arrive at any time
};

// Transfers of a boundary that the array awaits one by one, by point: a lower bound on their number, and the duration
// of each.
struct Wait {
    Costs times;
    Costs longest;
};

struct Criterion {
    double fixed;
    std::vector<Costs> costs;  // by boundary, empty if it adds nothing
    std::vector<Costs> more;   // cost added if none of its tiles may stay; empty for no cost
    std::vector<Costs> rest;   // further cost added then, in full or not at all
    bool is_linear;            // true if linear in arrivals: a part of `more` is added if fewer tiles stay
    std::vector<std::vector<Wait>>
        waits;  // by boundary, for memories that hold one tile; `costs` include them with full windows
    std::optional<std::size_t> port;  // the port whose transfers it counts, with the cycles without a window
};

struct Problem {
    std::vector<std::size_t> shape;
    std::vector<std::vector<std::uint8_t>> may_stand_inside;  // by dimension: inner cell (slowest), outer cell
    std::vector<std::vector<std::uint8_t>> leads;             // by operand and dimension: true if to other elements
    std::vector<std::vector<double>> stays;                   // by dimension and cell: largest part at an end
    // By dimension and cell: the turns of a place's last part if it has fewer turns than the others; 0 if all parts
    // have equally many, infinity if unknown. And by dimension: the largest part that one turn leads to.
    std::vector<std::vector<double>> short_turns;
    std::vector<double> part_of_turn;
    std::vector<std::vector<std::uint8_t>> counts;  // by operand and dimension: true if the part is one of its elements
    std::vector<std::vector<double>> turns;         // by dimension and cell: most cycles of the loops that lead there
    std::vector<std::vector<std::uint8_t>> is_single;  // by dimension and cell: true if no loop may be inside it
    std::vector<double> room_bits;                     // by memory
    std::vector<std::vector<std::uint8_t>> ports;      // by port and boundary: true if it has transfers there
    std::vector<std::vector<double>> fewest_turns;     // by dimension and cell: least turns of every part but the last
    std::vector<std::vector<double>> last_turns;       // least turns of the last part
    std::vector<std::vector<std::uint8_t>> is_known;   // true if both bounds are exact
    std::vector<Boundary> boundaries;                  // operand by operand, each from the units upwards
    std::vector<Criterion> criteria;
    bool is_product;
};

struct Found {
    double floor;                     // lower bound on all chains below `limit`; `limit` itself if none exists
    bool is_least;                    // true if a chain attains the bound, or if no chain is below `limit`
    std::size_t steps;                // inspected points; sixteen infeasible successors count as one
    std::vector<std::size_t> points;  // of the best chain, by boundary; empty if none was found
    std::vector<std::vector<std::uint8_t>> cells;  // by dimension: true if such a chain may use the cell
    std::vector<std::size_t> criteria;  // those that may be the greatest of such a chain; empty if none exists
};

// Throws std::invalid_argument if a table does not have a value for each point.
Found least_chain_below(const Problem& problem, double limit, std::size_t most_steps);

}  // namespace onchip::chains
