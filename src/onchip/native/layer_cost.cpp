// Tile sizes, capacities, energy and cycles of a mapping.

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "bindings.hpp"
#include "layer.hpp"
#include "layer_rows.hpp"

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

// Tiles of the input: they overlap along an axis, and are cut off at its end.

namespace {

// Returns the number of positions in [0, size) that a union of intervals covers, with these starts and this length.
Count touched(const std::vector<Count>& sorted_places, Count offset, Count length, Count size) {
    Count covered = 0, reached = 0;
    for (const Count place : sorted_places) {
        const Count first = std::max(place + offset, reached), stop = std::min(place + offset + length, size);
        covered += std::max<Count>(stop - first, 0);
        reached = std::max(reached, stop);
    }
    return covered;
}

// Returns the positions that combinations of two step sizes reach, `count` and `more` steps of each.
std::vector<Count> places_of(Count count, Count step, Count more, Count larger_step) {
    std::vector<Count> found;
    found.reserve(static_cast<std::size_t>(count * more));
    for (Count one = 0; one < count; ++one) {
        for (Count other = 0; other < more; ++other) found.push_back(one * step + other * larger_step);
    }
    return found;
}

}  // namespace

BlockSizes block_sizes(const Axis& axis, const Block& block) {
    const Count output_step = axis.stride * block.outputs, filter_step = axis.dilation * block.filters;
    const Count length = 1 + (block.outputs - 1) * axis.stride + (block.filters - 1) * axis.dilation;
    std::vector<Count> beside = places_of(block.more_outputs, output_step, block.more_filters, filter_step);
    std::sort(beside.begin(), beside.end());
    const Count outputs = block.outputs * block.more_outputs, filters = block.filters * block.more_filters;
    std::map<Count, Count> found;
    for (const Count place :
         places_of(axis.outputs / outputs, axis.stride * outputs, axis.filters / filters, axis.dilation * filters)) {
        ++found[touched(beside, place - axis.padding, length, axis.size)];
    }
    return {found.begin(), found.end()};
}

std::size_t Costs::BlockHash::operator()(const Block& block) const {
    const auto word =
        ((static_cast<std::uint64_t>(block.outputs) * 65536 + static_cast<std::uint64_t>(block.more_outputs)) * 65536 +
         static_cast<std::uint64_t>(block.filters)) *
            4096 +
        static_cast<std::uint64_t>(block.more_filters);
    return static_cast<std::size_t>((word * 0x9E3779B97F4A7C15U) >> 20U);
}

const BlockSizes& Costs::sizes(Index axis, const Block& block) {
    const auto [found, is_new] = sizes_[axis].try_emplace(block);
    if (is_new) found->second = block_sizes(layer_.axes[axis], block);
    return found->second;
}

// Returns false if only the Python version can count the tiles.
bool Costs::read_input(const Mapping& mapping, double& energy_pj) {
    for (Index at = 0; at + 1 < static_cast<Index>(chain_.size()); ++at) {
        if (has_side_beside_ && is_interleaved(mapping, at)) return false;
        const Boundary& one = chain_[at];
        Crossing crossing{input, at, 0, 0};
        size_input(at, crossing, energy_pj);
        if (one.level != macs) hold(one.level, crossing.lower_bits, one.episodes);
        fetch(crossing);
    }
    return true;
}

// Returns true if, along some side, a tile is not contiguous, or the spatially adjacent tiles are not its neighbours.
bool Costs::is_interleaved(const Mapping& mapping, Index at_boundary) const {
    const Boundary& one = chain_[at_boundary];
    const Index upper = chain_[at_boundary + 1].level;
    for (Index side = 0; side < sides; ++side) {
        int reached = 0;
        std::size_t next = 0;
        for (Index at = 0; at <= static_cast<Index>(mapping.turns.size()); ++at) {
            for (; next < mapping.beside.size() && mapping.beside[next].at <= at; ++next) {
                const Beside& other = mapping.beside[next];
                if (layer_.side_of[other.loop] != side) continue;
                const int kind = serves(one.level, other.along) ? 0 : serves(upper, other.along) ? 1 : 2;
                if (kind < reached) return true;
                reached = kind;
            }
            if (at == static_cast<Index>(mapping.turns.size()) || layer_.side_of[mapping.turns[at].loop] != side)
                continue;
            const int kind = at < one.cut ? 0 : 2;
            if (kind < reached) return true;
            reached = kind;
        }
    }
    return false;
}

