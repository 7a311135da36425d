// Units, memory hierarchies and capacities.

#include "zigzag.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace onchip::layer {

void ZigzagProblem::check() const {
    const auto require = [](bool is_so, const char* what) {
        if (!is_so) throw std::invalid_argument(what);
    };
    machine.check();
    require(is_shared.size() == machine.levels.size(), "it is not said of each level whether it is shared");
    require(accounting.is_systolic.size() == machine.units.size(),
            "it is not said of each dimension if it is systolic");
    constexpr Count most_bits = Count{1} << 16, most_positions = Count{1} << 62;
    for (const Count one : layer.bits) require(1 <= one && one <= most_bits, "an element has no bits, or too many");
    require(1 <= layer.partial_bits && layer.partial_bits <= most_bits, "a sum has no bits, or too many");
    for (const Count one : bounds) require(one >= 1, "a loop has no iteration");
    for (const Axis& one : layer.axes) require(one.size <= most_positions, "an axis has more than 2^62 positions");
    for (Index side = 0; side < sides; ++side) {
        require(std::count(layer.side_of.begin(), layer.side_of.end(), side) == 1, "a side has not one loop");
    }
}

ZigzagCosts::ZigzagCosts(ZigzagProblem problem) : problem_(std::move(problem)) {
    problem_.check();
    const Layer& layer = problem_.layer;
    has_axes_ = !problem_.accounting.single_taps_are_channels || layer.axes[0].filters > 1 || layer.axes[1].filters > 1;
    for (Index loop = 0; loop < loops; ++loop) {
        const Index side = layer.side_of[loop];
        if (side != none) loop_of_side_[side] = loop;
        for (Index operand = 0; operand < operands; ++operand) {
            const bool is_along_axis = operand == input && side != none;
            if (layer.relevant[operand][loop] && !is_along_axis) own_[operand].push_back(loop);
        }
    }
    for (Index axis = 0; axis < 2; ++axis) {
        const auto [outputs, filters, stride, dilation, padding, size] = layer.axes[axis];
        const Count common = std::gcd(stride, dilation);
        stride_[axis] = static_cast<double>(stride / common);
        dilation_[axis] = static_cast<double>(dilation / common);
        parts_.axis_size[axis] = size;
    }
    beside_.resize(dimensions());
    needs_bits_.resize(levels());
    parts_.of.resize(levels() + 2);
    whole_.of.resize(levels() + 2);
}

ZigzagCost ZigzagCosts::of(const Mapping& mapping) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    multiply_turns(mapping);
    if (!multiply_beside(mapping)) return {Status::over_array, infinite, -1.0};
    count_units();
    for (const Operand operand : {input, weight, output}) {
        chain_[operand].clear();
        if (operand == weight && !problem_.layer.has_weight) continue;
        chain(mapping, operand);
        size_tiles(operand);
    }
    if (is_over_capacity()) return {Status::over_capacity, infinite, -1.0};
    return {Status::costed, problem_.layer.mac_energy_pj + energy_of_moves(), cycles_of(mapping)};
}

void ZigzagCosts::multiply_turns(const Mapping& mapping) {
    const auto count = static_cast<Index>(mapping.turns.size());
    places_.assign(count + 1, Place{});
    for (Index at = 0; at < count; ++at) {
        const auto [loop, size] = mapping.turns[at];
        places_[at + 1].all = places_[at].all * size;
        places_[at + 1].of = places_[at].of;
        places_[at + 1].of[loop] *= size;
    }
    places_[count].next_relevant.fill(count);
    for (Index at = count - 1; at >= 0; --at) {
        for (Index operand = 0; operand < operands; ++operand) {
            const bool matters = problem_.layer.relevant[operand][mapping.turns[at].loop];
            places_[at].next_relevant[operand] = matters ? at : places_[at + 1].next_relevant[operand];
        }
    }
}

// Returns false if the array has too few units.
bool ZigzagCosts::multiply_beside(const Mapping& mapping) {
    for (auto& units : beside_) units.fill(1.0);
    for (const auto& [loop, size, along, at] : mapping.beside) beside_[along][loop] *= static_cast<double>(size);
    for (std::size_t along = 0; along < beside_.size(); ++along) {
        double used = 1.0;
        for (const double units : beside_[along]) used *= units;
        if (used > static_cast<double>(problem_.machine.units[along])) return false;
    }
    unrolled_.clear();
    for (Index loop = 0; loop < loops; ++loop) {
        for (std::size_t along = 0; along < beside_.size(); ++along) {
            if (beside_[along][loop] > 1.0) unrolled_.emplace_back(loop, along);
        }
    }
    return true;
}

// Counts whole units and, if some loop is longer than its bound, fractional ones.
void ZigzagCosts::count_units() {
    is_in_parts_ = false;
    spread(whole_);
    whole_.axis_size = parts_.axis_size;
    for (Index loop = 0; loop < loops; ++loop) shorten(loop);
    if (is_in_parts_) {
        spread(parts_);
    } else {
        parts_.of = whole_.of;
    }
}

