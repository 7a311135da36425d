// The least chain of places by several criteria at once, with the room that tiles take of memories together.
//
// Boundaries stand in points of a lattice as in chains.hpp. What a chain is worth is the greatest of its criteria, each
// a number that is fixed and what every boundary adds in its place; or, as a product, the first of them times the
// greatest of the others. A lattice's dimension says of any two of its cells whether places in both may stand inside
// each other. Where loops end short, tiles of a boundary may stay while loops outside run: when one of these moves on,
// what lies at the end of every dimension that leads to its elements and has moved on inside; none if one of these has
// ended, or has parts that are all as long. The
// last point of the lattice, with all loops inside, is outside all places. A tile is needed
// until the last turn of the loops that lead to its elements: where no such loop can stand between two points, a tile
// of the outer one is replaced within the turns of the inner one. In the last part of a place its tile is not replaced:
// of all cycles there none is in a window at a port but where a tile of another boundary is, that stands inside.

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
    Costs bits;                // of the room of its memory, by point
    std::vector<Costs> comes;  // how often its tiles come at least, by point, as one or both of its memories see it
    bool may_come_at_once;     // whether its memory has room for two tiles: then the next may come all the time
};

// Transfers of a boundary that are waited for one by one, by point: how often at least, and how long each takes.
struct Wait {
    Costs times;
    Costs longest;
};

struct Criterion {
    double fixed;
    std::vector<Costs> costs;  // by boundary, none where it adds nothing
    std::vector<Costs> more;   // what it adds beyond these where none of its tiles may stay, none where that is nothing
    std::vector<Costs> rest;   // and beyond both then, that no part of is added where some tiles may
    bool is_linear;            // in how often tiles come: if fewer stay it has a part of `more`
    std::vector<std::vector<Wait>>
        waits;  // by boundary, of memories with room for one tile; `costs` have them in full windows
    std::optional<std::size_t> port;  // all of whose transfers it counts, and cycles in which none has a window
};

struct Problem {
    std::vector<std::size_t> shape;
    std::vector<std::vector<std::uint8_t>> may_stand_inside;  // by dimension, inner and outer cell; inner's slowest
    std::vector<std::vector<std::uint8_t>> leads;             // by operand and dimension, whether to other elements
    std::vector<std::vector<double>> stays;                   // by dimension and cell, the part at an end at most
    // By dimension and cell, the turns of a place's last part if these are fewer than those of the others; none if all
    // have as many, infinite where that is not known. And by dimension the part of it that a turn leads to at most.
    std::vector<std::vector<double>> short_turns;
    std::vector<double> part_of_turn;
    std::vector<std::vector<std::uint8_t>> counts;  // by operand and dimension, whether the part is one of its elements
    std::vector<std::vector<double>> turns;  // by dimension and cell, cycles of the loops that lead there at most
    std::vector<std::vector<std::uint8_t>> is_single;  // by dimension and cell, whether no loop may stand inside it
    std::vector<double> room_bits;                     // by memory
    std::vector<std::vector<std::uint8_t>> ports;      // by port and boundary, whether that has transfers there
    std::vector<std::vector<double>> fewest_turns;     // by dimension and cell, those of any part but the last at least
    std::vector<std::vector<double>> last_turns;       // and those of the last part at least
    std::vector<std::vector<std::uint8_t>> is_known;   // and whether both are just so many
    std::vector<Boundary> boundaries;  // of an operand from the units upwards, operands one after the other
    std::vector<Criterion> criteria;
    bool is_product;
};

struct Found {
    double floor;                     // no chain below `limit` is worth less; `limit` itself if there is none
    bool is_least;                    // whether a chain is worth just that, or there is none below `limit`
    std::size_t steps;                // points looked at; those that cannot follow count sixteen for one
    std::vector<std::size_t> points;  // of the least chain, by boundary; empty where none was found
    std::vector<std::vector<std::uint8_t>> cells;  // by dimension, whether chains below `limit` may stand in a cell
    std::vector<std::size_t> criteria;  // those that may be the greatest of such a chain; none if there is none
};

// Throws std::invalid_argument for tables that are not of each point.
Found least_chain_below(const Problem& problem, double limit, std::size_t most_steps);

}  // namespace onchip::chains
