// A sweep for each number of boundaries that stand inside a point.

#include "chains.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace onchip::chains {

namespace {

// At each point the least of all points inside it.
void spread(const std::vector<std::size_t>& shape, std::vector<double>& values) {
    std::size_t stride = values.size();
    for (const std::size_t length : shape) {
        const std::size_t whole = stride;
        stride /= length;
        for (std::size_t start = 0; start < values.size(); start += whole) {
            for (std::size_t at = start + stride; at < start + whole; ++at)
                values[at] = std::min(values[at], values[at - stride]);
        }
    }
}

void add(const std::vector<double>& inside, Costs own, std::vector<double>& least) {
    for (std::size_t at = 0; at < least.size(); ++at) least[at] = std::min(least[at], inside[at] + own[at]);
}

}  // namespace

double least_cost(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands) {
    const std::size_t points = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
    std::vector<std::size_t> step;  // of one boundary more of an operand, among states
    std::size_t states = 1;
    for (const auto& own : operands) {
        step.push_back(states);
        states *= own.size() + 1;
        for (const Costs costs : own) {
            if (costs.size() != points) throw std::invalid_argument("costs are not of each point");
        }
    }
    if (points == 0) throw std::invalid_argument("a lattice without points");
    std::vector<std::vector<double>> least(states);
    least[0].assign(points, 0.0);
    for (std::size_t state = 1; state < states; ++state) {
        least[state].assign(points, std::numeric_limits<double>::infinity());
        for (std::size_t operand = 0; operand < operands.size(); ++operand) {
            const std::size_t placed = state / step[operand] % (operands[operand].size() + 1);
            if (placed > 0) add(least[state - step[operand]], operands[operand][placed - 1], least[state]);
        }
        spread(shape, least[state]);
    }
    return least.back().back();
}

}  // namespace onchip::chains
