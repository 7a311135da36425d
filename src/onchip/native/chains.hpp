// The least that tiles of several operands cost, each kept up to places in a nest that they share.
//
// A place is a point of a lattice: how far the loops inside it lead along each dimension. Each operand has boundaries
// from the units upwards, in places one after the other; those of all operands stand in one order of loops, so of any
// two places one lies inside the other. A boundary costs what its place says, and nothing else.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace onchip::chains {

using Costs = std::span<const double>;  // by point of the lattice, the last dimension's fastest; infinite: no room

// What the least chain costs that has a boundary in a point, by operand, boundary and point.
using Through = std::vector<std::vector<std::vector<double>>>;

// By operand its boundaries' costs. Throws std::invalid_argument for costs that are not of each point.
double least_cost(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands);

// The same costs; `outside` becomes what all other boundaries cost at least outside a point, by state (how many of each
// operand are placed, the first operand's fastest) and point. Throws std::invalid_argument for costs that are not of
// each point.
Through costs_through(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                      std::vector<std::vector<double>>& outside);

}  // namespace onchip::chains
