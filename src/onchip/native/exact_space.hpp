// What the exact mapper searches in: the layer's prime factors, who is filled from whom, the ways to use the array.
//
// A loop's class is the operand that it does not lead through (K: input; N, P, Q: weight; C, R, S: output), or
// `no_class` (G). A boundary is that above a level, numbered one more than it; 0 is the one at the units.

#pragma once

#include <array>
#include <vector>

#include "layer.hpp"

namespace onchip::exact {

using layer::Count;
using layer::Index;
using layer::Layer;
using layer::Machine;
using layer::Move;
using layer::none;
using layer::Operand;
using layer::operands;

inline constexpr Index no_class = 3;
inline constexpr Index classes = 4;

// Of sums that come back; all else moves in the direction that it must.
inline bool is_return(Index operand, Index move) {
    return operand == layer::output && (move == layer::read_for_below || move == layer::write_from_above);
}

// A prime factor of a loop, so many times.
struct Digit {
    Index loop = 0;
    Index prime = 2;
    Index copies = 0;
};

// How many stored positions blocks along an axis touch.
struct BlockEntry {
    double total = 0.0;    // over all places of the blocks
    double largest = 0.0;  // of one
    double fewest = 0.0;   // times of moving times the largest block moved, if smaller blocks may make it up
    layer::BlockSizes sizes;
};

// For every way to split the outputs and taps of an axis into those within a tile, beside it, and elsewhere.
class BlockTable {
public:
    BlockTable() = default;
    // At most so many units stand beside each other.
    BlockTable(const layer::Axis& axis, Count units);

    const BlockEntry& of(const layer::Block& block) const {
        const std::size_t at =
            ((place(outputs_, block.outputs) * outputs_.count + place(outputs_, block.more_outputs)) * taps_.count +
             place(taps_, block.filters)) *
                taps_.count +
            place(taps_, block.more_filters);
        return entries_[entry_[at]];
    }

private:
    struct Divisors {
        std::vector<Count> sizes;
        std::vector<Index> place;  // of a size among them
        std::size_t count = 0;
    };

    static Divisors divisors_of(Count bound);
    static std::size_t place(const Divisors& divisors, Count size) {
        return static_cast<std::size_t>(divisors.place[size]);
    }
    double fewest(const layer::Block& block) const;

    Divisors outputs_, taps_;
    std::vector<Index> entry_;  // outputs within, beside, taps within, beside
    std::vector<BlockEntry> entries_;
};

// One way to unroll loops along one dimension of the array: units with other elements of an operand, and with the same.
struct Unrolled {
    std::array<Count, layer::loops> sizes{};
    std::array<Count, operands> relevant{};  // of the input, those along an axis are apart
    std::array<Count, operands> copies{};
    std::array<Count, layer::sides> side{};
};

// Room in `machine` is without inputs and weights that lie whole there: how wide outputs are the chain decides.
struct Space {
    Space(Layer layer, Machine machine, std::array<Count, layer::loops> bounds,
          std::array<std::vector<bool>, operands> holds, std::array<double, operands> touched,
          const std::vector<std::vector<std::array<Count, layer::loops>>>& ways);

    Layer layer;
    Machine machine;        // for tiles
    Machine whole_machine;  // as it was given
    std::array<Count, layer::loops> bounds;
    std::array<Index, layer::loops> class_of{};
    std::array<Index, layer::sides> loop_of_side{};
    std::vector<Digit> digits;
    std::array<std::vector<bool>, operands> holds;     // level
    std::array<double, operands> touched;              // different elements that the layer uses
    std::array<std::vector<Index>, operands> above{};  // boundary: the level it is filled from, or none
    std::array<std::vector<std::array<Index, layer::moves>>, operands> port{};  // boundary, move
    std::vector<std::vector<Unrolled>> ways;                                    // dimension of the array
    std::array<BlockTable, 2> blocks;

    Index levels() const { return machine.on_chip(); }
    Index memories_of_outputs() const;
    double bits(Index operand) const { return static_cast<double>(layer.bits[operand]); }
    double shortest(Index level) const { return static_cast<double>(machine.levels[level].shortest.size()); }

    // Whether no access of sums is rounded up, and sums are added up at one boundary between memories only.
    bool sums_are_linear() const;

private:
    void check() const;
    void find_digits();
    void find_chains();
    void find_ports();
};

}  // namespace onchip::exact
