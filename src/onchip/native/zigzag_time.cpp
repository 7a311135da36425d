// Cycles of a mapping: room for a second tile, port visits, stalls, and overlapped loads.

#include <algorithm>
#include <cmath>

#include "zigzag.hpp"

namespace onchip::layer {

double ZigzagCosts::cycles_of(const Mapping& mapping) {
    find_room(mapping);
    visits_.clear();
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index at = 0; at < static_cast<Index>(chain_[operand].size()); ++at) visit_ports(mapping, operand, at);
    }
    const Count cycles = places_.back().all, stalled = stall(cycles);
    if (problem_.accounting.whole_operands_load_meanwhile) hide(cycles + stalled, cycles);
    return static_cast<double>(cycles + stalled) + preload() + offload() + skew(mapping);
}

// Determines where the next tile may arrive while one is in use; sums have priority, then weights, then inputs.
void ZigzagCosts::find_room(const Mapping& mapping) {
    std::fill(needs_bits_.begin(), needs_bits_.end(), 0);
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index at = 1; at < static_cast<Index>(chain_[operand].size()); ++at) {
            Boundary& one = chain_[operand][at];
            one.bits_in_use = one.size * one.bits / steps_in_use(mapping, operand, at);
            needs_bits_[one.lower] += one.bits_in_use;
        }
    }
    for (const Operand operand : {output, weight, input}) {
        for (Boundary& one : chain_[operand]) {
            if (one.lower == macs) continue;
            const Count capacity = problem_.machine.levels[one.lower].capacity_bits;
            Count& needs = needs_bits_[one.lower];
            const bool is_half_free = 2 * needs <= capacity;
            one.has_room_for_two = is_half_free || one.bits_in_use <= capacity - needs;
            if (one.has_room_for_two && !is_half_free) needs += one.bits_in_use;
        }
    }
}

// Returns the number of steps in which a tile is consumed: its outermost relevant loops at this level.
Count ZigzagCosts::steps_in_use(const Mapping& mapping, Index operand, Index at) const {
    Count steps = 1;
    for (Index place = chain_[operand][at].settled; place > first_own(operand, at); --place) {
        const auto [loop, size] = mapping.turns[place - 1];
        const bool overlaps = operand == input && has_axes_ && problem_.layer.side_of[loop] != none;
        if (overlaps || !problem_.layer.relevant[operand][loop]) break;
        steps *= size;
    }
    return steps;
}

// Returns the position at which the level's own loops begin.
Index ZigzagCosts::first_own(Index operand, Index at) const {
    return at > 1 ? chain_[operand][at - 1].settled : 0;
}

// Returns the window: the whole period or, without room for two tiles, its end, without the outermost irrelevant loops.
Count ZigzagCosts::window_of(const Mapping& mapping, Index operand, Index at) const {
    const Boundary& one = chain_[operand][at];
    Index place = one.settled;
    if (one.has_room_for_two) return places_[place].all;
    const auto& relevant = problem_.layer.relevant[operand];
    while (place > first_own(operand, at) && !relevant[mapping.turns[place - 1].loop]) --place;
    return places_[place].all;
}

// Adds the transfers across a boundary at the ports of both ends; fractional units take as long as whole ones.
void ZigzagCosts::visit_ports(const Mapping& mapping, Index operand, Index at) {
    const Boundary& one = chain_[operand][at];
    Count size = one.size, joint_size = one.joint_size;
    if (is_in_parts_) {
        size = static_cast<Count>(elements(whole_, operand, one.lower, one.cut));
        joint_size = size * whole_neighbours(neighbours(whole_, operand, one));
    }
    if (at == 1) nearest_bits_[operand] = size * one.bits;
    Visit above{.operand = operand, .at = at, .bits = joint_size * one.bits};
    above.period = places_[one.settled].all;
    above.window = window_of(mapping, operand, at);
    above.times = one.episodes - 1;
    Visit below = above;
    below.bits = size * one.bits;
    visit(one.upper, operand == output ? write_from_below : read_for_below, above);
    visit(one.lower, operand == output ? read_for_above : write_from_above, below);
    if (!one.is_pending) return;
    above.returns = below.returns = true;
    visit(one.upper, read_for_below, above);
    visit(one.lower, write_from_above, below);
}

void ZigzagCosts::visit(Index level, Move move, Visit visit) {
    if (level == macs || visit.bits == 0) return;
    visit.level = level;
    visit.port = problem_.machine.levels[level].port[move];
    if (visit.port == none) return;
    visit.busy = problem_.machine.bits_per_cycle[visit.port].of(visit.bits);
    visit.left = static_cast<double>(visit.busy);
    visits_.push_back(visit);
}