// Scales the unrolling of a loop that is longer than its bound, along the dimension with most units.
void ZigzagCosts::shorten(Index loop) {
    const Count bound = problem_.bounds[loop];
    auto executed = static_cast<double>(places_.back().of[loop]);
    double* most = nullptr;
    for (auto& units : beside_) {
        executed *= units[loop];
        if (most == nullptr || units[loop] > *most) most = &units[loop];
    }
    if (!(executed > static_cast<double>(bound))) return;
    is_in_parts_ = true;
    lengthen_input(loop, static_cast<Count>(executed) - bound);
    if (most == nullptr || *most <= 1.0) return;
    *most = *most * static_cast<double>(bound) / executed;
    if (*most < 1.0) throw std::invalid_argument("a turn takes less than one unit");
}

// Adds the input positions that the additional outputs or taps touch.
void ZigzagCosts::lengthen_input(Index loop, Count more) {
    const Index side = problem_.layer.side_of[loop];
    if (side == none) return;
    const Axis& axis = problem_.layer.axes[side / 2];
    const bool is_output = side == output_rows || side == output_columns;
    const Count step = is_output ? axis.stride : axis.dilation;
    Count& size = whole_.axis_size[side / 2];
    if (more > (std::numeric_limits<Count>::max() - size) / step)
        throw std::invalid_argument("an axis has more than 2^63 positions");
    size += more * step;
}

void ZigzagCosts::spread(Array& array) const {
    for (Index level = macs; level < static_cast<Index>(problem_.machine.levels.size()); ++level) {
        Instances& one = array.of[level + 1];
        one.units.fill(1.0);
        one.count = 1.0;
        for (const auto& [loop, along] : unrolled_) {
            (serves(level, along) ? one.units[loop] : one.count) *= beside_[along][loop];
        }
        one.count = static_cast<double>(nearest(one.count));
    }
}

bool ZigzagCosts::serves(Index level, std::size_t along) const {
    return level != macs && problem_.machine.levels[level].serves[along];
}

// Lists the levels that hold the operand: the MACs, the levels with tiles, and its home.
void ZigzagCosts::chain(const Mapping& mapping, Index operand) {
    auto& chain = chain_[operand];
    const bool is_kept = operand != output && problem_.accounting.units_keep_operands;
    chain.emplace_back().settled = is_kept ? places_[0].next_relevant[operand] : 0;
    const Index on_chip = problem_.machine.on_chip();
    for (Index level = 0; level < on_chip; ++level) {
        const Index cut = mapping.cut(operand, level, on_chip);
        if (cut == none) continue;
        chain.back().upper = level;
        Boundary& one = chain.emplace_back();
        one.lower = level;
        one.cut = cut;
        one.settled = places_[cut].next_relevant[operand];
    }
    chain.back().upper = problem_.machine.home[operand];
    for (Boundary& one : chain) {
        one.episodes = places_.back().all / places_[one.settled].all;
        one.is_pending = operand == output && is_pending(one.settled, one.upper);
        one.bits = one.is_pending ? problem_.layer.partial_bits : problem_.layer.bits[operand];
    }
}

// Sets tile sizes; above, requests of neighbours are combined.
void ZigzagCosts::size_tiles(Index operand) {
    for (Boundary& one : chain_[operand]) {
        one.neighbours = neighbours(parts_, operand, one);
        one.size = nearest(elements(parts_, operand, one.lower, one.cut));
        one.joint_size = one.size * whole_neighbours(one.neighbours);
        one.moves = static_cast<double>(one.episodes) * parts_.of[one.lower + 1].count;
        one.joint_moves = static_cast<double>(one.episodes) * parts_.of[one.upper + 1].count;
    }
}

// Returns true if sums of a tile with the loops inside `cut` are accumulated further after they have arrived in
// `upper`.
bool ZigzagCosts::is_pending(Index cut, Index upper) const {
    const auto &all = whole_.of.back().units, &within = whole_.of[upper + 1].units;
    for (Index loop = 0; loop < loops; ++loop) {
        const bool is_left = places_.back().of[loop] > places_[cut].of[loop] || all[loop] > within[loop];
        if (is_left && !problem_.layer.relevant[output][loop]) return true;
    }
    return false;
}

// Returns the bits of an element in the upper level.
Count ZigzagCosts::bits_held(Index operand, const Boundary& one) const {
    const bool is_partial = operand == output && is_pending(one.cut, one.upper);
    return is_partial ? problem_.layer.partial_bits : problem_.layer.bits[operand];
}

bool ZigzagCosts::is_over_capacity() {
    const Machine& machine = problem_.machine;
    std::fill(needs_bits_.begin(), needs_bits_.end(), 0);
    for (Index operand = 0; operand < operands; ++operand) {
        for (const Boundary& one : chain_[operand]) {
            if (one.lower == macs) continue;
            const Count copies = machine.levels[one.lower].is_double_buffered && one.episodes > 1 ? 2 : 1;
            needs_bits_[one.lower] += room(operand, one) * bits_held(operand, one) * copies;
        }
        if (chain_[operand].empty() || machine.home[operand] == machine.on_chip()) continue;
        const Count bits = bits_held(operand, chain_[operand].back());
        needs_bits_[machine.home[operand]] += problem_.layer.elements[operand] * bits;
    }
    for (Index level = 0; level < machine.on_chip(); ++level) {
        if (needs_bits_[level] > machine.levels[level].capacity_bits) return true;
    }
    return false;
}

}  // namespace onchip::layer
