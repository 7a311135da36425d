// Cost model of layer mappings as in ZigZag and DeFiNES: the figures of `model/layer/cost.py` with ZIGZAG and DEFINES
// of `model/accounting/accounting.py`, fast enough for millions of mappings.
//
// docs/layer_cost.md, sections 8 and 9, defines what is counted. Sizes depend on the loop bounds only. If the array
// does not divide a loop, units are fractional: 33 channels on 32 units are two iterations of 16.5.

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "layer.hpp"
#include "layer_rows.hpp"

namespace onchip::layer {

struct ZigzagProblem {
    Layer layer;
    std::array<Count, loops> bounds{};  // of the layer; mappings may exceed them
    Machine machine;
    std::vector<bool> is_shared;    // by level: true if it holds inputs and weights
    bool is_defines = false;        // counts as DeFiNES, else as ZigZag
    std::vector<bool> is_systolic;  // by dimension of the array

    // Throws std::invalid_argument if the fields are inconsistent or exceed 64 bits.
    void check() const;
};

struct ZigzagCost {
    Status status = Status::costed;
    double energy_pj = 0.0;
    double cycles = 0.0;  // whole, unless loads overlap with the loops
};

// Returns the nearest whole number to a count, which fractional units may miss by less than 1e-6.
Count nearest(double count);

// Evaluates mappings of one layer on one machine.
class ZigzagCosts {
public:
    explicit ZigzagCosts(ZigzagProblem problem);

    // Throws std::invalid_argument if an iteration takes less than one unit.
    ZigzagCost of(const Mapping& mapping);

    std::size_t dimensions() const { return problem_.machine.units.size(); }
    std::size_t levels() const { return problem_.machine.levels.size() - 1; }

private:
    // Products of the temporal loops inside a position in the nest.
    struct Place {
        Count all = 1;
        std::array<Count, loops> of{1, 1, 1, 1, 1, 1, 1, 1};
        std::array<Index, operands> next_relevant{};  // first position from here on with a relevant loop
    };

    // Units of each loop within one instance of a level or of the MACs, and the number of instances in use.
    struct Instances {
        std::array<double, loops> units{};
        double count = 1.0;
    };

    // Fractional or whole units, and the input positions that they use.
    struct Array {
        std::vector<Instances> of;  // the MACs, then each level
        std::array<Count, 2> axis_size{};
    };

    // Between a level that holds an operand, `lower`, and the next one above.
    struct Boundary {
        Index lower = macs;
        Index upper = macs;
        Index cut = 0;
        Index settled = 0;  // the cut above the loops along which the tile is reused
        Count episodes = 1;
        double neighbours = 1.0;  // tiles of `lower` that one transfer of `upper` serves
        Count size = 0;
        Count joint_size = 0;  // of all neighbours
        double moves = 0.0;    // at `lower`; below: at `upper`
        double joint_moves = 0.0;
        bool is_pending = false;  // sums are accumulated further after arrival above
        Count bits = 0;           // of an element
        Count bits_in_use = 0;    // of the part of a tile in use at a time
        bool has_room_for_two = true;
    };

    // Periodic use of a port: `busy` cycles in each period, within a window.
    struct Visit {
        Index port = 0;
        Index level = 0;
        Index operand = 0;
        Index at = 0;  // index of the boundary
        bool returns = false;
        Count bits = 0;
        Count busy = 0;
        Count period = 1;
        Count window = 1;
        Count times = 0;
        double left = 0.0;  // part of `busy` that the loops do not hide
    };

    // Cycles to load an operand, split by whether both ends of a transfer are shared.
    struct Loading {
        double shared = 0.0;
        double apart = 0.0;
        double all() const { return shared + apart; }
    };

    void multiply_turns(const Mapping& mapping);
    bool multiply_beside(const Mapping& mapping);
    void count_units();
    void shorten(Index loop);
    void lengthen_input(Index loop, Count more);
    void spread(Array& array) const;
    bool serves(Index level, std::size_t along) const;
    void chain(const Mapping& mapping, Index operand);
    void size_tiles(Index operand);
    bool is_over_capacity();
    Count bits_held(Index operand, const Boundary& one) const;
    bool is_pending(Index cut, Index upper) const;

    double elements(const Array& array, Index operand, Index level, Index cut) const;
    double positions(Index axis, double outputs, double filters) const;
    double neighbours(const Array& array, Index operand, const Boundary& one) const;
    Count whole_neighbours(double count) const;
    Count room(Index operand, const Boundary& one) const;
    double energy_of_moves() const;
    double most_bits(const Boundary& one, Move towards, Move own) const;

