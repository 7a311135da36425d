// The transfers of a tile at the boundary between two memories, and their energy.

#include <cmath>

#include "exact_tiling.hpp"

namespace onchip::exact {

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
