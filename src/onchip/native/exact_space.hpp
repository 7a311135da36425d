// The search space of the exact mapper: the layer's prime factors, the memory hierarchy of each operand, and the
// unrollings (ways) of the array.
//
// A loop's class is the operand that is constant along it (K: input; N, P, Q: weight; C, R, S: output), or `no_class`
// (G). A boundary is the one above a level and has the level's number plus one; boundary 0 is above the units.

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

// Returns true for transfers that bring back partial sums; all other transfers are unavoidable.
inline bool is_return(Index operand, Index move) {
    return operand == layer::output && (move == layer::read_for_below || move == layer::write_from_above);
}

// A prime factor of a loop, with its multiplicity.
struct Digit {
    Index loop = 0;
    Index prime = 2;
    Index copies = 0;
};

// The number of stored positions that blocks along an axis touch.
struct BlockEntry {
    double total = 0.0;    // over all positions of the blocks
    double largest = 0.0;  // of a single block
    double fewest = 0.0;   // least number of transfers times the largest block moved, if parts may compose it
    layer::BlockSizes sizes;
};

// For every split of an axis's outputs and taps into those within a tile, spatially adjacent, and elsewhere.
class BlockTable {
public:
    BlockTable() = default;
    // At most `units` units are adjacent.
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
        std::vector<Index> place;  // position of a size in `sizes`
        std::size_t count = 0;
    };

    static Divisors divisors_of(Count bound);
    static std::size_t place(const Divisors& divisors, Count size) {
        return static_cast<std::size_t>(divisors.place[size]);
    }
    double fewest(const layer::Block& block) const;

    Divisors outputs_, taps_;
    std::vector<Index> entry_;  // by outputs within, outputs adjacent, taps within, taps adjacent
    std::vector<BlockEntry> entries_;
};

// An unrolling of loops along one dimension of the array: numbers of units with distinct and with equal elements of an
// operand.
struct Unrolled {
    std::array<Count, layer::loops> sizes{};
    std::array<Count, operands> relevant{};  // for the input, without loops along an axis
    std::array<Count, operands> copies{};
    std::array<Count, layer::sides> side{};
};

// Capacities in `machine` exclude inputs and weights stored whole. Whole outputs are not excluded: the chain decides
// their width.
struct Space {
    Space(Layer layer, Machine machine, std::array<Count, layer::loops> bounds,
          std::array<std::vector<bool>, operands> holds, std::array<double, operands> touched,
          const std::vector<std::vector<std::array<Count, layer::loops>>>& ways);

    Layer layer;
    Machine machine;        // capacities for tiles
    Machine whole_machine;  // as given
    std::array<Count, layer::loops> bounds;
    std::array<Index, layer::loops> class_of{};
    std::array<Index, layer::sides> loop_of_side{};
    std::vector<Digit> digits;
    std::array<std::vector<bool>, operands> holds;     // by level
    std::array<double, operands> touched;              // distinct elements that the layer uses
    std::array<std::vector<Index>, operands> above{};  // by boundary: the level that fills it, or none
    std::array<std::vector<std::array<Index, layer::moves>>, operands> port{};  // by boundary and move
    std::vector<std::vector<Unrolled>> ways;                                    // by dimension of the array
    std::array<BlockTable, 2> blocks;

    Index levels() const { return machine.on_chip(); }
    Index memories_of_outputs() const;
    double bits(Index operand) const { return static_cast<double>(layer.bits[operand]); }
    double shortest(Index level) const { return static_cast<double>(machine.levels[level].shortest.size()); }

    // Returns true if no access of sums is rounded up, and sums are reduced at a single boundary between memories.
    bool sums_are_linear() const;

private:
    void check() const;
    void find_digits();
    void find_chains();
    void find_ports();
};

}  // namespace onchip::exact
