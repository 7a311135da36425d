// Conversion of a chain of tiles, with the orders of the loops between them, to a mapping.

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "exact_descent.hpp"

namespace onchip::exact {

namespace {

using Loops = std::vector<Nest::Loop>;

// Returns the loops between two tiles, by class.
std::array<Loops, classes> loops_between(const Space& space, const Tile& lower, const Tile& upper) {
    std::array<Loops, classes> found;
    for (Index loop = 0; loop < layer::loops; ++loop) {
        const Count size = upper.loops[loop] / lower.loops[loop];
        if (size > 1) found[space.class_of[loop]].push_back({loop, size, none});
    }
    return found;
}

// Writes a loop nest from the units outwards.
class Writer {
public:
    explicit Writer(std::unordered_map<Index, Loops> beside) : beside_(std::move(beside)) {}

    // Adds the loops above a tile: first its spatial loops, then `loops`.
    void add(Index tile, const Loops& loops) {
        spanned_.try_emplace(tile, static_cast<Index>(nest.loops.size()));
        const auto side = beside_.find(tile);
        if (side != beside_.end()) {
            nest.loops.insert(nest.loops.end(), side->second.begin(), side->second.end());
            beside_.erase(side);
        }
        nest.loops.insert(nest.loops.end(), loops.begin(), loops.end());
    }

    // Returns the number of loops that a tile spans.
    Index spanned(Index tile) const { return spanned_.at(tile); }

    Nest nest;

private:
    std::unordered_map<Index, Loops> beside_;
    std::unordered_map<Index, Index> spanned_;
};

}  // namespace

Nest Descent::nest() const {
    Writer writer(loops_beside());
    for (Index place = 0; place <= levels_; ++place) {
        const Index lower = chain_[place].tile, upper = chain_[place + 1].tile;
        if (lower == upper) continue;
        const Index inner = chain_[place].inner, outer = chain_[place].outer;
        const auto groups = loops_between(space_, tiling_.tiles[lower], tiling_.tiles[upper]);
        writer.add(lower, groups[inner]);
        if (inner == outer) continue;
        std::vector<Nest::Loop> others;
        for (Index own = 0; own < classes; ++own) {
            if (own != inner && own != outer) others.insert(others.end(), groups[own].begin(), groups[own].end());
        }
        others.insert(others.end(), groups[outer].begin(), groups[outer].end());
        writer.add(tile_spanning(lower, inner, upper), others);
    }
    writer.add(chain_.back().tile, {});
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index level = 0; level < levels_; ++level) {
            writer.nest.kept[operand].push_back(space_.holds[operand][level] ? writer.spanned(cut_[operand][level])
                                                                             : none);
        }
    }
    return std::move(writer.nest);
}

// Returns the spatial loops by the tile below them: the input's tile in the last memory below the first one that serves
// the dimension, so that spatial neighbours stay adjacent in every memory.
std::unordered_map<Index, std::vector<Nest::Loop>> Descent::loops_beside() const {
    struct Placed {
        Index below = 0;   // the tile below
        Index passed = 0;  // number of memories that do not serve the dimension
        Index along = 0;
    };
    std::vector<Placed> found;
    for (Index along = 0; along < static_cast<Index>(space_.ways.size()); ++along) {
        Placed one{0, 0, along};
        Index boundary = 0;
        for (Index level = space_.above[layer::input][0];; level = space_.above[layer::input][boundary]) {
            if (space_.machine.levels[level].serves[along]) break;
            ++one.passed;
            if (level == space_.machine.home[layer::input]) break;
            one.below = cut_[layer::input][level];
            boundary = level + 1;
        }
        found.push_back(one);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Placed& one, const Placed& other) { return one.passed < other.passed; });
    std::unordered_map<Index, Loops> placed;
    for (const auto& [below, passed, along] : found) {
        const Unrolled& way = space_.ways[along][tiling_.way[along]];
        for (Index loop = 0; loop < layer::loops; ++loop) {
            if (way.sizes[loop] > 1) placed[below].push_back({loop, way.sizes[loop], along});
        }
    }
    return placed;
}

}  // namespace onchip::exact
