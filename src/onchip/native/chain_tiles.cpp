#include "chain_tiles.hpp"

#include <algorithm>
#include <limits>

namespace onchip::chains {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Of how often a boundary's tiles come again inside `outer` and outside it, the part that they do outside it at least.
double comes_outside(const Boundary& boundary, std::size_t inner, std::size_t outer) {
    double found = 1.0;
    for (const Costs& own : boundary.comes) {
        if (own[inner] > 1.0) found = std::min(found, std::max(own[outer] - 1.0, 0.0) / (own[inner] - 1.0));
    }
    return found;
}

// Of what stays of a boundary's tiles in `inner` at most, the part that does if `outer` is the next point.
double part_that_stays(const Problem& problem, const std::vector<std::uint16_t>& at, const Boundary& boundary,
                       std::size_t inner, std::size_t outer) {
    const std::size_t sides = problem.shape.size(), operand = boundary.operand;
    double most = 0.0, least = infinity;
    bool ends = false, comes_again = false;
    for (std::size_t side = 0; side < sides; ++side) {
        const std::size_t one = at[inner * sides + side], two = at[outer * sides + side];
        const double own = problem.counts[operand][side] ? problem.stays[side][one] : infinity;
        if (own < infinity) most = std::max(most, own);
        if (one == two) continue;
        if (!problem.leads[operand][side]) {
            comes_again = true;
            continue;
        }
        ends = ends || two + 1 == problem.shape[side];
        least = std::min(least, own);
    }
    const double stays = ends || least == 0.0 ? 0.0 : least < most ? least / most : 1.0;
    return stays == 1.0 || !comes_again ? stays : 1.0 - (1.0 - stays) * comes_outside(boundary, inner, outer);
}

double turns_inside(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t x) {
    const std::size_t sides = problem.shape.size();
    double found = 1.0;
    for (std::size_t side = 0; side < sides; ++side) found *= problem.turns[side][at[x * sides + side]];
    return found;
}

// Whether loops that lead to an operand's elements may stand between two points.
bool may_lead_between(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t operand,
                      std::size_t inner, std::size_t outer) {
    const std::size_t sides = problem.shape.size();
    for (std::size_t side = 0; side < sides; ++side) {
        const std::size_t one = at[inner * sides + side];
        if (problem.leads[operand][side] && (one != at[outer * sides + side] || !problem.is_single[side][one]))
            return true;
    }
    return false;
}

// The window in which a tile of an operand in `x` is replaced, at most: as if nothing stood inside.
double widest_window(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t operand, std::size_t x) {
    const std::size_t sides = problem.shape.size();
    double leading = 1.0;
    for (std::size_t side = 0; side < sides; ++side) {
        if (problem.leads[operand][side]) leading *= problem.turns[side][at[x * sides + side]];
    }
    return leading == 1.0 ? 1.0 : turns_inside(problem, at, x);
}

// What a boundary's transfers wait longer, as windows are narrower than as if nothing stood inside.
void narrow(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
            const std::vector<Placed>& tiles, std::vector<double>& added) {
    const auto waits = [&](const Criterion& own) { return !own.waits[boundary].empty(); };
    if (std::none_of(problem.criteria.begin(), problem.criteria.end(), waits)) return;
    const std::size_t operand = problem.boundaries[boundary].operand;
    const double widest = widest_window(problem, at, operand, x);
    double window = widest;
    for (auto own = tiles.rbegin(); own != tiles.rend(); ++own) {
        if (may_lead_between(problem, at, operand, own->point, x)) break;
        window = std::min(window, turns_inside(problem, at, own->point));
    }
    if (!(window < widest)) return;
    for (std::size_t k = 0; k < added.size(); ++k) {
        for (const auto& [times, longest] : problem.criteria[k].waits[boundary])
            added[k] += times[x] * (std::max(longest[x] - window, 0.0) - std::max(longest[x] - widest, 0.0));
    }
}

// Of all transfers at a port none has a window in the last cycles of the innermost boundary there.
void add_last_cycles(const Problem& problem, std::size_t boundary, std::size_t x, const std::vector<Placed>& tiles,
                     std::vector<double>& added) {
    if (problem.last_cycles[x] == 0.0) return;
    for (std::size_t port = 0; port < problem.ports.size(); ++port) {
        const auto& own = problem.ports[port];
        const auto is_there = [&](const Placed& one) { return own[one.boundary] != 0; };
        if (!own[boundary] || std::any_of(tiles.begin(), tiles.end(), is_there)) continue;
        for (std::size_t k = 0; k < added.size(); ++k) {
            if (problem.criteria[k].port == port) added[k] += problem.last_cycles[x];
        }
    }
}

}  // namespace

bool is_of_each_point(const Problem& problem, std::size_t points) {
    const auto fits = [&](Costs costs) { return costs.size() == points; };
    const auto may_be_none = [&](Costs costs) { return costs.empty() || fits(costs); };
    bool found = fits(problem.last_cycles) && std::all_of(problem.boundaries.begin(), problem.boundaries.end(),
                                                          [&](const Boundary& own) {
                                                              return fits(own.bits) &&
                                                                     std::all_of(own.comes.begin(), own.comes.end(), fits);
                                                          });
    for (const Criterion& own : problem.criteria) {
        for (const auto* tables : {&own.costs, &own.more, &own.rest})
            found = found && std::all_of(tables->begin(), tables->end(), may_be_none);
        for (const auto& waits : own.waits)
            found = found && std::all_of(waits.begin(), waits.end(),
                                         [&](const Wait& one) { return fits(one.times) && fits(one.longest); });
    }
    return found;
}

std::vector<std::vector<double>> costs_if_all_move(const Criterion& criterion) {
    std::vector<std::vector<double>> found;
    for (std::size_t b = 0; b < criterion.more.size(); ++b) {
        auto& own = found.emplace_back(criterion.more[b].begin(), criterion.more[b].end());
        const Costs rest = criterion.rest[b];
        own.resize(std::max(own.size(), rest.size()), 0.0);
        for (std::size_t x = 0; x < rest.size(); ++x) own[x] += rest[x];
    }
    return found;
}

void follow(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
            std::vector<Placed>& tiles, std::vector<double>& added) {
    narrow(problem, at, boundary, x, tiles, added);
    add_last_cycles(problem, boundary, x, tiles, added);
    go_outside(problem, at, x, tiles, added);
}

void go_outside(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t x, std::vector<Placed>& tiles,
                std::vector<double>& added) {
    for (Placed& own : tiles) {
        if (own.stays == 0.0 || own.point == x) continue;
        const double stays = part_that_stays(problem, at, problem.boundaries[own.boundary], own.point, x);
        if (!(stays < own.stays)) continue;
        for (std::size_t k = 0; k < added.size(); ++k) {
            const Costs more = problem.criteria[k].more[own.boundary], rest = problem.criteria[k].rest[own.boundary];
            const double part = problem.criteria[k].is_linear ? own.stays - stays : stays == 0.0 ? 1.0 : 0.0;
            if (!more.empty()) added[k] += part * more[own.point];
            if (!rest.empty() && stays == 0.0) added[k] += rest[own.point];
        }
        own.stays = stays;
    }
}

}  // namespace onchip::chains