// Returns the stall of the port that delays the loops most.
Count ZigzagCosts::stall(Count cycles) {
    Count longest = 0;
    for (Index port = 0; port < static_cast<Index>(problem_.machine.bits_per_cycle.size()); ++port) {
        Count alone = 0, together = 0;
        bool is_always_open = false;
        windows_.clear();
        for (const Visit& one : visits_) {
            if (one.port != port) continue;
            alone += std::max<Count>(one.busy - one.window, 0) * one.times;
            together += one.busy * one.times;
            is_always_open = is_always_open || one.period == one.window;
            windows_.add({one.period, one.window});
        }
        if (windows_.count() == 1 && problem_.accounting.lone_transfers_never_stall) continue;
        if (std::max(alone, together) <= longest) continue;
        const Count covered = is_always_open ? cycles : windows_.covered_cycles(cycles, LastPeriod::has_window);
        longest = std::max({longest, alone, together - covered});
    }
    return longest;
}

// Hides single transfers behind the loops, the longest first, while their port has free time.
void ZigzagCosts::hide(Count available, Count cycles) {
    for (Index port = 0; port < static_cast<Index>(problem_.machine.bits_per_cycle.size()); ++port) {
        const Count bits_per_cycle = problem_.machine.bits_per_cycle[port].size();
        Count taken = 0;
        once_.clear();
        for (Visit& one : visits_) {
            if (one.port != port || one.returns) continue;
            if (one.period == cycles) {
                once_.push_back(&one);
            } else {
                taken += one.bits / one.period;
            }
        }
        std::sort(once_.begin(), once_.end(), [](const Visit* one, const Visit* other) {
            return one->busy != other->busy ? one->busy > other->busy : one < other;
        });
        const double share = static_cast<double>(bits_per_cycle - taken) / static_cast<double>(bits_per_cycle);
        double free = std::max(0.0, share * static_cast<double>(available));
        for (Visit* one : once_) {
            const double hidden = std::min(std::max(0.0, one->left - nearest_cycles(*one, bits_per_cycle)), free);
            one->left -= hidden;
            free -= hidden;
        }
    }
}

// Returns the cycles of the tile in the operand's innermost memory, which cannot be hidden.
double ZigzagCosts::nearest_cycles(const Visit& one, Count bits_per_cycle) const {
    if (chain_[one.operand].size() <= 1) return 0.0;
    return std::ceil(static_cast<double>(nearest_bits_[one.operand]) / static_cast<double>(bits_per_cycle));
}

// Inputs and weights wait for each other if both ends of a transfer are shared.
double ZigzagCosts::preload() const {
    const Loading of_input = loading(input);
    if (!problem_.layer.has_weight) return of_input.all();
    const Loading of_weight = loading(weight);
    const double input_first = of_input.shared + std::max(of_weight.all(), of_input.apart);
    return std::min(input_first, of_weight.shared + std::max(of_input.all(), of_weight.apart));
}

ZigzagCosts::Loading ZigzagCosts::loading(Index operand) const {
    Loading found;
    for (Index at = 1; at < static_cast<Index>(chain_[operand].size()); ++at) {
        const bool is_shared = std::all_of(visits_.begin(), visits_.end(), [&](const Visit& one) {
            return one.operand != operand || one.at != at || problem_.is_shared[one.level];
        });
        (is_shared ? found.shared : found.apart) += longest_end(operand, at);
    }
    return found;
}

// Returns the cycles of the final stores: in sequence or, if they overlap, of the topmost plus one cycle for each level
// below.
double ZigzagCosts::offload() const {
    double total = 0.0;
    Count hops = 0;
    for (Index at = 1; at < static_cast<Index>(chain_[output].size()); ++at) {
        const double longest = longest_end(output, at);
        if (!problem_.accounting.last_sums_overlap) {
            total += longest;
        } else if (longest > 0.0) {
            total = longest + static_cast<double>(hops++);
        }
    }
    return total;
}

double ZigzagCosts::longest_end(Index operand, Index at) const {
    double longest = 0.0;
    for (const Visit& one : visits_) {
        if (one.operand == operand && one.at == at && !one.returns) longest = std::max(longest, one.left);
    }
    return longest;
}

// Results leave a systolic dimension of the array at one unit per cycle.
double ZigzagCosts::skew(const Mapping& mapping) const {
    double cycles = 0.0;
    for (std::size_t along = 0; along < dimensions(); ++along) {
        if (!problem_.accounting.is_systolic[along]) continue;
        Count used = 1;
        for (const Beside& one : mapping.beside) used *= one.along == static_cast<Index>(along) ? one.size : 1;
        cycles += static_cast<double>(used - 1);
    }
    return cycles;
}

}  // namespace onchip::layer
