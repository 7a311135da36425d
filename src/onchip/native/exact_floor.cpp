// Lower bounds over all tilings, for each unrolling (way) of the array.

#include <algorithm>
#include <cmath>

#include "exact_way.hpp"

namespace onchip::exact {

namespace {

constexpr Count entries_a_floor = 256;  // equivalent work

}  // namespace

using layer::output;
using layer::read_for_below;
using layer::weight;
using layer::write_from_below;

std::optional<WaySearch::Floor> WaySearch::floor(std::span<const Index> way) {
    if (!tiling_.choose(way)) return std::nullopt;
    tiling_.list_ends();
    entries_ += entries_a_floor;
    return Floor{floor_of_energy(), objective_ == Objective::energy ? 0.0 : floor_of_cycles()};
}

// Returns the energy of the units' transfers plus one transfer of each element at every boundary.
double WaySearch::floor_of_energy() const {
    const double unit_bits = tiling_.bits_of_sums(0, 0), saved = tiling_.price_of_return(0, unit_bits);
    double energy = space_.layer.mac_energy_pj;
    for (Index operand = 0; operand < operands; ++operand) {
        if (operand == weight && !space_.layer.has_weight) continue;
        for (Index boundary = 0; boundary <= space_.levels(); ++boundary) {
            const Index upper = space_.above[operand][boundary];
            if (upper == none) continue;
            if (operand == output) {
                if (!sums_are_linear_) continue;
                const double bits = boundary - 1 == space_.above[output][0] ? unit_bits : space_.bits(output);
                energy += tiling_.energy_of_sums(boundary, boundary > 0 ? 1 : 0, bits, saved);
            } else if (boundary == 0) {
                energy += tiling_.energy_of_reads(operand, 0, 0);
            } else {
                const Share& own = tiling_.share[operand][boundary];
                const double bits = space_.touched[operand] * space_.bits(operand);
                const Index lower = boundary - 1;
                energy += bits / space_.shortest(upper) * space_.machine.levels[upper].read_pj * own.copies_above;
                energy += bits / space_.shortest(lower) * space_.machine.levels[lower].write_pj * own.copies;
            }
        }
    }
    return energy;
}

// Returns the maximum of two bounds: the loops plus the stalls of a port that serves the units, and the time of a port
// that moves each element once. The latter includes transfers before and after the loops, which take at least as long
// as the port's share of them.
double WaySearch::floor_of_cycles() const {
    const double loops = tiling_.whole().iterations;
    double longest = 0.0;
    for (Index port = 0; port < static_cast<Index>(space_.machine.bits_per_cycle.size()); ++port) {
        double busy = 0.0, waiting = 0.0;
        for (Index operand = 0; operand < operands; ++operand) {
            busy += busy_at_units(port, operand, waiting);
            for (Index boundary = 1; boundary <= space_.levels(); ++boundary)
                busy += busy_once(port, operand, boundary);
        }
        longest = std::max({longest, busy, loops + waiting});
    }
    return longest;
}

double WaySearch::busy_at_units(Index port, Index operand, double& waiting) const {
    double busy = 0.0;
    for (Index move = 0; move < layer::moves; ++move) {
        if (space_.port[operand][0][move] != port) continue;
        const double bits = operand == output ? tiling_.bits_of_sums(0, 0) : space_.bits(operand);
        const auto each = static_cast<double>(space_.machine.bits_per_cycle[port].size());
        const double once = std::ceil(bits * tiling_.largest(operand, 0, 0, true) / each);
        const bool begins = operand == output && move == read_for_below;
        const double times = tiling_.whole().iterations - (begins ? tiling_.whole().relevant[output] : 0.0);
        busy += once * times;
        waiting += std::max(once - 1.0, 0.0) * times;
    }
    return busy;
}

// Returns the cycles to move an operand once, over all its tiles, without returns of partial sums.
double WaySearch::busy_once(Index port, Index operand, Index boundary) const {
    double found = 0.0;
    for (Index move = 0; move < layer::moves; ++move) {
        if (space_.port[operand][boundary][move] != port || is_return(operand, move)) continue;
        const Count own_bits = space_.layer.bits[operand];
        const auto bits =
            static_cast<double>(operand == output ? std::min(own_bits, space_.layer.partial_bits) : own_bits);
        const bool is_upper = move == read_for_below || move == write_from_below;
        const auto each = static_cast<double>(space_.machine.bits_per_cycle[port].size());
        found += std::ceil(tiling_.moved_once(operand, boundary, is_upper) * bits / each);
    }
    return found;
}

}  // namespace onchip::exact