// Sums over all sizes of blocks.
void Costs::size_input(Index at, Crossing& crossing, double& energy_pj) {
    const Boundary& one = chain_[at];
    const Index above = chain_[at + 1].level;
    const Place& place = places_[one.cut];
    Count within = place.channels, joint = 1, outside = place.channels_outside, copies_below = 1, copies_above = 1;
    std::array<Count, sides> inside = place.side, beside{1, 1, 1, 1};
    for (std::size_t along = 0; along < along_.size(); ++along) {
        const Along& here = along_[along];
        if (serves(one.level, along)) {
            within *= here.channels;
            for (Index side = 0; side < sides; ++side) inside[side] *= here.side[side];
            continue;
        }
        copies_below *= here.copies[input];
        if (serves(above, along)) {
            joint *= here.channels;
            for (Index side = 0; side < sides; ++side) beside[side] *= here.side[side];
        } else {
            outside *= here.channels;
            copies_above *= here.copies[input];
        }
    }
    const Count again = one.episodes / one.distinct, bits = layer_.bits[input];
    const Block rows{inside[output_rows], beside[output_rows], inside[filter_rows], beside[filter_rows]};
    const Block columns{inside[output_columns], beside[output_columns], inside[filter_columns], beside[filter_columns]};
    const Units up = blocks(rows, columns, within * joint * bits, above);
    energy_pj += up.units * outside * again * copies_above * machine_.levels[above].read_pj;
    crossing.upper_bits = up.largest * within * joint * bits;
    if (one.level == macs) return;
    const Block own_rows{inside[output_rows], 1, inside[filter_rows], 1};
    const Block own_columns{inside[output_columns], 1, inside[filter_columns], 1};
    const Units down = blocks(own_rows, own_columns, within * bits, one.level);
    energy_pj += down.units * outside * joint * again * copies_below * machine_.levels[one.level].write_pj;
    crossing.lower_bits = down.largest * within * bits;
}

Costs::Units Costs::blocks(const Block& rows, const Block& columns, Count bits, Index level) {
    const Unit& shortest = machine_.levels[level].shortest;
    Units found;
    const BlockSizes& tall = sizes(0, rows);
    const BlockSizes& wide = sizes(1, columns);
    for (const auto& [height, rows_so_high] : tall) {
        for (const auto& [width, columns_so_wide] : wide) {
            const Count area = height * width;
            if (area == 0) continue;
            found.units += shortest.of(area * bits) * rows_so_high * columns_so_wide;
            found.largest = std::max(found.largest, area);
        }
    }
    return found;
}

// Cycles of a mapping: port visits, stalls, initial loads and final stores.

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

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `LayerCosts`, with the layers and machines that several bindings share.

