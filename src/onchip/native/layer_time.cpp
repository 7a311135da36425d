// Cycles of a mapping: port visits, stalls, initial loads and final stores.

#include <algorithm>

#include "layer.hpp"

namespace onchip::layer {

void Costs::fetch(const Crossing& crossing) {
    Visit one;
    one.is_first = crossing.at > 0;
    one.times = chain_[crossing.at].episodes - one.is_first;
    visit(crossing, crossing.at + 1, read_for_below, one);
    visit(crossing, crossing.at, write_from_above, one);
}

void Costs::drain(const Crossing& crossing) {
    const Boundary& boundary = chain_[crossing.at];
    Visit one;
    one.is_last = crossing.at > 0;
    one.times = boundary.episodes - one.is_last;
    visit(crossing, crossing.at + 1, write_from_below, one);
    visit(crossing, crossing.at, read_for_above, one);
    Visit returned;
    returned.times = boundary.episodes - boundary.distinct;
    visit(crossing, crossing.at + 1, read_for_below, returned);
    visit(crossing, crossing.at, write_from_above, returned);
}

// Adds the visit of the level at one end of the crossing.
void Costs::visit(const Crossing& crossing, Index end, Move move, Visit visit) {
    const Index level = chain_[end].level;
    const Count bits = end == crossing.at ? crossing.lower_bits : crossing.upper_bits;
    if (level == macs || bits == 0 || (visit.times == 0 && !visit.is_first && !visit.is_last)) return;
    visit.port = machine_.levels[level].port[move];
    if (visit.port == none) return;
    const Boundary& boundary = chain_[crossing.at];
    const bool holds_two = boundary.level == macs || machine_.levels[boundary.level].is_double_buffered;
    visit.operand = crossing.operand;
    visit.crossing = crossing.at * operands + crossing.operand;
    visit.busy = machine_.bits_per_cycle[visit.port].of(bits);
    visit.episodes = boundary.episodes;
    visit.period = places_[boundary.reach].all;
    visit.window = holds_two ? visit.period : places_[boundary.cut].window[crossing.operand];
    visits_.push_back(visit);
}

// Returns the stall of the port that delays the loops most. Computes exact windows only for ports that may be the
// maximum.
Count Costs::stall(Count cycles) {
    std::fill(ports_.begin(), ports_.end(), Busy{});
    for (const Visit& one : visits_) {
        if (one.times == 0) continue;
        Busy& port = ports_[one.port];
        port.alone += std::max<Count>(one.busy - one.window, 0) * one.times;
        port.all += one.busy * one.times;
        port.covered = std::max(port.covered, one.period == 1 ? cycles : one.window * (one.episodes - 1));
    }
    Count longest = 0;
    for (const Busy& port : ports_) longest = std::max(longest, port.alone);
    for (Index port = 0; port < static_cast<Index>(ports_.size()); ++port) {
        if (ports_[port].all - ports_[port].covered > longest) {
            longest = std::max(longest, ports_[port].all - covered_cycles(port, cycles));
        }
    }
    return longest;
}

// Returns the cycles with an open window of the port.
Count Costs::covered_cycles(Index port, Count cycles) {
    windows_.clear();
    for (const Visit& one : visits_) {
        if (one.port != port || one.times == 0) continue;
        if (one.period == 1) return cycles;
        windows_.add({one.period, one.window});
    }
    return windows_.covered_cycles(cycles, LastPeriod::has_no_window);
}

Count Windows::covered_cycles(Count cycles, LastPeriod last) {
    std::sort(periods_.begin(), periods_.end());
    whole_.assign(1, 0);
    for (std::size_t at = 0; at < periods_.size(); ++at) whole_.push_back(covered(at + 1, periods_[at].length));
    if (last == LastPeriod::has_window) return whole_.back() * (cycles / periods_.back().length);
    Count total = 0;
    for (std::size_t at = periods_.size(); at-- > 0;) {
        total += whole_[at + 1] * (cycles / periods_[at].length - 1);
        cycles = periods_[at].length;
    }
    return total;
}

// Returns the cycles that the first `count` periods cover, of the first `cycles`.
Count Windows::covered(std::size_t count, Count cycles) const {
    Count total = 0;
    while (count > 0 && cycles > 0) {
        const Period& outer = periods_[--count];
        const Count before = std::min(cycles, outer.length - outer.window);
        total += cycles - before;
        if (count > 0) {
            total += whole_[count] * (before / periods_[count - 1].length);
            cycles = before % periods_[count - 1].length;
        }
    }
    return total;
}

// Returns the duration of a chain of transfers: levels in sequence per operand, operands in parallel unless they share
// a port.
Count Costs::chained(bool Visit::* which) {
    std::fill(ports_.begin(), ports_.end(), Busy{});
    std::array<Count, operands> busy{};
    Count longest = 0, counted = 0;
    Index crossing = none;
    for (const Visit& one : visits_) {
        if (!(one.*which)) continue;
        ports_[one.port].all += one.busy;
        if (one.crossing != crossing) {
            crossing = one.crossing;
            counted = 0;
        }
        if (one.busy > counted) {
            busy[one.operand] += one.busy - counted;
            counted = one.busy;
        }
        longest = std::max({longest, ports_[one.port].all, busy[one.operand]});
    }
    return longest;
}

}  // namespace onchip::layer
