// The tables that all ways share, the tiles of one way, and their transfers at the boundary between two memories.

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "exact.hpp"

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

// Unrollings (ways) and their tiles.

Tiling::Tiling(const Space& space_) : space(space_), way(space_.ways.size()) {
    const auto boundaries = static_cast<std::size_t>(space.levels()) + 1;
    for (auto& own : share) own.resize(boundaries);
    inside_.resize(boundaries);
    beside_.resize(boundaries);
    radix.resize(space.digits.size());
    stride.resize(space.digits.size());
}

bool Tiling::choose(std::span<const Index> chosen) {
    way.assign(chosen.begin(), chosen.end());
    side_.fill(1);
    for (std::size_t along = 0; along < way.size(); ++along) {
        for (Index loop = 0; loop < layer::loops; ++loop) side_[loop] *= space.ways[along][way[along]].sizes[loop];
    }
    for (Index loop = 0; loop < layer::loops; ++loop) {
        if (space.bounds[loop] % side_[loop] != 0) return false;
    }
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index boundary = 0; boundary <= space.levels(); ++boundary) {
            if (space.above[operand][boundary] != none) share_units(operand, boundary);
        }
    }
    return true;
}

// Sets how the unrolled loops split at a boundary: inside a tile, adjacent to it, elsewhere.
void Tiling::share_units(Index operand, Index boundary) {
    const Index upper = space.above[operand][boundary];
    Share& own = share[operand][boundary] = Share{};
    std::array<Count, layer::sides> inside{1, 1, 1, 1}, beside{1, 1, 1, 1};
    const auto multiply = [operand](std::array<Count, layer::sides>& product, const Unrolled& one) {
        if (operand != layer::input) return;
        for (Index side = 0; side < layer::sides; ++side) product[side] *= one.side[side];
    };
    for (std::size_t along = 0; along < way.size(); ++along) {
        const Unrolled& one = space.ways[along][way[along]];
        const auto relevant = static_cast<double>(one.relevant[operand]);
        const auto copies = static_cast<double>(one.copies[operand]);
        if (boundary > 0 && space.machine.levels[boundary - 1].serves[along]) {
            own.inside *= relevant;
            multiply(inside, one);
            continue;
        }
        own.copies *= copies;
        if (space.machine.levels[upper].serves[along]) {
            own.beside *= relevant;
            multiply(beside, one);
        } else {
            own.outside *= relevant;
            own.copies_above *= copies;
        }
    }
    if (operand == layer::input) {
        inside_[boundary] = inside;
        beside_[boundary] = beside;
    }
}

void Tiling::list_tiles() {
    tiles.assign(1, Tile{});
    for (std::size_t digit = 0; digit < space.digits.size(); ++digit) {
        const auto [loop, prime, all_copies] = space.digits[digit];
        Index copies = all_copies;
        for (Count beside = side_[loop]; beside % prime == 0; beside /= prime) --copies;
        const auto filled = static_cast<Index>(tiles.size());
        radix[digit] = copies + 1;
        stride[digit] = filled;
        for (Index at = 0; at < copies * filled; ++at) {
            Tile next = tiles[at];
            next.loops[loop] *= prime;
            next.part[space.class_of[loop]] += filled;
            tiles.push_back(next);
        }
    }
    multiply_loops();
}

void Tiling::list_ends() {
    tiles.assign(2, Tile{});
    for (Index loop = 0; loop < layer::loops; ++loop) tiles[1].loops[loop] = space.bounds[loop] / side_[loop];
    multiply_loops();
}

void Tiling::multiply_loops() {
    for (Tile& tile : tiles) {
        for (Index loop = 0; loop < layer::loops; ++loop) {
            const auto size = static_cast<double>(tile.loops[loop]);
            tile.iterations *= size;
            tile.of_class[space.class_of[loop]] *= size;
            if (space.layer.is_channel[loop]) tile.channels *= size;
            for (Index operand = 0; operand < operands; ++operand) {
                if (space.class_of[loop] != operand) tile.relevant[operand] *= size;
            }
        }
    }
    const double repeats = whole().iterations / whole().relevant[layer::output];
    for (Tile& tile : tiles) tile.sums_are_left = tile.iterations / tile.relevant[layer::output] < repeats;
}

// The transfers of a tile at the boundary between two memories, and their energy.

using layer::input;
using layer::output;
using layer::weight;

// Returns the number of shortest accesses of a memory for `bits` bits.
double Tiling::words(Index level, double bits) const {
    return std::ceil(bits / space.shortest(level));
}

const BlockEntry& Tiling::block(Index boundary, Index tile, Index axis, bool beside) const {
    const Index outputs = 2 * axis, taps = outputs + 1;
    const auto& inside = inside_[boundary];
    const auto& more = beside_[boundary];
    const auto& loops = tiles[tile].loops;
    return space.blocks[axis].of({loops[space.loop_of_side[outputs]] * inside[outputs], beside ? more[outputs] : 1,
                                  loops[space.loop_of_side[taps]] * inside[taps], beside ? more[taps] : 1});
}

