// Tiles of the input: they overlap along an axis, and are cut off at its end.

#include <algorithm>
#include <map>

#include "layer.hpp"

namespace onchip::layer {

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

}  // namespace onchip::layer