namespace {

using namespace layer;

void add_shapes(nb::module_& module) {
    nb::class_<Axis>(module, "LayerAxis",
                     "A dimension of the input.\n"
                     "\n"
                     "`outputs` positions of the output see `size` stored positions through `filters` taps. Raises\n"
                     "ValueError if a size is below 1.")
        .def(
            "__init__",
            [](Axis* place, Count outputs, Count filters, Count stride, Count dilation, Count padding, Count size) {
                if (std::min({outputs, filters, stride, dilation, size}) < 1)
                    throw std::invalid_argument("an axis has a size below 1");
                new (place) Axis{outputs, filters, stride, dilation, padding, size};
            },
            nb::kw_only(), "outputs"_a, "filters"_a, "stride"_a, "dilation"_a, "padding"_a, "size"_a);
    nb::class_<Layer>(
        module, "LayerShape",
        "A layer as it is executed.\n"
        "\n"
        "Operands are input, weight and output; loops are in the order of LOOPS. `relevant` is True per\n"
        "operand and loop if the loop leads to other elements of the operand. `side_of` is the place of\n"
        "each loop among P, R, Q, S, or -1. `is_channel` is True for a loop that leads to other elements of\n"
        "the input along no axis. `axes` are height and width. `mac_energy_pj` is the energy of all\n"
        "multiply-accumulates. Raises ValueError if a side does not exist.")
        .def(
            "__init__",
            [](Layer* place, const std::array<std::array<bool, loops>, operands>& relevant,
               const std::array<Index, loops>& side_of, const std::array<bool, loops>& is_channel,
               const std::array<Count, operands>& bits, const std::array<Count, operands>& elements, Count partial_bits,
               bool has_weight, double mac_energy_pj, const std::array<Axis, 2>& axes) {
                for (const Index side : side_of) {
                    if (side < none || side >= sides)
                        throw std::invalid_argument("a loop has a side that there is not");
                }
                new (place)
                    Layer{relevant, side_of, is_channel, bits, elements, partial_bits, has_weight, mac_energy_pj, axes};
            },
            nb::kw_only(), "relevant"_a, "side_of"_a, "is_channel"_a, "bits"_a, "elements"_a, "partial_bits"_a,
            "has_weight"_a, "mac_energy_pj"_a, "axes"_a);
}

void add_machines(nb::module_& module) {
    nb::class_<Level>(
        module, "MachineLevel",
        "An on-chip memory, or DRAM.\n"
        "\n"
        "`serves` is True per dimension of the array if one instance serves all units along it. Energies\n"
        "are per access of `shortest_bits`. `port` is the number of the port of each move, or -1. Raises\n"
        "ValueError if an access has no bits.")
        .def(
            "__init__",
            [](Level* place, std::vector<bool> serves, Count capacity_bits, bool is_double_buffered,
               Count shortest_bits, double read_pj, double write_pj, const std::array<Index, moves>& port) {
                if (shortest_bits < 1) throw std::invalid_argument("an access has no bits");
                new (place) Level{std::move(serves), capacity_bits, is_double_buffered, Unit(shortest_bits), read_pj,
                                  write_pj,          port};
            },
            nb::kw_only(), "serves"_a, "capacity_bits"_a, "is_double_buffered"_a, "shortest_bits"_a, "read_pj"_a,
            "write_pj"_a, "port"_a);
    nb::class_<Machine>(
        module, "LayerMachine",
        "The memory levels and the array of an accelerator.\n"
        "\n"
        "The last level is DRAM, which has room for everything. `units` is the size of each dimension of\n"
        "the array, `bits_per_cycle` the width of each port, and `home` the level in which each operand is\n"
        "whole. Raises ValueError if a level or a port does not exist.")
        .def(
            "__init__",
            [](Machine* place, std::vector<Level> levels, std::vector<Count> units,
               const std::vector<Count>& bits_per_cycle, const std::array<Index, operands>& home) {
                Machine machine{std::move(levels), std::move(units), {}, home};
                for (const Count bits : bits_per_cycle) {
                    if (bits < 1) throw std::invalid_argument("a port moves no bits");
                    machine.bits_per_cycle.emplace_back(bits);
                }
                machine.check();
                new (place) Machine(std::move(machine));
            },
            nb::kw_only(), "levels"_a, "units"_a, "bits_per_cycle"_a, "home"_a);
}

}  // namespace

void add_layer(nb::module_& module) {
    add_shapes(module);
    add_machines(module);
    nb::class_<Costs> costs(module, "LayerCosts", "Cost model for mappings of one layer on one machine.");
    costs.def(nb::init<Layer, Machine>(), "layer"_a, "machine"_a);
    add_of(costs);
}

}  // namespace onchip
