// The tiles that fit, their transfers, and the cost of a boundary in a criterion.

#include "exact_price.hpp"

#include <algorithm>
#include <cmath>

namespace onchip::exact {

using layer::input;
using layer::output;
using layer::read_for_below;
using layer::weight;
using layer::write_from_above;
using layer::write_from_below;

Prices::Prices(const Tiling& tiling, Index criteria)
    : tiling_(tiling), space_(tiling.space), levels_(space_.levels()), fixed_(static_cast<std::size_t>(criteria)) {}

void Prices::make_room() {
    const std::size_t tiles = tiling_.tiles.size(), levels = static_cast<std::size_t>(levels_);
    barred_.resize(levels, tiles);
    ended_.resize(tiles);
    due_.resize(tiles);
    busy_.resize(operands * levels * layer::moves, tiles);
    term_.resize(fixed_.size() * operands * levels, tiles);
    run_.resize(fixed_.size() * levels * operands * levels, tiles);
    best_.resize(fixed_.size() * levels, tiles);
}

void Prices::measure(Index complete_from) {
    for (Index level = 0; level < levels_; ++level) {
        const layer::Level& memory = space_.machine.levels[level];
        const auto capacity = static_cast<double>(memory.capacity_bits);
        std::array<double, operands> bits{};
        for (Index operand = 0; operand < operands; ++operand)
            bits[operand] = tiling_.own_bits(operand, level, complete_from);
        double whole = 0.0;
        if (space_.machine.home[output] == level)
            whole = static_cast<double>(space_.layer.elements[output]) * bits[output];
        for (Index tile = 0; tile <= tiling_.last(); ++tile) {
            double need = whole;
            for (Index operand = 0; operand < operands; ++operand) {
                if (!space_.holds[operand][level]) continue;
                const bool changes = tiling_.whole().relevant[operand] > tiling_.tiles[tile].relevant[operand];
                const double copies = memory.is_double_buffered && changes ? 2.0 : 1.0;
                need += copies * bits[operand] * tiling_.largest(operand, level + 1, tile, false);
            }
            barred_[level][tile] = need <= capacity ? 0.0 : infinite;
        }
    }
}

void Prices::time_moves(Index complete_from) {
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index move = 0; move < layer::moves; ++move) {
            const bool has_units = operand != weight || space_.layer.has_weight;
            unit_busy_[operand][move] = has_units ? busy_cycles(operand, 0, 0, move, 0.0) : 0.0;
            for (Index level = 0; level < levels_; ++level) {
                if (!space_.holds[operand][level]) continue;
                const double bits_below = tiling_.own_bits(operand, level, complete_from);
                double* own = busy_[busy_row(operand, level, move)];
                for (Index tile = 0; tile <= tiling_.last(); ++tile)
                    own[tile] = busy_cycles(operand, level + 1, tile, move, bits_below);
            }
        }
    }
}

// Returns the cycles of the port that makes the transfer; 0 without a port.
double Prices::busy_cycles(Index operand, Index boundary, Index tile, Index move, double bits_below) const {
    const Index port = space_.port[operand][boundary][move];
    if (port == none) return 0.0;
    const auto each = static_cast<double>(space_.machine.bits_per_cycle[port].size());
    if (move != read_for_below && move != write_from_below)
        return std::ceil(tiling_.largest(operand, boundary, tile, false) * bits_below / each);
    const double bits = operand == output ? tiling_.bits_of_sums(boundary, tile) : space_.bits(operand);
    return std::ceil(tiling_.largest(operand, boundary, tile, true) * bits / each);
}

double Prices::find_least(Index at, const Criterion& criterion, Index complete_from) {
    if (criterion.is_energy()) {
        price_reads(at);
        price_sums(at, complete_from);
    } else {
        price_cycles(at, criterion, complete_from);
    }
    return link(at);
}

bool Prices::may_take_less(Index first, Index last, double limit) {
    const double reads = price_reads(0);
    for (Index complete_from = first; complete_from <= last; ++complete_from) {
        if (reads + price_sums(0, complete_from) >= limit) continue;
        measure(complete_from);
        if (link(0) < limit) return true;
    }
    return false;
}

// Tabulates the energy of inputs and weights, and sets the constant of the units; these do not depend on
// `complete_from`. Returns the sum of the minima over boundaries, a lower bound.
double Prices::price_reads(Index at) {
    double fixed = space_.layer.mac_energy_pj + tiling_.energy_of_reads(input, 0, 0);
    if (space_.layer.has_weight) fixed += tiling_.energy_of_reads(weight, 0, 0);
    fixed_[at] = fixed + tiling_.energy_of_sums(0, 0, 0.0, 0.0);
    double found = fixed_[at];
    for (const Operand operand : {input, weight}) {
        for (Index level = 0; level < levels_; ++level) {
            if (!space_.holds[operand][level]) continue;
            double* own = term(at, operand, level);
            double least = infinite;
            for (Index tile = tiling_.last(); tile >= 0; --tile) {
                own[tile] = read_price(own, operand, level, tile);
                least = std::min(least, own[tile]);
            }
            found += least;
        }
    }
    return found;
}

