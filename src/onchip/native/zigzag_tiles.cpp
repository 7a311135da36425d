// Sizes of tiles, and the energy of their transfers.

#include <algorithm>
#include <cmath>
#include <limits>

#include "zigzag.hpp"

namespace onchip::layer {

namespace {

// Tolerance: products of fractional units differ by less from the whole number that they represent.
constexpr double epsilon = 1e-9;

Count floor_of(double count) {
    const auto towards_zero = static_cast<Count>(count);
    return towards_zero - (static_cast<double>(towards_zero) > count);
}

Count ceil_of(double count) {
    const auto towards_zero = static_cast<Count>(count);
    return towards_zero + (static_cast<double>(towards_zero) < count);
}

// Returns the accesses, rounded up in each cycle, with at most `most_bits` bits per cycle.
Count words_of_cycles(const Level& level, Count bits, double most_bits) {
    if (static_cast<double>(bits) <= most_bits) return level.shortest.of(bits);
    const Count cycles = ceil_of(static_cast<double>(bits) / most_bits - epsilon);
    return cycles * ceil_of(most_bits / static_cast<double>(level.shortest.size()) - epsilon);
}

}  // namespace

Count nearest(double count) {
    constexpr double digits = 1e6;
    const auto towards_zero = static_cast<Count>(count);
    if (static_cast<double>(towards_zero) == count) return towards_zero;
    return static_cast<Count>(std::nearbyint(std::nearbyint(count * digits) / digits));
}

// Returns the elements used by the loops inside a cut and all units within the level.
double ZigzagCosts::elements(const Array& array, Index operand, Index level, Index cut) const {
    const auto& units = array.of[level + 1].units;
    const auto& turns = places_[cut].of;
    double found = 1.0;
    for (const Index loop : own_[operand]) found *= units[loop] * static_cast<double>(turns[loop]);
    if (operand != input) return found;
    for (Index axis = 0; axis < 2; ++axis) {
        const Index output_loop = loop_of_side_[2 * axis], filter_loop = loop_of_side_[2 * axis + 1];
        double outputs = units[output_loop] * static_cast<double>(turns[output_loop]);
        double filters = units[filter_loop] * static_cast<double>(turns[filter_loop]);
        const Count size = array.axis_size[axis];
        if (!has_axes_) {
            found *= std::min(outputs * filters, static_cast<double>(size));
            continue;
        }
        if (!problem_.accounting.parts_are_cut_late) {
            outputs = static_cast<double>(floor_of(outputs + epsilon));
            filters = static_cast<double>(floor_of(filters + epsilon));
        }
        found *= static_cast<double>(std::min(floor_of(positions(axis, outputs, filters) + epsilon), size));
    }
    return found;
}

// Returns the positions that these outputs and taps touch, without those that a stride skips.
double ZigzagCosts::positions(Index axis, double outputs, double filters) const {
    const double skipped = std::max(0.0, filters - stride_[axis]) * std::max(0.0, outputs - dilation_[axis]);
    return outputs * filters - skipped;
}

double ZigzagCosts::neighbours(const Array& array, Index operand, const Boundary& one) const {
    return elements(array, operand, one.upper, 0) / elements(array, operand, one.lower, 0);
}

Count ZigzagCosts::whole_neighbours(double count) const {
    return problem_.accounting.parts_are_cut_late ? floor_of(count + epsilon) : nearest(count);
}

// Returns the elements for which the tile below a boundary takes room.
Count ZigzagCosts::room(Index operand, const Boundary& one) const {
    if (!problem_.accounting.parts_have_whole_room) return one.size;
    const auto& units = parts_.of[one.lower + 1].units;
    const auto& turns = places_[one.cut].of;
    const auto whole = [&](Index loop) {
        return static_cast<double>(ceil_of(units[loop] * static_cast<double>(turns[loop]) - epsilon));
    };
    double found = 1.0;
    for (const Index loop : own_[operand]) found *= whole(loop);
    for (Index axis = 0; operand == input && axis < 2; ++axis) {
        const double outputs = whole(loop_of_side_[2 * axis]), filters = whole(loop_of_side_[2 * axis + 1]);
        const double touched = has_axes_ ? positions(axis, outputs, filters) : outputs * filters;
        found *= std::min(touched, static_cast<double>(parts_.axis_size[axis]));
    }
    return static_cast<Count>(found);
}

double ZigzagCosts::energy_of_moves() const {
    double energy_pj = 0.0;
    for (Index operand = 0; operand < operands; ++operand) {
        for (const Boundary& one : chain_[operand]) {
            const Level& upper = problem_.machine.levels[one.upper];
            const Count joint_bits = one.joint_size * one.bits;
            double own_reads_pj = 0.0, own_writes_pj = 0.0;
            if (one.lower != macs) {
                const Level& lower = problem_.machine.levels[one.lower];
                const double own = static_cast<double>(lower.shortest.of(one.size * one.bits)) * one.moves;
                own_reads_pj = own * lower.read_pj;
                own_writes_pj = own * lower.write_pj;
            }
            if (operand != output || one.is_pending) {
                const double most = most_bits(one, read_for_below, write_from_above);
                const auto words = static_cast<double>(words_of_cycles(upper, joint_bits, most));
                energy_pj += words * one.joint_moves * upper.read_pj + own_writes_pj;
            }
            if (operand == output) {
                const double most = most_bits(one, write_from_below, read_for_above);
                const auto words = static_cast<double>(words_of_cycles(upper, joint_bits, most));
                energy_pj += words * one.joint_moves * upper.write_pj + own_reads_pj;
            }
        }
    }
    return energy_pj;
}

// Returns the bits that cross a boundary per cycle, if relevant: the narrower of the ports at both ends.
double ZigzagCosts::most_bits(const Boundary& one, Move towards, Move own) const {
    double most = std::numeric_limits<double>::infinity();
    if (one.lower == macs || !problem_.accounting.accesses_are_of_a_cycle) return most;
    const auto& ports = problem_.machine.bits_per_cycle;
    const Index upper = problem_.machine.levels[one.upper].port[towards];
    const Index lower = problem_.machine.levels[one.lower].port[own];
    if (upper != none) most = static_cast<double>(ports[upper].size());
    if (lower != none) most = std::min(most, static_cast<double>(ports[lower].size()) * one.neighbours);
    return most;
}

}  // namespace onchip::layer
