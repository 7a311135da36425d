// Tables that all ways share.

#include "exact_space.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace onchip::exact {

namespace {

constexpr Count most_units = Count{1} << 40;

std::vector<std::pair<Index, Index>> prime_counts(Count number) {
    std::vector<std::pair<Index, Index>> found;
    for (Count prime = 2; number > 1; ++prime) {
        if (prime * prime > number) prime = number;
        Index copies = 0;
        for (; number % prime == 0; number /= prime) ++copies;
        if (copies > 0) found.emplace_back(static_cast<Index>(prime), copies);
    }
    return found;
}

Unrolled unrolled_of(const std::array<Count, layer::loops>& sizes, const Space& space) {
    Unrolled found{sizes, {1, 1, 1}, {1, 1, 1}, {1, 1, 1, 1}};
    for (Index loop = 0; loop < layer::loops; ++loop) {
        const Index side = space.layer.side_of[loop];
        if (side != none) found.side[side] *= sizes[loop];
        for (Index operand = 0; operand < operands; ++operand) {
            const bool is_apart = operand == layer::input && side != none;
            if (space.class_of[loop] == operand) found.copies[operand] *= sizes[loop];
            if (space.class_of[loop] != operand && !is_apart) found.relevant[operand] *= sizes[loop];
        }
    }
    return found;
}

}  // namespace

// Blocks

BlockTable::Divisors BlockTable::divisors_of(Count bound) {
    Divisors found;
    found.place.assign(static_cast<std::size_t>(bound) + 1, none);
    for (Count size = 1; size <= bound; ++size) {
        if (bound % size != 0) continue;
        found.place[size] = static_cast<Index>(found.sizes.size());
        found.sizes.push_back(size);
    }
    found.count = found.sizes.size();
    return found;
}

BlockTable::BlockTable(const layer::Axis& axis, Count units)
    : outputs_(divisors_of(axis.outputs)), taps_(divisors_of(axis.filters)) {
    entry_.reserve(outputs_.count * outputs_.count * taps_.count * taps_.count);
    for (const Count outputs : outputs_.sizes) {
        for (const Count beside : outputs_.sizes) {
            for (const Count taps : taps_.sizes) {
                for (const Count taps_beside : taps_.sizes) {
                    const bool divides =
                        axis.outputs % (outputs * beside) == 0 && axis.filters % (taps * taps_beside) == 0;
                    if (!divides || std::max(beside, taps_beside) > units) {
                        entry_.push_back(none);
                        continue;
                    }
                    const layer::Block block{outputs, beside, taps, taps_beside};
                    BlockEntry entry{0.0, 0.0, 0.0, layer::block_sizes(axis, block)};
                    for (const auto& [size, times] : entry.sizes) {
                        entry.total += static_cast<double>(size * times);
                        entry.largest = std::max(entry.largest, static_cast<double>(size));
                    }
                    entry_.push_back(static_cast<Index>(entries_.size()));
                    entry.fewest = entry.largest;
                    entries_.push_back(std::move(entry));
                    entries_.back().fewest = fewest(block);
                }
            }
        }
    }
}

// Returns the least product of a number of equal parts of the block and the size of the largest part. Requires that
// smaller blocks are listed.
double BlockTable::fewest(const layer::Block& block) const {
    double found = entries_.back().largest;
    for (const auto& [prime, copies] : prime_counts(block.outputs)) {
        layer::Block part = block;
        part.outputs /= prime;
        found = std::min(found, prime * of(part).fewest);
    }
    for (const auto& [prime, copies] : prime_counts(block.filters)) {
        layer::Block part = block;
        part.filters /= prime;
        found = std::min(found, prime * of(part).fewest);
    }
    return found;
}

// Space

Space::Space(Layer layer_, Machine machine_, std::array<Count, layer::loops> bounds_,
             std::array<std::vector<bool>, operands> holds_, std::array<double, operands> touched_,
             const std::vector<std::vector<std::array<Count, layer::loops>>>& ways_)
    : layer(std::move(layer_)),
      machine(std::move(machine_)),
      whole_machine(machine),
      bounds(bounds_),
      holds(std::move(holds_)),
      touched(touched_) {
    check();
    for (Index loop = 0; loop < layer::loops; ++loop) {
        class_of[loop] = no_class;
        for (Index operand = operands - 1; operand >= 0; --operand) {
            if (!layer.relevant[operand][loop]) class_of[loop] = operand;
        }
        if (layer.side_of[loop] != none) loop_of_side[layer.side_of[loop]] = loop;
    }
    find_digits();
    find_chains();
    find_ports();
    Count units = 1;
    for (const Count one : machine.units) {
        if (one < 1 || units > most_units / one) throw std::invalid_argument("an array of no units, or too many");
        units *= one;
    }
    for (Index axis = 0; axis < 2; ++axis) blocks[axis] = BlockTable(layer.axes[axis], units);
    if (ways_.size() != machine.units.size()) throw std::invalid_argument("ways are not those of each dimension");
    for (const auto& along : ways_) {
        std::vector<Unrolled>& own = ways.emplace_back();
        for (const auto& sizes : along) {
            for (Index loop = 0; loop < layer::loops; ++loop) {
                if (sizes[loop] < 1 || bounds[loop] % sizes[loop] != 0)
                    throw std::invalid_argument("a way does not divide the loops");
            }
            own.push_back(unrolled_of(sizes, *this));
        }
        if (own.empty()) throw std::invalid_argument("a dimension has no way to use it");
    }
}

