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

// By operand its boundaries' costs. Throws std::invalid_argument for costs that are not of each point.
double least_cost(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands);

}  // namespace onchip::chains
