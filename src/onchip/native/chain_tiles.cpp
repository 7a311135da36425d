#include "chain_tiles.hpp"

#include <algorithm>
#include <limits>

namespace onchip::chains {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Of what stays of an operand's boundaries in `inner` at most, the part that does if `outer` is the next point.
double part_that_stays(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t operand,
                       std::size_t inner, std::size_t outer) {
    const std::size_t sides = problem.shape.size();
    double most = 0.0, least = infinity;
    bool ends = false;
    for (std::size_t side = 0; side < sides; ++side) {
        const std::size_t one = at[inner * sides + side], two = at[outer * sides + side];
        const double own = problem.counts[operand][side] ? problem.stays[side][one] : infinity;
        if (own < infinity) most = std::max(most, own);
        if (one == two) continue;
        if (!problem.leads[operand][side]) return 1.0;
        ends = ends || two + 1 == problem.shape[side];
        least = std::min(least, own);
    }
    if (ends || least == 0.0) return 0.0;
    return least < most ? least / most : 1.0;
}

}  // namespace

void follow(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t x, std::vector<Placed>& tiles,
            std::vector<double>& added) {
    for (Placed& own : tiles) {
        if (own.stays == 0.0 || own.point == x) continue;
        const double stays = part_that_stays(problem, at, problem.boundaries[own.boundary].operand, own.point, x);
        if (!(stays < own.stays)) continue;
        for (std::size_t k = 0; k < added.size(); ++k) {
            const Costs more = problem.criteria[k].more[own.boundary];
            if (more.empty()) continue;
            const double part = problem.criteria[k].is_linear ? own.stays - stays : stays == 0.0 ? 1.0 : 0.0;
            added[k] += part * more[own.point];
        }
        own.stays = stays;
    }
}

}  // namespace onchip::chains