// Returns the accesses over all positions, for blocks with `bits` bits per element.
double Tiling::block_words(Index level, Index boundary, Index tile, bool beside, double bits) const {
    const BlockEntry& rows = block(boundary, tile, 0, beside);
    const BlockEntry& columns = block(boundary, tile, 1, beside);
    const double shortest = space.shortest(level);
    if (std::fmod(bits, shortest) == 0.0) return rows.total * columns.total * (bits / shortest);
    double found = 0.0;
    for (const auto& [height, rows_so_high] : rows.sizes) {
        for (const auto& [width, columns_so_wide] : columns.sizes) {
            const auto size = static_cast<double>(height * width);
            found += std::ceil(size * bits / shortest) * static_cast<double>(rows_so_high * columns_so_wide);
        }
    }
    return found;
}

double Tiling::largest(Index operand, Index boundary, Index tile, bool beside) const {
    const Share& own = share[operand][boundary];
    const double joint = own.inside * (beside ? own.beside : 1.0);
    if (operand != input) return joint * tiles[tile].relevant[operand];
    const BlockEntry& rows = block(boundary, tile, 0, beside);
    const BlockEntry& columns = block(boundary, tile, 1, beside);
    return joint * tiles[tile].channels * rows.largest * columns.largest;
}

double Tiling::moved_once(Index operand, Index boundary, bool beside) const {
    const Share& own = share[operand][boundary];
    const double joint = own.inside * (beside ? own.beside : 1.0);
    if (operand != input) return joint * whole().relevant[operand];
    const BlockEntry& rows = block(boundary, last(), 0, beside);
    const BlockEntry& columns = block(boundary, last(), 1, beside);
    return joint * whole().channels * rows.fewest * columns.fewest;
}

double Tiling::bits_of_sums(Index boundary, Index tile) const {
    return is_pending(boundary, tile) ? static_cast<double>(space.layer.partial_bits) : space.bits(output);
}

double Tiling::own_bits(Index operand, Index level, Index complete_from) const {
    if (operand != output) return space.bits(operand);
    Index number = 0;
    for (Index below = 0; below < level; ++below) number += space.holds[output][below];
    if (number == 0) return bits_of_sums(0, 0);
    return number >= complete_from ? space.bits(output) : static_cast<double>(space.layer.partial_bits);
}

double Tiling::energy_of_reads(Index operand, Index boundary, Index tile) const {
    const Index upper = space.above[operand][boundary], lower = boundary - 1;
    const Share& own = share[operand][boundary];
    const Tile& one = tiles[tile];
    const double bits = space.bits(operand), episodes = whole().iterations / one.iterations;
    const double read_pj = space.machine.levels[upper].read_pj;
    const double write_pj = lower >= 0 ? space.machine.levels[lower].write_pj : 0.0;
    if (operand == weight) {
        const double size = one.relevant[weight] * own.inside, times = episodes * own.outside;
        double energy = words(upper, size * own.beside * bits) * times * own.copies_above * read_pj;
        if (lower >= 0) energy += words(lower, size * bits) * times * own.beside * own.copies * write_pj;
        return energy;
    }
    const double again = episodes / (whole().relevant[input] / one.relevant[input]);
    const double size = one.channels * own.inside;
    const double outside = whole().channels / one.channels * own.outside * again;
    const double units = block_words(upper, boundary, tile, true, size * own.beside * bits);
    double energy = units * outside * own.copies_above * read_pj;
    if (lower >= 0) {
        const double units_below = block_words(lower, boundary, tile, false, size * bits);
        energy += units_below * outside * own.beside * own.copies * write_pj;
    }
    return energy;
}

double Tiling::energy_of_sums(Index boundary, Index tile, double bits_below, double saved_pj) const {
    const Index upper = space.above[output][boundary], lower = boundary - 1;
    const Share& own = share[output][boundary];
    const double own_size = tiles[tile].relevant[output] * own.inside;
    const double size = own_size * own.beside;
    const double times = whole().iterations / tiles[tile].iterations * own.outside * own.copies_above;
    const double returned = size * times - static_cast<double>(space.layer.elements[output]);
    const layer::Level& above = space.machine.levels[upper];
    double energy =
        words(upper, size * bits_of_sums(boundary, tile)) * (times * above.write_pj + returned / size * above.read_pj);
    if (lower >= 0) {
        const layer::Level& below = space.machine.levels[lower];
        const double arrived = size * times / own.copies_above * own.copies;
        energy +=
            words(lower, own_size * bits_below) / own_size * (arrived * below.read_pj + returned * below.write_pj);
        energy -= saved_pj * (arrived - size * times);
    }
    return energy;
}

double Tiling::price_of_return(Index boundary, double bits_below) const {
    const Index upper = space.above[output][boundary];
    const double read_pj = space.machine.levels[upper].read_pj;
    if (boundary == 0) {
        const double size = share[output][0].beside;
        return words(upper, size * bits_below) / size * read_pj;
    }
    const auto partial = static_cast<double>(space.layer.partial_bits);
    const Index lower = boundary - 1;
    return words(upper, partial) * read_pj + words(lower, partial) * space.machine.levels[lower].write_pj;
}

}  // namespace onchip::exact
