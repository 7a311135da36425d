// Tile sizes, capacities and energy of a mapping.

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <utility>

#include "layer.hpp"

namespace onchip::layer {

Unit::Unit(Count size)
    : size_(size),
      shift_(std::has_single_bit(static_cast<std::uint64_t>(size)) ? std::countr_zero(static_cast<std::uint64_t>(size))
                                                                   : none) {}

void Machine::check() const {
    const auto is_within = [](Index at, std::size_t size) { return 0 <= at && at < static_cast<Index>(size); };
    if (levels.empty()) throw std::invalid_argument("a machine has no DRAM");
    for (const Level& level : levels) {
        if (level.serves.size() != units.size()) throw std::invalid_argument("a level serves another array");
        for (const Index port : level.port) {
            if (port != none && !is_within(port, bits_per_cycle.size()))
                throw std::invalid_argument("a level has an unknown port");
        }
    }
    for (const Index one : home) {
        if (!is_within(one, levels.size())) throw std::invalid_argument("an operand lies in an unknown level");
    }
}

Costs::Costs(Layer layer, Machine machine) : layer_(std::move(layer)), machine_(std::move(machine)) {
    along_.resize(machine_.units.size());
    needs_bits_.resize(machine_.levels.size());
    ports_.resize(machine_.bits_per_cycle.size());
}

Cost Costs::of(const Mapping& mapping) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    multiply_turns(mapping);
    if (!multiply_beside(mapping)) return {Status::over_array, infinite, -1};
    reserve_homes();
    visits_.clear();
    double energy_pj = layer_.mac_energy_pj;
    if (layer_.has_weight) {
        chain(mapping, weight);
        energy_pj += read_weights();
        if (is_over_capacity()) return {Status::over_capacity, infinite, -1};
    }
    chain(mapping, output);
    energy_pj += add_sums();
    if (is_over_capacity()) return {Status::over_capacity, infinite, -1};
    chain(mapping, input);
    double of_input_pj = 0.0;
    if (!read_input(mapping, of_input_pj)) return {Status::interleaved, infinite, -1};
    if (is_over_capacity()) return {Status::over_capacity, infinite, -1};
    const Count cycles = places_.back().all;
    return {Status::costed, energy_pj + of_input_pj,
            cycles + stall(cycles) + chained(&Visit::is_first) + chained(&Visit::is_last)};
}

// Reserves room for whole inputs and weights; the width of outputs is not known yet.
void Costs::reserve_homes() {
    std::fill(needs_bits_.begin(), needs_bits_.end(), 0);
    for (const Operand operand : {input, weight}) {
        if (machine_.home[operand] < machine_.on_chip()) {
            needs_bits_[machine_.home[operand]] += layer_.elements[operand] * layer_.bits[operand];
        }
    }
}

bool Costs::is_over_capacity() const {
    for (Index level = 0; level < machine_.on_chip(); ++level) {
        if (needs_bits_[level] > machine_.levels[level].capacity_bits) return true;
    }
    return false;
}

void Costs::multiply_turns(const Mapping& mapping) {
    const auto count = static_cast<Index>(mapping.turns.size());
    places_.assign(count + 1, Place{});
    for (Index at = 0; at < count; ++at) {
        const auto [loop, size] = mapping.turns[at];
        const Place& inner = places_[at];
        Place& outer = places_[at + 1];
        outer.all = inner.all * size;
        outer.channels = inner.channels * (layer_.is_channel[loop] ? size : 1);
        outer.side = inner.side;
        if (layer_.side_of[loop] != none) outer.side[layer_.side_of[loop]] *= size;
        for (Index operand = 0; operand < operands; ++operand) {
            const bool matters = layer_.relevant[operand][loop];
            outer.relevant[operand] = inner.relevant[operand] * (matters ? size : 1);
            outer.window[operand] = matters ? outer.all : inner.window[operand];
        }
    }
    places_[count].next_relevant.fill(count);
    for (Index at = count - 1; at >= 0; --at) {
        const auto [loop, size] = mapping.turns[at];
        const Place& outer = places_[at + 1];
        Place& inner = places_[at];
        inner.all_outside = outer.all_outside * size;
        inner.channels_outside = outer.channels_outside * (layer_.is_channel[loop] ? size : 1);
        for (Index operand = 0; operand < operands; ++operand) {
            const bool matters = layer_.relevant[operand][loop];
            inner.relevant_outside[operand] = outer.relevant_outside[operand] * (matters ? size : 1);
            inner.next_relevant[operand] = matters ? at : outer.next_relevant[operand];
        }
    }
}

// Returns false if the array has too few units.
bool Costs::multiply_beside(const Mapping& mapping) {
    std::fill(along_.begin(), along_.end(), Along{});
    has_side_beside_ = false;
    for (const auto& [loop, size, along, at] : mapping.beside) {
        Along& here = along_[along];
        here.all *= size;
        if (layer_.side_of[loop] != none) {
            here.side[layer_.side_of[loop]] *= size;
            has_side_beside_ = has_side_beside_ || size > 1;
        } else if (layer_.is_channel[loop]) {
            here.channels *= size;
        }
        for (Index operand = 0; operand < operands; ++operand) {
            (layer_.relevant[operand][loop] ? here.relevant : here.copies)[operand] *= size;
        }
    }
    for (std::size_t along = 0; along < along_.size(); ++along) {
        if (along_[along].all > machine_.units[along]) return false;
    }
    return true;
}

