// The least total cost of tiles of several operands, each kept up to places in a shared loop nest.
//
// A place is a point of a lattice: how far the loops inside it lead along each dimension. The boundaries of an operand
// are at successive places, from the units upwards. All operands share one order of loops, so of any two places one
// contains the other. The cost of a boundary depends on its place alone.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace onchip::chains {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

using Costs = std::span<const double>;  // by point, last dimension fastest; infinite where a tile does not fit

// Least cost of a chain with a boundary at a point, by operand, boundary and point.
using Through = std::vector<std::vector<std::vector<double>>>;

// `operands`: the costs of each boundary by operand. Throws std::invalid_argument if a table does not have a value for
// each point.
double least_cost(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands);

struct LeastChain {
    double cost;
    std::vector<std::size_t> points;  // operand by operand, by boundary; empty if nothing fits
};

// Least cost of the placed boundaries inside a point, by state (number of placed boundaries of each operand) and point.
using Inside = std::vector<std::vector<double>>;

// Like `least_cost`, with the chain. Reuses the memory of `inside`; its initial content is irrelevant.
LeastChain least_chain(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                       Inside& inside);

// Cost of boundaries added unless tiles stay, by operand and boundary (empty for no cost). It is due if the next
// boundary's point differs only in dimensions that lead to elements of the operand, and one of them ends there. For the
// last boundary, the last point of the lattice is the next.
struct More {
    std::vector<std::vector<Costs>> costs;
    std::vector<std::vector<std::uint8_t>> leads;  // by operand and dimension
};

// By operand placed last, state (number of placed boundaries of each operand, first operand fastest) and point.
using Outside = std::vector<std::vector<std::vector<double>>>;

// Returns the least costs of chains through each point. Sets `outside` to the least cost of all other boundaries
// outside the point of the last one placed, plus the cost that it adds then. Throws std::invalid_argument if a table
// does not have a value for each point.
Through costs_through(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                      const More& more, Outside& outside);

}  // namespace onchip::chains
