// The least that tiles of several operands cost, each kept up to places in a nest that they share.
//
// A place is a point of a lattice: how far the loops inside it lead along each dimension. Each operand has boundaries
// from the units upwards, in places one after the other; those of all operands stand in one order of loops, so of any
// two places one lies inside the other. A boundary costs what its place says, and nothing else.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace onchip::chains {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

using Costs = std::span<const double>;  // by point of the lattice, the last dimension's fastest; infinite: no room

// What the least chain costs that has a boundary in a point, by operand, boundary and point.
using Through = std::vector<std::vector<std::vector<double>>>;

// By operand its boundaries' costs. Throws std::invalid_argument for costs that are not of each point.
double least_cost(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands);

struct LeastChain {
    double cost;
    std::vector<std::size_t> points;  // by boundary, an operand's one after the other; none where nothing has room
};

// By state (how many boundaries of each operand are placed) and point, what they cost at least if all stand inside it.
using Inside = std::vector<std::vector<double>>;

// The same, and of which chain that is. By operand its boundaries' costs; throws as `least_cost` does. What `inside`
// holds is of no matter: its memory is used again.
LeastChain least_chain(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                       Inside& inside);

// What boundaries cost beyond their costs unless tiles stay, by operand and boundary (none where that is nothing):
// where the next boundary's point is ahead in dimensions alone that lead to elements of the operand, and one of them
// ends there. Of the last boundary the last point of the lattice counts as the next.
struct More {
    std::vector<std::vector<Costs>> costs;
    std::vector<std::vector<std::uint8_t>> leads;  // by operand and dimension
};

// By operand placed last, by state (how many of each operand are placed, the first operand's fastest) and by point.
using Outside = std::vector<std::vector<std::vector<double>>>;

// The same costs; `outside` becomes what all other boundaries cost at least outside a point in which the last was
// placed, with what that costs more. Throws std::invalid_argument for costs that are not of each point.
Through costs_through(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                      const More& more, Outside& outside);

}  // namespace onchip::chains
