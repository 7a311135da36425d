// The distinct orders of the loops between two tiles, by innermost and outermost class.

#include "exact_descent.hpp"

namespace onchip::exact {

// Returns true if loops of the class may be innermost between a tile and the one around it.
bool Descent::is_inner(Index inner, Index tile, Index around) const {
    if (tile == around || inner == no_loops) return tile == around && inner == no_loops;
    return tiling_.tiles[tile].part[inner] != tiling_.tiles[around].part[inner];
}

// Returns true if the class `outer` may be outermost, given the innermost class.
bool Descent::is_outer(Index inner, Index outer, Index tile, Index around) const {
    if (inner == no_loops || tile_spanning(tile, inner, around) == around) return inner == outer;
    return inner != outer && is_inner(outer, tile, around);
}

// Returns the operand that the memory above a place holds alone, if its run begins directly above that; else none. Then
// the loops below must include loops of the run's class that are not outermost: otherwise the tile could span the run.
Index Descent::sole_run(Index place) const {
    if (place == levels_) return none;
    const Index inner = chain_[place + 1].inner;
    Index held = 0;
    for (const auto& own : space_.holds) held += own[place];
    return held == 1 && inner != none && inner < no_class && space_.holds[inner][place] ? inner : none;
}

// Returns true if a run of the class directly above a place may keep a tile there or below.
bool Descent::lengthens(Index place, Index inner) const {
    if (inner >= no_class) return false;
    for (Index level = 0; level < place; ++level) {
        if (space_.holds[inner][level]) return true;
    }
    return false;
}

// Returns true if loops of the class directly below the next place narrow the window of a tile there or above.
bool Descent::narrows(Index place, Index outer) const {
    if (outer >= no_class) return false;
    for (Index level = place; level < levels_; ++level) {
        if (space_.holds[outer][level] && !space_.machine.levels[level].is_double_buffered) return true;
        const Index lower = chain_[level + 1].tile, upper = chain_[level + 2].tile;
        if (tile_spanning(lower, outer, upper) != upper) return false;
    }
    return false;
}

// Returns true if some class that narrows no window may be outermost.
bool Descent::has_free_outer(Index place, Index inner, Index tile) const {
    const Index around = chain_[place + 1].tile;
    for (Index outer = 0; outer <= no_loops; ++outer) {
        if (is_outer(inner, outer, tile, around) && !narrows(place, outer)) return true;
    }
    return false;
}

}  // namespace onchip::exact
