// The branch and bound, and its bounds.

#include "exact_descent.hpp"

#include <algorithm>

namespace onchip::exact {

using layer::input;
using layer::output;
using layer::weight;

Descent::Descent(const Tiling& tiling, const Prices& prices, Objective objective)
    : tiling_(tiling),
      prices_(prices),
      space_(tiling.space),
      objective_(objective),
      levels_(space_.levels()),
      chain_(static_cast<std::size_t>(levels_) + 2),
      choices_(static_cast<std::size_t>(levels_) + 1),
      exponent_(space_.digits.size()),
      most_(space_.digits.size()),
      ports_(space_.machine.bits_per_cycle.size()),
      lowest_(ports_.size(), levels_) {
    for (auto& own : cut_) own.resize(static_cast<std::size_t>(levels_));
    for (Index level = levels_ - 1; level >= 0; --level) {
        for (const auto& own : space_.port) {
            for (const Index port : own[level + 1]) {
                if (port != none) lowest_[port] = level;
            }
        }
    }
}

void Descent::begin(std::span<const Criterion> criteria) {
    criteria_.assign(criteria.begin(), criteria.end());
    for (auto* one : {&paid_, &rest_, &value_}) one->assign(criteria_.size(), 0.0);
    depth_ = 0;
    chain_.back() = Place{tiling_.last(), none, none, none, 0};
    for (Choices& one : choices_) one.is_listed = false;
}

Step Descent::next(double limit, Count most_nodes, Count most_work, const StopToken& stop) {
    while (depth_ >= 0) {
        Choices& here = choices_[depth_];
        if (!here.is_listed) {
            if (stop.is_asked() || nodes_ >= most_nodes || work_ >= most_work) return Step::paused;
            ++nodes_;
            expand(limit);
        }
        if (here.next >= here.candidates.size() || here.candidates[here.next].bound >= limit) {
            here.is_listed = false;
            --depth_;
            continue;
        }
        const Candidate& chosen = here.candidates[here.next++];
        put(levels_ - depth_, chosen.tile, chosen.inner, chosen.outer);
        if (depth_ == levels_) return Step::leaf;
        ++depth_;
    }
    return Step::finished;
}

std::vector<double> Descent::bounds() const {
    std::vector<double> found;
    for (Index depth = 0; depth <= depth_; ++depth)
        found.push_back(choices_[depth].candidates[choices_[depth].next - 1].bound);
    return found;
}

// Lists the candidates for the next place, sorted by bound.
void Descent::expand(double limit) {
    const Index place = levels_ - depth_;
    if (objective_ != Objective::energy) account(place + 1);
    for (std::size_t at = 0; at < criteria_.size(); ++at) paid_[at] = paid(static_cast<Index>(at), place);
    Choices& here = choices_[depth_];
    here.is_listed = true;
    here.next = 0;
    here.candidates.clear();
    const Index around = chain_[place + 1].tile;
    for (std::size_t digit = 0; digit < most_.size(); ++digit) {
        most_[digit] = place > 0 ? around / tiling_.stride[digit] % tiling_.radix[digit] : 0;
        exponent_[digit] = 0;
    }
    Index tile = 0;
    do {
        if (place == 0 || prices_.fits(place - 1, tile)) try_orders(place, tile, limit);
    } while (next_inside(tile));
    std::stable_sort(here.candidates.begin(), here.candidates.end(),
                     [](const Candidate& one, const Candidate& other) { return one.bound < other.bound; });
}

// Advances to the next tile that divides the tile around it. Returns false after the last.
bool Descent::next_inside(Index& tile) {
    for (std::size_t digit = 0; digit < most_.size(); ++digit) {
        if (exponent_[digit] < most_[digit]) {
            ++exponent_[digit];
            tile += tiling_.stride[digit];
            return true;
        }
        tile -= exponent_[digit] * tiling_.stride[digit];
        exponent_[digit] = 0;
    }
    return false;
}

// Puts a tile at a place, with the order of the loops above it.
void Descent::put(Index place, Index tile, Index inner, Index outer) {
    const Place& above = chain_[place + 1];
    Place& here = chain_[place] = Place{tile, inner, outer, none, tile};
    if (tile == above.tile) {
        here.run_class = above.run_class;
        here.run_end = above.run_end;
    } else if (inner < no_class) {
        here.run_class = inner;
        here.run_end = tile_spanning(tile, inner, above.tile);
        if (here.run_end == above.tile && above.run_class == inner) here.run_end = above.run_end;
    }
    for (Index operand = 0; place > 0 && operand < operands; ++operand) {
        if (space_.holds[operand][place - 1])
            cut_[operand][place - 1] = here.run_class == operand ? here.run_end : tile;
    }
}

// Tries each pair of innermost and outermost classes with a distinct effect.
void Descent::try_orders(Index place, Index tile, double limit) {
    const Index around = chain_[place + 1].tile, sole = sole_run(place);
    if (sole != none && tiling_.tiles[tile].part[sole] == tiling_.tiles[around].part[sole]) return;
    unsigned seen = 0;
    for (Index inner = 0; inner <= no_loops; ++inner) {
        if (!is_inner(inner, tile, around)) continue;
        const bool has_free = objective_ == Objective::energy || has_free_outer(place, inner, tile);
        for (Index outer = 0; outer <= no_loops; ++outer) {
            if (outer == sole || !is_outer(inner, outer, tile, around)) continue;
            const bool narrow = objective_ != Objective::energy && narrows(place, outer);
            const Index effect = (lengthens(place, inner) ? inner : no_loops) * 5 + (narrow ? outer : no_loops);
            if ((narrow && has_free) || (seen >> effect & 1U) != 0) continue;
            seen |= 1U << effect;
            consider(place, {0.0, tile, inner, outer}, limit);
        }
    }
}

// Lists a tile with an order if its bound is below the limit: first by cost tables, then by port stalls.
void Descent::consider(Index place, const Candidate& candidate, double limit) {
    ++work_;
    put(place, candidate.tile, candidate.inner, candidate.outer);
    for (std::size_t one = 0; one < criteria_.size(); ++one) {
        const auto at = static_cast<Index>(one);
        rest_[one] = rest(at, place);
        double added = paid_[one] + rest_[one];
        for (Index operand = 0; place > 0 && operand < operands; ++operand) {
            if (space_.holds[operand][place - 1])
                added += prices_.term(at, operand, place - 1)[cut_[operand][place - 1]];
        }
        value_[one] = added;
    }
    if (joint() >= limit || (objective_ != Objective::energy && !raise_by_ports(place, limit))) return;
    choices_[levels_ - place].candidates.push_back({joint(), candidate.tile, candidate.inner, candidate.outer});
}

// Raises the bounds on cycles by the ports' transfers. Returns false if the limit is reached.
bool Descent::raise_by_ports(Index place, double limit) {
    account(place);
    const double waits = stall(place);
    double longest = std::max(chained_[input], chained_[weight]);
    for (const Busy& port : ports_) longest = std::max(longest, port.first);
    const double cycles = tiling_.whole().iterations + waits + longest + chained_[output];
    for (std::size_t one = 0; one < criteria_.size(); ++one) {
        if (criteria_[one].is_energy()) continue;
        double found = paid(static_cast<Index>(one), place - 1) + rest_[one];
        if (criteria_[one].kind == Kind::no_stall) found += waits;
        value_[one] = std::max({value_[one], found, cycles});
    }
    return joint() < limit;
}

// Combines the criteria into one value: energy, the greatest number of cycles, or their product.
double Descent::joint() const {
    double energy = 1.0, cycles = 0.0;
    for (std::size_t one = 0; one < criteria_.size(); ++one) {
        if (criteria_[one].is_energy())
            energy = value_[one];
        else
            cycles = std::max(cycles, value_[one]);
    }
    return objective_ == Objective::energy ? energy : energy * cycles;
}

// Returns the cost of the boundaries above the levels from `lowest` on. Cycles need a preceding `account`.
double Descent::paid(Index at, Index lowest) const {
    const auto [kind, port, preload] = criteria_[at];
    if (kind == Kind::energy) {
        double found = prices_.fixed(at);
        for (Index operand = 0; operand < operands; ++operand) {
            for (Index level = lowest; level < levels_; ++level) {
                if (space_.holds[operand][level]) found += prices_.term(at, operand, level)[cut_[operand][level]];
            }
        }
        return found;
    }
    double found = kind == Kind::busy ? 0.0 : tiling_.whole().iterations;
    if (kind == Kind::waiting) found += ports_[port].alone;
    if (kind == Kind::busy) found += ports_[port].busy;
    found += preload < first_port ? chained_[preload] : ports_[preload - first_port].first;
    return found + chained_[output];
}

// Returns a lower bound on the cost of the levels below the place's own, whether its run continues or not.
double Descent::rest(Index at, Index place) const {
    const Index level = place - 2;
    if (level < 0) return 0.0;
    const Place& here = chain_[place];
    double found = prices_.best(at, level)[here.tile], more = 0.0;
    if (here.run_class == none) return found;
    for (Index first = level; first >= 0; --first) {
        if (!space_.holds[here.run_class][first]) continue;
        more += prices_.term(at, here.run_class, first)[here.run_end];
        found = std::min(found, prices_.run(at, level, here.run_class, first)[here.tile] + more);
    }
    return found;
}

}  // namespace onchip::exact
