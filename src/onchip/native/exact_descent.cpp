// The branch and bound over the chains of one way, and its bounds.

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "exact.hpp"

namespace onchip::exact {

using layer::input;
using layer::output;
using layer::weight;

Descent::Descent(const Tiling& tiling, const Prices& prices, Objective objective)
    : tiling_(tiling),
      prices_(prices),
      space_(tiling.space),
      objective_(objective),
      levels_(space_.levels()),
      chain_(static_cast<std::size_t>(levels_) + 2),
      choices_(static_cast<std::size_t>(levels_) + 1),
      exponent_(space_.digits.size()),
      most_(space_.digits.size()),
      ports_(space_.machine.bits_per_cycle.size()),
      lowest_(ports_.size(), levels_) {
    for (auto& own : cut_) own.resize(static_cast<std::size_t>(levels_));
    for (Index level = levels_ - 1; level >= 0; --level) {
        for (const auto& own : space_.port) {
            for (const Index port : own[level + 1]) {
                if (port != none) lowest_[port] = level;
            }
        }
    }
}

void Descent::begin(std::span<const Criterion> criteria) {
    criteria_.assign(criteria.begin(), criteria.end());
    for (auto* one : {&paid_, &rest_, &value_}) one->assign(criteria_.size(), 0.0);
    depth_ = 0;
    chain_.back() = Place{tiling_.last(), none, none, none, 0};
    for (Choices& one : choices_) one.is_listed = false;
}

Step Descent::next(double limit, Count most_nodes, Count most_work, const StopToken& stop) {
    while (depth_ >= 0) {
        Choices& here = choices_[depth_];
        if (!here.is_listed) {
            if (stop.is_asked() || nodes_ >= most_nodes || work_ >= most_work) return Step::paused;
            ++nodes_;
            expand(limit);
        }
        if (here.next >= here.candidates.size() || here.candidates[here.next].bound >= limit) {
            here.is_listed = false;
            --depth_;
            continue;
        }
        const Candidate& chosen = here.candidates[here.next++];
        put(levels_ - depth_, chosen.tile, chosen.inner, chosen.outer);
        if (depth_ == levels_) return Step::leaf;
        ++depth_;
    }
    return Step::finished;
}

std::vector<double> Descent::bounds() const {
    std::vector<double> found;
    for (Index depth = 0; depth <= depth_; ++depth)
        found.push_back(choices_[depth].candidates[choices_[depth].next - 1].bound);
    return found;
}

// Lists the candidates for the next place, sorted by bound.
void Descent::expand(double limit) {
    const Index place = levels_ - depth_;
    if (objective_ != Objective::energy) account(place + 1);
    for (std::size_t at = 0; at < criteria_.size(); ++at) paid_[at] = paid(static_cast<Index>(at), place);
    Choices& here = choices_[depth_];
    here.is_listed = true;
    here.next = 0;
    here.candidates.clear();
    const Index around = chain_[place + 1].tile;
    for (std::size_t digit = 0; digit < most_.size(); ++digit) {
        most_[digit] = place > 0 ? around / tiling_.stride[digit] % tiling_.radix[digit] : 0;
        exponent_[digit] = 0;
    }
    Index tile = 0;
    do {
        if (place == 0 || prices_.fits(place - 1, tile)) try_orders(place, tile, limit);
    } while (next_inside(tile));
    std::stable_sort(here.candidates.begin(), here.candidates.end(),
                     [](const Candidate& one, const Candidate& other) { return one.bound < other.bound; });
}

// Advances to the next tile that divides the tile around it. Returns false after the last.
bool Descent::next_inside(Index& tile) {
    for (std::size_t digit = 0; digit < most_.size(); ++digit) {
        if (exponent_[digit] < most_[digit]) {
            ++exponent_[digit];
            tile += tiling_.stride[digit];
            return true;
        }
        tile -= exponent_[digit] * tiling_.stride[digit];
        exponent_[digit] = 0;
    }
    return false;
}

// Puts a tile at a place, with the order of the loops above it.
void Descent::put(Index place, Index tile, Index inner, Index outer) {
    const Place& above = chain_[place + 1];
    Place& here = chain_[place] = Place{tile, inner, outer, none, tile};
    if (tile == above.tile) {
        here.run_class = above.run_class;
        here.run_end = above.run_end;
    } else if (inner < no_class) {
        here.run_class = inner;
        here.run_end = tile_spanning(tile, inner, above.tile);
        if (here.run_end == above.tile && above.run_class == inner) here.run_end = above.run_end;
    }
    for (Index operand = 0; place > 0 && operand < operands; ++operand) {
        if (space_.holds[operand][place - 1])
            cut_[operand][place - 1] = here.run_class == operand ? here.run_end : tile;
    }
}

// Tries each pair of innermost and outermost classes with a distinct effect.
void Descent::try_orders(Index place, Index tile, double limit) {
    const Index around = chain_[place + 1].tile, sole = sole_run(place);
    if (sole != none && tiling_.tiles[tile].part[sole] == tiling_.tiles[around].part[sole]) return;
    unsigned seen = 0;
    for (Index inner = 0; inner <= no_loops; ++inner) {
        if (!is_inner(inner, tile, around)) continue;
        const bool has_free = objective_ == Objective::energy || has_free_outer(place, inner, tile);
        for (Index outer = 0; outer <= no_loops; ++outer) {
            if (outer == sole || !is_outer(inner, outer, tile, around)) continue;
            const bool narrow = objective_ != Objective::energy && narrows(place, outer);
            const Index effect = (lengthens(place, inner) ? inner : no_loops) * 5 + (narrow ? outer : no_loops);
            if ((narrow && has_free) || (seen >> effect & 1U) != 0) continue;
            seen |= 1U << effect;
            consider(place, {0.0, tile, inner, outer}, limit);
        }
    }
}

// Lists a tile with an order if its bound is below the limit: first by cost tables, then by port stalls.
void Descent::consider(Index place, const Candidate& candidate, double limit) {
    ++work_;
    put(place, candidate.tile, candidate.inner, candidate.outer);
    for (std::size_t one = 0; one < criteria_.size(); ++one) {
        const auto at = static_cast<Index>(one);
        rest_[one] = rest(at, place);
        double added = paid_[one] + rest_[one];
        for (Index operand = 0; place > 0 && operand < operands; ++operand) {
            if (space_.holds[operand][place - 1])
                added += prices_.term(at, operand, place - 1)[cut_[operand][place - 1]];
        }
        value_[one] = added;
    }
    if (joint() >= limit || (objective_ != Objective::energy && !raise_by_ports(place, limit))) return;
    choices_[levels_ - place].candidates.push_back({joint(), candidate.tile, candidate.inner, candidate.outer});
}

// Raises the bounds on cycles by the ports' transfers. Returns false if the limit is reached.
bool Descent::raise_by_ports(Index place, double limit) {
    account(place);
    const double waits = stall(place);
    double longest = std::max(chained_[input], chained_[weight]);
    for (const Busy& port : ports_) longest = std::max(longest, port.first);
    const double cycles = tiling_.whole().iterations + waits + longest + chained_[output];
    for (std::size_t one = 0; one < criteria_.size(); ++one) {
        if (criteria_[one].is_energy()) continue;
        double found = paid(static_cast<Index>(one), place - 1) + rest_[one];
        if (criteria_[one].kind == Kind::no_stall) found += waits;
        value_[one] = std::max({value_[one], found, cycles});
    }
    return joint() < limit;
}

// Combines the criteria into one value: energy, the greatest number of cycles, or their product.
double Descent::joint() const {
    double energy = 1.0, cycles = 0.0;
    for (std::size_t one = 0; one < criteria_.size(); ++one) {
        if (criteria_[one].is_energy())
            energy = value_[one];
        else
            cycles = std::max(cycles, value_[one]);
    }
    return objective_ == Objective::energy ? energy : energy * cycles;
}

// Returns the cost of the boundaries above the levels from `lowest` on. Cycles need a preceding `account`.
double Descent::paid(Index at, Index lowest) const {
    const auto [kind, port, preload] = criteria_[at];
    if (kind == Kind::energy) {
        double found = prices_.fixed(at);
        for (Index operand = 0; operand < operands; ++operand) {
            for (Index level = lowest; level < levels_; ++level) {
                if (space_.holds[operand][level]) found += prices_.term(at, operand, level)[cut_[operand][level]];
            }
        }
        return found;
    }
    double found = kind == Kind::busy ? 0.0 : tiling_.whole().iterations;
    if (kind == Kind::waiting) found += ports_[port].alone;
    if (kind == Kind::busy) found += ports_[port].busy;
    found += preload < first_port ? chained_[preload] : ports_[preload - first_port].first;
    return found + chained_[output];
}

// Returns a lower bound on the cost of the levels below the place's own, whether its run continues or not.
double Descent::rest(Index at, Index place) const {
    const Index level = place - 2;
    if (level < 0) return 0.0;
    const Place& here = chain_[place];
    double found = prices_.best(at, level)[here.tile], more = 0.0;
    if (here.run_class == none) return found;
    for (Index first = level; first >= 0; --first) {
        if (!space_.holds[here.run_class][first]) continue;
        more += prices_.term(at, here.run_class, first)[here.run_end];
        found = std::min(found, prices_.run(at, level, here.run_class, first)[here.tile] + more);
    }
    return found;
}

// The distinct orders of the loops between two tiles, by innermost and outermost class.

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

// The stalls of ports due to a partial chain of tiles, and the durations of its first and last transfers.
//
// Equals `model/layer/cost.py` for complete chains. With open inner places it is a lower bound.

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

// Conversion of a chain of tiles, with the orders of the loops between them, to a mapping.

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
