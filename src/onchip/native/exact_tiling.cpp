// Unrollings (ways) and their tiles.

#include "exact_tiling.hpp"

namespace onchip::exact {

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

}  // namespace onchip::exact
