// Which orders of the loops between two tiles make a difference: who is innermost, who is outermost.

#include "exact_descent.hpp"

namespace onchip::exact {

// Whether loops of the class may be innermost between a tile and the one around it.
bool Descent::is_inner(Index inner, Index tile, Index around) const {
    if (tile == around || inner == no_loops) return tile == around && inner == no_loops;
    return tiling_.tiles[tile].part[inner] != tiling_.tiles[around].part[inner];
}

// Whether they may be outermost as well, with `inner` innermost.
bool Descent::is_outer(Index inner, Index outer, Index tile, Index around) const {
    if (inner == no_loops || tile_spanning(tile, inner, around) == around) return inner == outer;
    return inner != outer && is_inner(outer, tile, around);
}

// The operand that the memory above a place holds alone, if its run begins right above that; else none. Then the loops
// below need a part in the run's class that is not outermost: else the tile might span the run.
Index Descent::sole_run(Index place) const {
    if (place == levels_) return none;
    const Index inner = chain_[place + 1].inner;
    Index held = 0;
    for (const auto& own : space_.holds) held += own[place];
    return held == 1 && inner != none && inner < no_class && space_.holds[inner][place] ? inner : none;
}

// Whether a run of the class right above a place may keep a tile there or below.
bool Descent::lengthens(Index place, Index inner) const {
    if (inner >= no_class) return false;
    for (Index level = 0; level < place; ++level) {
        if (space_.holds[inner][level]) return true;
    }
    return false;
}

// Whether loops of the class right below the next place leave a tile there, or above, a narrower window.
bool Descent::narrows(Index place, Index outer) const {
    if (outer >= no_class) return false;
    for (Index level = place; level < levels_; ++level) {
        if (space_.holds[outer][level] && !space_.machine.levels[level].is_double_buffered) return true;
        const Index lower = chain_[level + 1].tile, upper = chain_[level + 2].tile;
        if (tile_spanning(lower, outer, upper) != upper) return false;
    }
    return false;
}

// Whether some class may be outermost that narrows no window.
bool Descent::has_free_outer(Index place, Index inner, Index tile) const {
    const Index around = chain_[place + 1].tile;
    for (Index outer = 0; outer <= no_loops; ++outer) {
        if (is_outer(inner, outer, tile, around) && !narrows(place, outer)) return true;
    }
    return false;
}

}  // namespace onchip::exact
