// Enumeration of orders, and filling of the memories.

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "loma.hpp"

namespace onchip::layer {

void Filling::check() const {
    Index last = 0, factors = 0;
    for (const Kind& one : kinds) {
        if (one.step < 0 || one.count < 0 || one.turn.size < 1)
            throw std::invalid_argument("a kind of factors is malformed");
        if (one.turn.loop < 0 || one.turn.loop >= loops)
            throw std::invalid_argument("a kind is of a loop that there is not");
        last += one.step * one.count;
        factors += one.count;
    }
    const auto is_too_short = [last](std::size_t tiles) { return static_cast<Index>(tiles) <= last; };
    if (is_too_short(tiles.size())) throw std::invalid_argument("there are fewer tiles than orders make");
    for (const Tile& one : tiles) {
        if (one.iterations < 1) throw std::invalid_argument("a tile has no iteration");
    }
    for (const FilledLevel& level : levels) {
        for (const Index operand : level.held) {
            if (operand < none || operand >= operands) throw std::invalid_argument("a level holds an unknown operand");
            if (operand != none && is_too_short(level.elements[operand].size())) {
                throw std::invalid_argument("a level knows not the size of each tile");
            }
        }
    }
    for (const Index level : last_apart) {
        if (level < none || level >= static_cast<Index>(levels.size()))
            throw std::invalid_argument("a level is unknown");
    }
}

Orders::Orders(Filling filling) : filling_(std::move(filling)) {
    filling_.check();
    for (Index kind = 0; kind < static_cast<Index>(filling_.kinds.size()); ++kind) {
        order_.insert(order_.end(), filling_.kinds[kind].count, kind);
    }
    tile_.resize(order_.size() + 1);
    filled_.turns.resize(order_.size());
    filled_.inside.resize(filling_.last_apart.size());
}

bool Orders::next() {
    while (!is_over_) {
        is_over_ = is_begun_ && !std::next_permutation(order_.begin(), order_.end());
        is_begun_ = true;
        if (!is_over_ && fill()) return true;
    }
    return false;
}

// Returns true if the order fits: each memory holds at least the loops of the one below, a home holds all loops.
bool Orders::fill() {
    const auto levels = static_cast<Index>(filling_.levels.size());
    tile_[0] = 0;
    for (std::size_t at = 0; at < order_.size(); ++at) {
        const Kind& kind = filling_.kinds[order_[at]];
        tile_[at + 1] = tile_[at] + kind.step;
        filled_.turns[at] = kind.turn;
    }
    cut_.fill(0);
    filled_.cuts.assign(operands * levels, none);
    for (Index level = 0; level < levels; ++level) {
        if (!fill_level(level)) return false;
        const FilledLevel& here = filling_.levels[level];
        for (Index slot = 0; slot < operands; ++slot) {
            const Index operand = here.held[slot];
            if (operand == none) continue;
            cut_[operand] += slots_[slot].best;
            if (!here.is_home[operand]) filled_.cuts[operand * levels + level] = cut_[operand];
        }
    }
    for (std::size_t at = 0; at < filled_.inside.size(); ++at) {
        const Index last = filling_.last_apart[at];
        filled_.inside[at] = last == none ? 0 : filled_.cuts[input * levels + last];
    }
    return true;
}

// Chooses the further loops of each operand with the least traffic from above; the last of equal choices.
bool Orders::fill_level(Index level) {
    const FilledLevel& here = filling_.levels[level];
    for (Index slot = 0; slot < operands; ++slot) {
        if (!measure(level, slots_[slot], here.held[slot])) return false;
    }
    const auto capacity_bits = static_cast<double>(here.capacity_bits);
    auto& [a, b, c] = slots_;
    double least = 0.0;
    bool is_found = false;
    for (Index one = a.first; one < a.fitting; ++one) {
        const double of_one = traffic(level, a, here.held[0], one);
        for (Index two = b.first; two < b.fitting; ++two) {
            const double of_two = of_one + traffic(level, b, here.held[1], two);
            for (Index three = c.first; three < c.fitting; ++three) {
                if (a.room_bits[one] + b.room_bits[two] + c.room_bits[three] > capacity_bits) {
                    const bool is_least = one == a.first && two == b.first && three == c.first;
                    if (is_least && !here.is_double_buffered) return false;
                    continue;
                }
                const double moved = of_two + traffic(level, c, here.held[2], three);
                if (is_found && moved > least) continue;
                is_found = true;
                least = moved;
                a.best = one;
                b.best = two;
                c.best = three;
            }
        }
    }
    return is_found;
}

// Measures an operand's tiles with increasing numbers of loops, up to the largest that fits. Returns true if a choice
// exists.
//
// In a double-buffered memory the final tile, which has no successor, may fit although a smaller one does not.
bool Orders::measure(Index level, Slot& slot, Index operand) {
    slot.first = 0;
    slot.fitting = 1;
    slot.room_bits.assign(1, 0.0);
    if (operand == none) return true;
    const FilledLevel& here = filling_.levels[level];
    const Index cut = cut_[operand], loops_left = static_cast<Index>(order_.size()) - cut;
    const bool is_partial = operand == output && (filling_.tiles[tile_[cut]].sums_are_left || here.adds_beside);
    const Count bits = is_partial ? filling_.partial_bits : filling_.bits[operand];
    slot.fitting = 0;
    slot.room_bits.clear();
    for (Index more = 0; more <= loops_left; ++more) {
        const Index tile = tile_[cut + more];
        double room_bits = here.elements[operand][tile] * static_cast<double>(bits);
        if (here.is_double_buffered && filling_.tiles[tile].is_left[operand]) room_bits *= 2;
        slot.room_bits.push_back(room_bits);
        if (room_bits <= static_cast<double>(here.capacity_bits)) slot.fitting = more + 1;
    }
    if (here.is_home[operand]) slot.first = loops_left;
    return slot.fitting > slot.first;
}

// Returns the total bits from above, by the tile size and the loops outside it.
double Orders::traffic(Index level, const Slot& slot, Index operand, Index more) const {
    if (operand == none || filling_.levels[level].is_home[operand]) return 0.0;
    const Count inside = filling_.tiles[tile_[cut_[operand] + more]].iterations;
    return slot.room_bits[more] * static_cast<double>(filling_.tiles[tile_.back()].iterations / inside);
}

}  // namespace onchip::layer