void Space::check() const {
    const auto require = [](bool is_so, const char* what) {
        if (!is_so) throw std::invalid_argument(what);
    };
    constexpr Count most = std::numeric_limits<Index>::max();
    double iterations = 1.0;
    for (const Count bound : bounds) {
        require(1 <= bound && bound <= most, "a loop of no iteration, or too many");
        iterations *= static_cast<double>(bound);
    }
    require(iterations <= 0x1p62, "more than 2^62 iterations");
    for (const auto& own : holds) {
        require(static_cast<Index>(own.size()) == levels(), "not each level holds an operand or not");
    }
    for (Index axis = 0; axis < 2; ++axis) {
        const Index loop_at = 2 * axis;
        for (Index loop = 0; loop < layer::loops; ++loop) {
            if (layer.side_of[loop] == loop_at)
                require(layer.axes[axis].outputs == bounds[loop], "an axis has other outputs than its loop");
            if (layer.side_of[loop] == loop_at + 1)
                require(layer.axes[axis].filters == bounds[loop], "an axis has other taps than its loop");
        }
    }
    for (Index side = 0; side < layer::sides; ++side) {
        require(std::count(layer.side_of.begin(), layer.side_of.end(), side) == 1, "a side is not one loop's");
    }
}

Index Space::memories_of_outputs() const {
    return static_cast<Index>(std::count(holds[layer::output].begin(), holds[layer::output].end(), true));
}

void Space::find_digits() {
    for (Index loop = 0; loop < layer::loops; ++loop) {
        for (const auto& [prime, copies] : prime_counts(bounds[loop])) digits.push_back({loop, prime, copies});
    }
}

void Space::find_chains() {
    for (const Operand operand : {layer::input, layer::weight}) {
        const Index home = machine.home[operand];
        if (home < levels()) machine.levels[home].capacity_bits -= layer.elements[operand] * layer.bits[operand];
    }
    for (Index operand = 0; operand < operands; ++operand) {
        above[operand].assign(static_cast<std::size_t>(levels()) + 1, none);
        Index lower = layer::macs;
        for (Index level = 0; level < levels(); ++level) {
            if (!holds[operand][level]) continue;
            above[operand][lower + 1] = level;
            lower = level;
        }
        above[operand][lower + 1] = machine.home[operand];
    }
}

void Space::find_ports() {
    for (Index operand = 0; operand < operands; ++operand) {
        port[operand].assign(above[operand].size(), {none, none, none, none});
        if (operand == layer::weight && !layer.has_weight) continue;
        for (Index boundary = 0; boundary <= levels(); ++boundary) {
            const Index upper = above[operand][boundary];
            if (upper == none) continue;
            auto& own = port[operand][boundary];
            own[layer::read_for_below] = machine.levels[upper].port[layer::read_for_below];
            if (operand == layer::output)
                own[layer::write_from_below] = machine.levels[upper].port[layer::write_from_below];
            if (boundary == 0) continue;
            const auto& of_lower = machine.levels[boundary - 1].port;
            own[layer::write_from_above] = of_lower[layer::write_from_above];
            if (operand == layer::output) own[layer::read_for_above] = of_lower[layer::read_for_above];
        }
    }
}

bool Space::sums_are_linear() const {
    Index seen = 0;
    for (Index level = 0; level <= levels(); ++level) {
        if (level < levels() && !holds[layer::output][level]) continue;
        const Count shortest = machine.levels[level].shortest.size();
        if (layer.partial_bits % shortest != 0 || layer.bits[layer::output] % shortest != 0) return false;
        const auto& serves = machine.levels[level].serves;
        const bool serves_all = std::find(serves.begin(), serves.end(), false) == serves.end();
        if (level < levels() && seen > 0 && !serves_all) return false;
        ++seen;
    }
    return true;
}

}  // namespace onchip::exact