    double cycles_of(const Mapping& mapping);
    void find_room(const Mapping& mapping);
    Count steps_in_use(const Mapping& mapping, Index operand, Index at) const;
    Index first_own(Index operand, Index at) const;
    Count window_of(const Mapping& mapping, Index operand, Index at) const;
    void visit_ports(const Mapping& mapping, Index operand, Index at);
    void visit(Index level, Move move, Visit visit);
    Count stall(Count cycles);
    void hide(Count available, Count cycles);
    double nearest_cycles(const Visit& one, Count bits_per_cycle) const;
    double preload() const;
    Loading loading(Index operand) const;
    double offload() const;
    double longest_end(Index operand, Index at) const;
    double skew(const Mapping& mapping) const;

    ZigzagProblem problem_;
    bool has_axes_ = true;                          // else rows and columns of the input count as channels
    std::array<std::vector<Index>, operands> own_;  // relevant loops that are not along an axis
    std::array<Index, sides> loop_of_side_{};
    std::array<double, 2> stride_{}, dilation_{};  // divided by their common divisor
    std::vector<Place> places_;
    std::vector<std::array<double, loops>> beside_;        // by dimension of the array
    std::vector<std::pair<Index, std::size_t>> unrolled_;  // loops and dimensions with more than one unit
    bool is_in_parts_ = false;
    Array parts_, whole_;
    std::array<std::vector<Boundary>, operands> chain_;
    std::array<Count, operands> nearest_bits_{};  // of a tile in the innermost memory
    std::vector<Count> needs_bits_;
    std::vector<Visit> visits_;
    std::vector<Visit*> once_;
    Windows windows_;
};

// Units, memory hierarchies and capacities.

void ZigzagProblem::check() const {
    const auto require = [](bool is_so, const char* what) {
        if (!is_so) throw std::invalid_argument(what);
    };
    machine.check();
    require(is_shared.size() == machine.levels.size(), "it is not said of each level whether it is shared");
    require(is_systolic.size() == machine.units.size(), "it is not said of each dimension if it is systolic");
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
    has_axes_ = !problem_.is_defines || layer.axes[0].filters > 1 || layer.axes[1].filters > 1;
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
    const bool is_kept = operand != output && !problem_.is_defines;
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

// Sizes of tiles, and the energy of their transfers.

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
        if (!problem_.is_defines) {
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
    return problem_.is_defines ? floor_of(count + epsilon) : nearest(count);
}

// Returns the elements for which the tile below a boundary takes room.
Count ZigzagCosts::room(Index operand, const Boundary& one) const {
    if (!problem_.is_defines) return one.size;
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
    if (one.lower == macs || !problem_.is_defines) return most;
    const auto& ports = problem_.machine.bits_per_cycle;
    const Index upper = problem_.machine.levels[one.upper].port[towards];
    const Index lower = problem_.machine.levels[one.lower].port[own];
    if (upper != none) most = static_cast<double>(ports[upper].size());
    if (lower != none) most = std::min(most, static_cast<double>(ports[lower].size()) * one.neighbours);
    return most;
}

// Cycles of a mapping: room for a second tile, port visits, stalls, and overlapped loads.

double ZigzagCosts::cycles_of(const Mapping& mapping) {
    find_room(mapping);
    visits_.clear();
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index at = 0; at < static_cast<Index>(chain_[operand].size()); ++at) visit_ports(mapping, operand, at);
    }
    const Count cycles = places_.back().all, stalled = stall(cycles);
    if (!problem_.is_defines) hide(cycles + stalled, cycles);
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
        if (!problem_.is_defines) {
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
        if (!problem_.is_systolic[along]) continue;
        Count used = 1;
        for (const Beside& one : mapping.beside) used *= one.along == static_cast<Index>(along) ? one.size : 1;
        cycles += static_cast<double>(used - 1);
    }
    return cycles;
}

}  // namespace onchip::layer

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `ZigzagCosts`.

void add_zigzag(nb::module_& module) {
    using namespace layer;
    nb::class_<ZigzagCosts> costs(
        module, "ZigzagCosts",
        "Cost model for mappings of one layer on one machine, as ZigZag or DeFiNES counts them.\n"
        "\n"
        "`bounds` are the bounds of the layer; the loops of a mapping may be longer. `is_shared` is True\n"
        "for each level, DRAM last, that holds inputs and weights. Raises ValueError if the arguments are\n"
        "inconsistent or too large.");
    costs.def(
        "__init__",
        [](ZigzagCosts* place, const Layer& layer, const std::array<Count, loops>& bounds, const Machine& machine,
           std::vector<bool> is_shared, bool is_defines, std::vector<bool> is_systolic) {
            new (place) ZigzagCosts({layer, bounds, machine, std::move(is_shared), is_defines, std::move(is_systolic)});
        },
        nb::kw_only(), "layer"_a, "bounds"_a, "machine"_a, "is_shared"_a, "is_defines"_a, "is_systolic"_a);
    add_of(costs);
}

}  // namespace onchip
