// The stalls of ports due to a partial chain of tiles, and the durations of its first and last transfers.
//
// Equals `model/layer/latency.py` for complete chains. With open inner places it is a lower bound.

#include <algorithm>

#include "exact_descent.hpp"

namespace onchip::exact {

using layer::output;
using layer::read_for_below;

// Counts the transfers of the units, and of the levels with tiles at `place` (the lowest filled one) or above.
void Descent::account(Index place) {
    std::fill(ports_.begin(), ports_.end(), Busy{});
    chained_.fill(0.0);
    for (Index operand = 0; operand < operands; ++operand) {
        add_units(operand);
        for (Index level = std::max(place - 1, 0); level < levels_; ++level) {
            if (space_.holds[operand][level]) add_level(operand, level, window_of(operand, level, place));
        }
    }
}

void Descent::add_units(Index operand) {
    for (Index move = 0; move < layer::moves; ++move) {
        const Index used = space_.port[operand][0][move];
        const double busy = prices_.unit_busy(operand, move);
        if (used == none || busy <= 0.0) continue;
        const bool begins = operand == output && move == read_for_below;
        const double times = tiling_.whole().iterations - (begins ? tiling_.whole().relevant[output] : 0.0);
        Busy& port = ports_[used];
        port.alone += std::max(busy - 1.0, 0.0) * times;
        port.busy += busy * times;
        port.is_always_open |= times > 0;
    }
}

// Adds the transfers at the boundary above a level.
void Descent::add_level(Index operand, Index level, double window) {
    const Index tile = cut_[operand][level];
    const Tile& one = tiling_.tiles[tile];
    const double episodes = tiling_.whole().iterations / one.iterations;
    const double returned = episodes - tiling_.whole().relevant[operand] / one.relevant[operand];
    double slowest = 0.0;
    for (Index move = 0; move < layer::moves; ++move) {
        const Index used = space_.port[operand][level + 1][move];
        if (used == none) continue;
        const double busy = prices_.busy(operand, level, move, tile);
        const double times = is_return(operand, move) ? returned : episodes - 1.0;
        Busy& port = ports_[used];
        port.alone += std::max(busy - window, 0.0) * times;
        port.busy += busy * times;
        if (is_return(operand, move)) continue;
        slowest = std::max(slowest, busy);
        if (operand != output) port.first += busy;
    }
    chained_[operand] += slowest;
}

// Returns the cycles of a tile's period in which the next tile may arrive. Open loops count as if they left the window
// wide.
double Descent::window_of(Index operand, Index level, Index filled) const {
    if (space_.machine.levels[level].is_double_buffered) return tiling_.tiles[cut_[operand][level]].iterations;
    double window = tiling_.tiles[chain_[level + 1].tile].iterations;
    for (Index place = level; place >= filled; --place) {
        const Index lower = chain_[place].tile, upper = chain_[place + 1].tile;
        if (lower == upper) continue;
        if (chain_[place].outer != operand) break;
        window /= tiling_.tiles[upper].of_class[operand] / tiling_.tiles[lower].of_class[operand];
        if (tile_spanning(lower, operand, upper) != upper) break;
    }
    return window;
}

// Returns the stalls of the port that waits longest. Exact for ports that serve no boundary further down.
double Descent::stall(Index place) {
    double longest = 0.0;
    for (const Busy& port : ports_) longest = std::max(longest, port.alone);
    for (std::size_t at = 0; at < ports_.size(); ++at) {
        const Busy& port = ports_[at];
        if (port.busy <= longest) continue;
        double covered = tiling_.whole().iterations;
        if (!port.is_always_open && lowest_[at] >= place - 1)
            covered = static_cast<double>(covered_cycles(static_cast<Index>(at), place));
        longest = std::max(longest, port.busy - covered);
    }
    return longest;
}

// Returns the cycles within the window of at least one repeated transfer of a port that does not serve the units.
Count Descent::covered_cycles(Index port, Index place) {
    const auto cycles = static_cast<Count>(tiling_.whole().iterations);
    windows_.clear();
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index level = std::max(place - 1, 0); level < levels_; ++level) {
            const Index tile = cut_[operand][level];
            const auto period = static_cast<Count>(tiling_.tiles[tile].iterations);
            if (!space_.holds[operand][level] || period == cycles || !uses(port, operand, level, tile)) continue;
            if (period == 1) return cycles;
            windows_.add({period, static_cast<Count>(window_of(operand, level, place))});
        }
    }
    return windows_.covered_cycles(cycles, layer::LastPeriod::has_no_window);
}

// Returns true if repeated transfers of the tile use the port.
bool Descent::uses(Index port, Index operand, Index level, Index tile) const {
    const Tile& one = tiling_.tiles[tile];
    const Tile& whole = tiling_.whole();
    const bool has_returns = whole.iterations / one.iterations > whole.relevant[operand] / one.relevant[operand];
    for (Index move = 0; move < layer::moves; ++move) {
        const bool is_used = space_.port[operand][level + 1][move] == port;
        if (is_used && prices_.busy(operand, level, move, tile) > 0 && (has_returns || !is_return(operand, move)))
            return true;
    }
    return false;
}

}  // namespace onchip::exact