// Lists the levels that hold the operand: the MACs, the levels with tiles, and its home.
void Costs::chain(const Mapping& mapping, Index operand) {
    chain_.assign(1, Boundary{});
    for (Index level = 0; level < machine_.on_chip(); ++level) {
        const Index cut = mapping.cut(operand, level, machine_.on_chip());
        if (cut == none) continue;
        chain_.emplace_back().level = level;
        chain_.back().cut = cut;
    }
    for (std::size_t at = 0; at < chain_.size(); ++at) {
        Boundary& one = chain_[at];
        one.reach = at == 0 ? one.cut : places_[one.cut].next_relevant[operand];
        one.episodes = places_[one.reach].all_outside;
        one.distinct = places_[one.cut].relevant_outside[operand];
    }
    chain_.emplace_back().level = machine_.home[operand];
}

// Sets sizes and counts of the tiles of weights or outputs at a boundary; all tiles are equal.
void Costs::size_tiles(Index operand, Index at) {
    Boundary& one = chain_[at];
    const Index upper = chain_[at + 1].level;
    Count within = places_[one.cut].relevant[operand], joint = 1, outside = one.episodes;
    Count copies_below = 1, copies_above = 1;
    for (std::size_t along = 0; along < along_.size(); ++along) {
        const Count relevant = along_[along].relevant[operand], copies = along_[along].copies[operand];
        if (serves(one.level, along)) {
            within *= relevant;
            continue;
        }
        copies_below *= copies;
        if (serves(upper, along)) {
            joint *= relevant;
        } else {
            outside *= relevant;
            copies_above *= copies;
        }
    }
    one.upper_size = within * joint;
    one.upper_times = outside * copies_above;
    one.lower_size = within;
    one.lower_times = outside * joint * copies_below;
    one.copies_above = copies_above;
}

double Costs::read_weights() {
    double energy_pj = 0.0;
    const Count bits = layer_.bits[weight];
    for (Index at = 0; at + 1 < static_cast<Index>(chain_.size()); ++at) {
        size_tiles(weight, at);
        const Boundary& one = chain_[at];
        const Level& upper = machine_.levels[chain_[at + 1].level];
        const Crossing crossing{weight, at, one.upper_size * bits, one.lower_size * bits};
        energy_pj += upper.shortest.of(crossing.upper_bits) * one.upper_times * upper.read_pj;
        if (one.level != macs) {
            const Level& lower = machine_.levels[one.level];
            energy_pj += lower.shortest.of(crossing.lower_bits) * one.lower_times * lower.write_pj;
            hold(one.level, crossing.lower_bits, one.episodes);
        }
        fetch(crossing);
    }
    return energy_pj;
}

double Costs::add_sums() {
    const auto boundaries = static_cast<Index>(chain_.size()) - 1;
    for (Index at = 0; at < boundaries; ++at) {
        size_tiles(output, at);
        Boundary& one = chain_[at];
        const Place& place = places_[one.cut];
        const bool is_pending = place.all_outside > place.relevant_outside[output] || one.copies_above > 1;
        one.bits = is_pending ? layer_.partial_bits : layer_.bits[output];
    }
    Count begun = layer_.elements[output];
    if (machine_.home[output] < machine_.on_chip()) {
        needs_bits_[machine_.home[output]] += begun * chain_[boundaries - 1].bits;
    }
    double energy_pj = 0.0;
    for (Index at = boundaries - 1; at >= 0; --at) cross_sums(at, begun, energy_pj);
    return energy_pj;
}

// Adds the energy of one boundary; `begun` sums are started above it, and below it on return. The others return for
// accumulation.
void Costs::cross_sums(Index at, Count& begun, double& energy_pj) {
    const Boundary& one = chain_[at];
    const Level& upper = machine_.levels[chain_[at + 1].level];
    Crossing crossing{output, at, one.upper_size * one.bits, 0};
    const Count returned = one.upper_size * one.upper_times - begun;
    const Count words = upper.shortest.of(crossing.upper_bits);
    energy_pj += words * one.upper_times * upper.write_pj + words * (returned / one.upper_size) * upper.read_pj;
    if (one.level != macs) {
        const Level& lower = machine_.levels[one.level];
        crossing.lower_bits = one.lower_size * chain_[at - 1].bits;
        const Count own = lower.shortest.of(crossing.lower_bits);
        energy_pj += own * one.lower_times * lower.read_pj + own * (returned / one.lower_size) * lower.write_pj;
        begun = one.lower_size * one.lower_times - returned;
        hold(one.level, crossing.lower_bits, one.episodes);
    }
    drain(crossing);
}

void Costs::hold(Index level, Count bits, Count episodes) {
    needs_bits_[level] += bits * (machine_.levels[level].is_double_buffered && episodes > 1 ? 2 : 1);
}

}  // namespace onchip::layer