// Returns the energy scaled from that of the tile with all loops along which the operand is constant, which is listed
// before.
double Prices::read_price(const double* own, Index operand, Index level, Index tile) const {
    const Tile& one = tiling_.tiles[tile];
    const Index spanning = tile - one.part[operand] + tiling_.whole().part[operand];
    if (tile != spanning) return own[spanning] * (tiling_.whole().of_class[operand] / one.of_class[operand]);
    const auto capacity = static_cast<double>(space_.machine.levels[level].capacity_bits);
    if (tiling_.largest(operand, level + 1, tile, false) * space_.bits(operand) > capacity) return infinite;
    return tiling_.energy_of_reads(operand, level + 1, tile);
}

// Tabulates the energy of outputs, without the units. Returns the sum of the minima over boundaries.
double Prices::price_sums(Index at, Index complete_from) {
    double saved = tiling_.price_of_return(0, tiling_.bits_of_sums(0, 0)), found = 0.0;
    for (Index level = 0; level < levels_; ++level) {
        if (!space_.holds[output][level]) continue;
        const double bits = tiling_.own_bits(output, level, complete_from);
        const double room = static_cast<double>(space_.machine.levels[level].capacity_bits) / bits;
        const std::optional<bool> is_out = pending_elsewhere(output, level, complete_from);
        double* own = term(at, output, level);
        double least = infinite;
        for (Index tile = 0; tile <= tiling_.last(); ++tile) {
            own[tile] = infinite;
            if (is_out != tiling_.is_pending(level + 1, tile) &&
                tiling_.largest(output, level + 1, tile, false) <= room)
                own[tile] = tiling_.energy_of_sums(level + 1, tile, bits, saved);
            least = std::min(least, own[tile]);
        }
        found += least;
        saved += tiling_.price_of_return(level + 1, bits);
    }
    return found;
}

// Returns the state of sums (true: pending) that belongs to another `complete_from`; none if both are allowed. Below
// the last memory with incomplete sums, sums may leave a memory complete or not.
std::optional<bool> Prices::pending_elsewhere(Index operand, Index level, Index complete_from) const {
    if (operand != output) return std::nullopt;
    Index number = 0;
    for (Index below = 0; below <= level; ++below) number += space_.holds[output][below];
    if (number < complete_from - 1) return std::nullopt;
    return number >= complete_from;
}

// Tabulates the cost of the boundary above each level for each tile, and of the units.
void Prices::price_cycles(Index at, const Criterion& criterion, Index complete_from) {
    fixed_[at] = fixed_cycles(criterion);
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index level = 0; level < levels_; ++level) {
            if (!space_.holds[operand][level]) continue;
            double* own = term(at, operand, level);
            add_moves(criterion, operand, level, own);
            const std::optional<bool> is_out = pending_elsewhere(operand, level, complete_from);
            for (Index tile = 0; is_out && tile <= tiling_.last(); ++tile) {
                if (tiling_.is_pending(level + 1, tile) == *is_out) own[tile] = infinite;
            }
        }
    }
}

// Returns the cycles of the loops, with the stalls or busy cycles of the port due to the units.
double Prices::fixed_cycles(const Criterion& criterion) const {
    const double loops = tiling_.whole().iterations;
    double found = criterion.kind == Kind::busy ? 0.0 : loops;
    if (criterion.kind == Kind::no_stall) return found;
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index move = 0; move < layer::moves; ++move) {
            if (space_.port[operand][0][move] != criterion.port) continue;
            const bool begins = operand == output && move == read_for_below;
            const double times = loops - (begins ? tiling_.whole().relevant[output] : 0.0);
            const double busy = unit_busy_[operand][move];
            found += times * (criterion.kind == Kind::waiting ? std::max(busy - 1.0, 0.0) : busy);
        }
    }
    return found;
}

// Tabulates lower bounds on the cost of the boundary above a level: waits or busy cycles of a port, preloading,
// offloading.
void Prices::add_moves(const Criterion& criterion, Index operand, Index level, double* own) const {
    const bool is_double_buffered = space_.machine.levels[level].is_double_buffered;
    const bool is_waiting = criterion.kind == Kind::waiting, is_stall = is_waiting || criterion.kind == Kind::busy;
    const bool is_chained = operand == output || operand == criterion.preload;
    const Tile& whole = tiling_.whole();
    for (Index tile = 0; tile <= tiling_.last(); ++tile) {
        const Tile& one = tiling_.tiles[tile];
        const double episodes = whole.iterations / one.iterations;
        const double window = one.relevant[operand] == 1 && !is_double_buffered ? 1.0 : one.iterations;
        double found = 0.0, slowest = 0.0;
        for (Index move = 0; move < layer::moves; ++move) {
            const Index used = space_.port[operand][level + 1][move];
            if (used == none) continue;
            const double cycles = busy(operand, level, move, tile);
            const bool returns = is_return(operand, move);
            if (is_stall && used == criterion.port) {
                const double first = returns ? whole.relevant[operand] / one.relevant[operand] : 1.0;
                found += (is_waiting ? std::max(cycles - window, 0.0) : cycles) * (episodes - first);
            }
            if (returns) continue;
            slowest = std::max(slowest, cycles);
            if (operand != output && criterion.preload == first_port + used) found += cycles;
        }
        own[tile] = found + (is_chained ? slowest : 0.0);
    }
}

}  // namespace onchip::exact
