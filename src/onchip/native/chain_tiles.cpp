#include "chains.hpp"

#include <algorithm>
#include <cmath>

namespace onchip::chains {

namespace {

// Returns the part of a tile in `inner` that may stay, relative to the most that can stay, when loops between `before`
// and `outer` move on. `before` and `outer` are consecutive places outside the tile.
//
// Then each loop that leads to the tile's elements has one iteration left, so it ends short: in each dimension that has
// moved on up to `before`; else in one dimension that may have moved on since. If a dimension has ended, its outermost
// loop is inside and never ends short. Loops end short only in the last part of a place. There, the loops that have
// moved on before have one iteration only if the part takes no more turns than the tile's.
double stays_between(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t operand,
                     std::size_t inner, std::size_t before, std::size_t outer) {
    const std::size_t sides = problem.shape.size();
    double most = 0.0, in_each = infinity, in_any = 0.0;
    bool any_has_moved = false, any_may_move = false;
    for (std::size_t side = 0; side < sides; ++side) {
        if (!problem.leads[operand][side]) continue;
        const std::size_t one = at[inner * sides + side], two = at[before * sides + side],
                          three = at[outer * sides + side];
        const bool counts = problem.counts[operand][side] != 0;
        double own = counts ? problem.stays[side][one] : infinity;
        if (counts) most = std::max(most, own);
        for (const std::size_t place : {two, three}) {
            const double rest = problem.short_turns[side][place];
            if (place == one) continue;
            if (rest == 0.0 || (place == two && rest < infinity && rest > problem.turns[side][one]))
                own = 0.0;
            else if (counts)
                own = std::min(own, rest * problem.part_of_turn[side]);
        }
        if (one != two) {
            any_has_moved = true;
            in_each = two + 1 == problem.shape[side] ? 0.0 : std::min(in_each, own);
        }
        if (one != three || !problem.is_single[side][one]) {
            any_may_move = true;
            in_any = std::max(in_any, own);
        }
    }
    const double found = any_has_moved ? in_each : any_may_move ? in_any : infinity;
    return found < most ? found / most : found == 0.0 ? 0.0 : 1.0;
}

// Updates the part of a tile's elements that may stay when the place `x` follows outside. For arrivals repeated between
// two places, this is the part that may stay between them; for the remaining ones, the part that may stay outside. The
// part never grows from place to place, so the bound also holds if tiles arrive more often than `comes` states.
void move_on(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t x, std::size_t last,
             Placed& own) {
    const Boundary& boundary = problem.boundaries[own.boundary];
    const double outside = std::min(stays_between(problem, at, boundary.operand, own.point, x, last), own.outside);
    const double between = std::max(
        std::min(stays_between(problem, at, boundary.operand, own.point, own.before, x), own.outside), outside);
    double stays = boundary.comes.empty() ? outside : 0.0;
    for (std::size_t side = 0; side < boundary.comes.size(); ++side) {
        const Costs comes = boundary.comes[side];
        const double again = comes[own.point] - 1.0;
        if (again > 0.0) own.settled[side] += between * std::max(comes[own.before] - comes[x], 0.0) / again;
        const double left = again > 0.0 ? std::max(comes[x] - 1.0, 0.0) / again : 1.0;
        stays = std::max(stays, own.settled[side] + outside * left);
    }
    own.stays = std::min(own.stays, stays);
    own.outside = outside;
    own.before = x;
}

double turns_inside(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t x) {
    const std::size_t sides = problem.shape.size();
    double found = 1.0;
    for (std::size_t side = 0; side < sides; ++side) found *= problem.turns[side][at[x * sides + side]];
    return found;
}

// Returns true if loops that lead to an operand's elements may be between two points.
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

// Returns an upper bound on the replacement window of an operand's tile in `x`, as if nothing were inside.
double widest_window(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t operand, std::size_t x) {
    const std::size_t sides = problem.shape.size();
    double leading = 1.0;
    for (std::size_t side = 0; side < sides; ++side) {
        if (problem.leads[operand][side]) leading *= problem.turns[side][at[x * sides + side]];
    }
    return leading == 1.0 ? 1.0 : turns_inside(problem, at, x);
}

// Returns the window, given the tiles inside.
double window_of(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
                 const std::vector<Placed>& tiles) {
    if (problem.boundaries[boundary].may_come_at_once) return turns_inside(problem, at, x);
    const std::size_t operand = problem.boundaries[boundary].operand;
    double window = widest_window(problem, at, operand, x);
    for (auto own = tiles.rbegin(); own != tiles.rend(); ++own) {
        if (may_lead_between(problem, at, operand, own->point, x)) break;
        window = std::min(window, turns_inside(problem, at, own->point));
    }
    return window;
}

// Adds the waits of a boundary's transfers that are due to a window narrower than `widest_window`.
void narrow(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
            double window, std::vector<double>& added) {
    const auto waits = [&](const Criterion& own) { return !own.waits[boundary].empty(); };
    if (std::none_of(problem.criteria.begin(), problem.criteria.end(), waits)) return;
    const double widest = widest_window(problem, at, problem.boundaries[boundary].operand, x);
    if (!(window < widest)) return;
    for (std::size_t k = 0; k < added.size(); ++k) {
        for (const auto& [times, longest] : problem.criteria[k].waits[boundary])
            added[k] += times[x] * (std::max(longest[x] - window, 0.0) - std::max(longest[x] - widest, 0.0));
    }
}

// Returns a lower bound on the cycles of the last part of a place without a window at a port: its own tile has no
// window there, and a tile inside has one for each part but the last. Zero if a tile may be replaced in every cycle.
double without_window(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t x,
                      const std::vector<std::uint8_t>& port, const std::vector<Placed>& tiles) {
    const std::size_t sides = problem.shape.size();
    double cycles = 1.0;
    bool is_known = true;
    for (std::size_t side = 0; side < sides; ++side) {
        cycles *= problem.last_turns[side][at[x * sides + side]];
        is_known = is_known && problem.is_known[side][at[x * sides + side]] != 0;
    }
    double found = cycles > 1.0 ? cycles : 0.0;
    for (const Placed& own : tiles) {
        if (!port[own.boundary]) continue;
        if (!is_known) return 0.0;
        double parts = 1.0, turns = 1.0;
        for (std::size_t side = 0; side < sides; ++side) {
            const double inside = problem.fewest_turns[side][at[own.point * sides + side]];
            parts *= std::ceil(problem.last_turns[side][at[x * sides + side]] / inside);
            turns *= inside;
        }
        if (turns == 1.0) return 0.0;
        found -= (parts - 1.0) * own.window;
    }
    return found;
}

// Adds the cycles in which no transfer at a port has a window.
void add_cycles_without_window(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t port,
                               std::size_t x, Chain& chain, std::vector<double>& added) {
    const double found = without_window(problem, at, x, problem.ports[port], chain.tiles);
    const double more = found - chain.without_window[port];
    if (!(more > 0.0)) return;
    chain.without_window[port] = found;
    for (std::size_t k = 0; k < added.size(); ++k) {
        if (problem.criteria[k].port == port) added[k] += more;
    }
}

// Updates the tiles placed so far as a point follows outside, and adds the cost of the parts that no longer stay.
void go_outside(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t x, Chain& chain,
                std::vector<double>& added) {
    const std::size_t last = at.size() / problem.shape.size() - 1;
    for (Placed& own : chain.tiles) {
        if (own.stays == 0.0 || own.point == x || own.before == x) continue;
        const double before = own.stays;
        move_on(problem, at, x, last, own);
        if (!(own.stays < before)) continue;
        for (std::size_t k = 0; k < added.size(); ++k) {
            const Costs more = problem.criteria[k].more[own.boundary], rest = problem.criteria[k].rest[own.boundary];
            const double part = problem.criteria[k].is_linear ? before - own.stays : own.stays == 0.0 ? 1.0 : 0.0;
            if (!more.empty()) added[k] += part * more[own.point];
            if (!rest.empty() && own.stays == 0.0) added[k] += rest[own.point];
        }
    }
}

}  // namespace

bool is_of_each_point(const Problem& problem, std::size_t points) {
    const auto fits = [&](Costs costs) { return costs.size() == points; };
    const auto may_be_none = [&](Costs costs) { return costs.empty() || fits(costs); };
    bool found = std::all_of(problem.boundaries.begin(), problem.boundaries.end(), [&](const Boundary& own) {
        return fits(own.bits) && std::all_of(own.comes.begin(), own.comes.end(), fits);
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
            Chain& chain, std::vector<double>& added) {
    const double window = window_of(problem, at, boundary, x, chain.tiles);
    narrow(problem, at, boundary, x, window, added);
    for (std::size_t port = 0; port < problem.ports.size(); ++port) {
        if (problem.ports[port][boundary]) add_cycles_without_window(problem, at, port, x, chain, added);
    }
    go_outside(problem, at, x, chain, added);
    chain.tiles.emplace_back(boundary, x);
    chain.tiles.back().window = window;
}

void follow_at_least(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
                     const Chain& chain, std::vector<double>& added) {
    narrow(problem, at, boundary, x, window_of(problem, at, boundary, x, chain.tiles), added);
    for (std::size_t port = 0; port < problem.ports.size(); ++port) {
        if (!problem.ports[port][boundary]) continue;
        const auto is_there = [&](const Placed& one) { return problem.ports[port][one.boundary] != 0; };
        const auto others = std::count_if(chain.tiles.begin(), chain.tiles.end(), is_there);
        if (others + 1 < std::count(problem.ports[port].begin(), problem.ports[port].end(), 1)) continue;
        const double more =
            without_window(problem, at, x, problem.ports[port], chain.tiles) - chain.without_window[port];
        for (std::size_t k = 0; more > 0.0 && k < added.size(); ++k) {
            if (problem.criteria[k].port == port) added[k] += more;
        }
    }
}

void end(const Problem& problem, const std::vector<std::uint16_t>& at, Chain& chain, std::vector<double>& added) {
    const std::size_t last = at.size() / problem.shape.size() - 1;
    go_outside(problem, at, last, chain, added);
    for (std::size_t port = 0; port < problem.ports.size(); ++port) {
        const auto is_there = [&](const Placed& one) { return problem.ports[port][one.boundary] != 0; };
        if (std::any_of(chain.tiles.begin(), chain.tiles.end(), is_there))
            add_cycles_without_window(problem, at, port, last, chain, added);
    }
}

}  // namespace onchip::chains
