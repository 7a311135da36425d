// Bounds of one way: cost tables of the tiles that fit, the least value over all chains, criteria, and floors.

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "exact.hpp"

namespace onchip::exact {

using layer::input;
using layer::output;
using layer::read_for_below;
using layer::weight;
using layer::write_from_above;
using layer::write_from_below;

Prices::Prices(const Tiling& tiling, Index criteria)
    : tiling_(tiling), space_(tiling.space), levels_(space_.levels()), fixed_(static_cast<std::size_t>(criteria)) {}

void Prices::make_room() {
    const std::size_t tiles = tiling_.tiles.size(), levels = static_cast<std::size_t>(levels_);
    barred_.resize(levels, tiles);
    ended_.resize(tiles);
    due_.resize(tiles);
    busy_.resize(operands * levels * layer::moves, tiles);
    term_.resize(fixed_.size() * operands * levels, tiles);
    run_.resize(fixed_.size() * levels * operands * levels, tiles);
    best_.resize(fixed_.size() * levels, tiles);
}

void Prices::measure(Index complete_from) {
    for (Index level = 0; level < levels_; ++level) {
        const layer::Level& memory = space_.machine.levels[level];
        const auto capacity = static_cast<double>(memory.capacity_bits);
        std::array<double, operands> bits{};
        for (Index operand = 0; operand < operands; ++operand)
            bits[operand] = tiling_.own_bits(operand, level, complete_from);
        double whole = 0.0;
        if (space_.machine.home[output] == level)
            whole = static_cast<double>(space_.layer.elements[output]) * bits[output];
        for (Index tile = 0; tile <= tiling_.last(); ++tile) {
            double need = whole;
            for (Index operand = 0; operand < operands; ++operand) {
                if (!space_.holds[operand][level]) continue;
                const bool changes = tiling_.whole().relevant[operand] > tiling_.tiles[tile].relevant[operand];
                const double copies = memory.is_double_buffered && changes ? 2.0 : 1.0;
                need += copies * bits[operand] * tiling_.largest(operand, level + 1, tile, false);
            }
            barred_[level][tile] = need <= capacity ? 0.0 : infinite;
        }
    }
}

void Prices::time_moves(Index complete_from) {
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index move = 0; move < layer::moves; ++move) {
            const bool has_units = operand != weight || space_.layer.has_weight;
            unit_busy_[operand][move] = has_units ? busy_cycles(operand, 0, 0, move, 0.0) : 0.0;
            for (Index level = 0; level < levels_; ++level) {
                if (!space_.holds[operand][level]) continue;
                const double bits_below = tiling_.own_bits(operand, level, complete_from);
                double* own = busy_[busy_row(operand, level, move)];
                for (Index tile = 0; tile <= tiling_.last(); ++tile)
                    own[tile] = busy_cycles(operand, level + 1, tile, move, bits_below);
            }
        }
    }
}

// Returns the cycles of the port that makes the transfer; 0 without a port.
double Prices::busy_cycles(Index operand, Index boundary, Index tile, Index move, double bits_below) const {
    const Index port = space_.port[operand][boundary][move];
    if (port == none) return 0.0;
    const auto each = static_cast<double>(space_.machine.bits_per_cycle[port].size());
    if (move != read_for_below && move != write_from_below)
        return std::ceil(tiling_.largest(operand, boundary, tile, false) * bits_below / each);
    const double bits = operand == output ? tiling_.bits_of_sums(boundary, tile) : space_.bits(operand);
    return std::ceil(tiling_.largest(operand, boundary, tile, true) * bits / each);
}

double Prices::find_least(Index at, const Criterion& criterion, Index complete_from) {
    if (criterion.is_energy()) {
        price_reads(at);
        price_sums(at, complete_from);
    } else {
        price_cycles(at, criterion, complete_from);
    }
    return link(at);
}

bool Prices::may_take_less(Index first, Index last, double limit) {
    const double reads = price_reads(0);
    for (Index complete_from = first; complete_from <= last; ++complete_from) {
        if (reads + price_sums(0, complete_from) >= limit) continue;
        measure(complete_from);
        if (link(0) < limit) return true;
    }
    return false;
}

// Tabulates the energy of inputs and weights, and sets the constant of the units; these do not depend on
// `complete_from`. Returns the sum of the minima over boundaries, a lower bound.
double Prices::price_reads(Index at) {
    double fixed = space_.layer.mac_energy_pj + tiling_.energy_of_reads(input, 0, 0);
    if (space_.layer.has_weight) fixed += tiling_.energy_of_reads(weight, 0, 0);
    fixed_[at] = fixed + tiling_.energy_of_sums(0, 0, 0.0, 0.0);
    double found = fixed_[at];
    for (const Operand operand : {input, weight}) {
        for (Index level = 0; level < levels_; ++level) {
            if (!space_.holds[operand][level]) continue;
            double* own = term(at, operand, level);
            double least = infinite;
            for (Index tile = tiling_.last(); tile >= 0; --tile) {
                own[tile] = read_price(own, operand, level, tile);
                least = std::min(least, own[tile]);
            }
            found += least;
        }
    }
    return found;
}

// Returns the energy scaled from that of the tile with all loops along which the operand is constant, which is listed
// before.
double Prices::read_price(const double* own, Index operand, Index level, Index tile) const {
    const Tile& one = tiling_.tiles[tile];
    const Index spanning = tile - one.part[operand] + tiling_.whole().part[operand];
    if (tile != spanning) return own[spanning] * (tiling_.whole().of_class[operand] / one.of_class[operand]);
    const auto capacity = static_cast<double>(space_.machine.levels[level].capacity_bits);
    if (tiling_.largest(operand, level + 1, tile, false) * space_.bits(operand) > capacity) return infinite;
    return tiling_.energy_of_reads(operand, level + 1, tile);
}

// Tabulates the energy of outputs, without the units. Returns the sum of the minima over boundaries.
double Prices::price_sums(Index at, Index complete_from) {
    double saved = tiling_.price_of_return(0, tiling_.bits_of_sums(0, 0)), found = 0.0;
    for (Index level = 0; level < levels_; ++level) {
        if (!space_.holds[output][level]) continue;
        const double bits = tiling_.own_bits(output, level, complete_from);
        const double room = static_cast<double>(space_.machine.levels[level].capacity_bits) / bits;
        const std::optional<bool> is_out = pending_elsewhere(output, level, complete_from);
        double* own = term(at, output, level);
        double least = infinite;
        for (Index tile = 0; tile <= tiling_.last(); ++tile) {
            own[tile] = infinite;
            if (is_out != tiling_.is_pending(level + 1, tile) &&
                tiling_.largest(output, level + 1, tile, false) <= room)
                own[tile] = tiling_.energy_of_sums(level + 1, tile, bits, saved);
            least = std::min(least, own[tile]);
        }
        found += least;
        saved += tiling_.price_of_return(level + 1, bits);
    }
    return found;
}

// Returns the state of sums (true: pending) that belongs to another `complete_from`; none if both are allowed. Below
// the last memory with incomplete sums, sums may leave a memory complete or not.
std::optional<bool> Prices::pending_elsewhere(Index operand, Index level, Index complete_from) const {
    if (operand != output) return std::nullopt;
    Index number = 0;
    for (Index below = 0; below <= level; ++below) number += space_.holds[output][below];
    if (number < complete_from - 1) return std::nullopt;
    return number >= complete_from;
}

// Tabulates the cost of the boundary above each level for each tile, and of the units.
void Prices::price_cycles(Index at, const Criterion& criterion, Index complete_from) {
    fixed_[at] = fixed_cycles(criterion);
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index level = 0; level < levels_; ++level) {
            if (!space_.holds[operand][level]) continue;
            double* own = term(at, operand, level);
            add_moves(criterion, operand, level, own);
            const std::optional<bool> is_out = pending_elsewhere(operand, level, complete_from);
            for (Index tile = 0; is_out && tile <= tiling_.last(); ++tile) {
                if (tiling_.is_pending(level + 1, tile) == *is_out) own[tile] = infinite;
            }
        }
    }
}

// Returns the cycles of the loops, with the stalls or busy cycles of the port due to the units.
double Prices::fixed_cycles(const Criterion& criterion) const {
    const double loops = tiling_.whole().iterations;
    double found = criterion.kind == Kind::busy ? 0.0 : loops;
    if (criterion.kind == Kind::no_stall) return found;
    for (Index operand = 0; operand < operands; ++operand) {
        for (Index move = 0; move < layer::moves; ++move) {
            if (space_.port[operand][0][move] != criterion.port) continue;
            const bool begins = operand == output && move == read_for_below;
            const double times = loops - (begins ? tiling_.whole().relevant[output] : 0.0);
            const double busy = unit_busy_[operand][move];
            found += times * (criterion.kind == Kind::waiting ? std::max(busy - 1.0, 0.0) : busy);
        }
    }
    return found;
}

// Tabulates lower bounds on the cost of the boundary above a level: waits or busy cycles of a port, preloading,
// offloading.
void Prices::add_moves(const Criterion& criterion, Index operand, Index level, double* own) const {
    const bool is_double_buffered = space_.machine.levels[level].is_double_buffered;
    const bool is_waiting = criterion.kind == Kind::waiting, is_stall = is_waiting || criterion.kind == Kind::busy;
    const bool is_chained = operand == output || operand == criterion.preload;
    const Tile& whole = tiling_.whole();
    for (Index tile = 0; tile <= tiling_.last(); ++tile) {
        const Tile& one = tiling_.tiles[tile];
        const double episodes = whole.iterations / one.iterations;
        const double window = one.relevant[operand] == 1 && !is_double_buffered ? 1.0 : one.iterations;
        double found = 0.0, slowest = 0.0;
        for (Index move = 0; move < layer::moves; ++move) {
            const Index used = space_.port[operand][level + 1][move];
            if (used == none) continue;
            const double cycles = busy(operand, level, move, tile);
            const bool returns = is_return(operand, move);
            if (is_stall && used == criterion.port) {
                const double first = returns ? whole.relevant[operand] / one.relevant[operand] : 1.0;
                found += (is_waiting ? std::max(cycles - window, 0.0) : cycles) * (episodes - first);
            }
            if (returns) continue;
            slowest = std::max(slowest, cycles);
            if (operand != output && criterion.preload == first_port + used) found += cycles;
        }
        own[tile] = found + (is_chained ? slowest : 0.0);
    }
}

// The least value of a criterion over all chains of tiles of one way: dynamic programming over the memory levels.

namespace {

void add(Index count, const double* one, const double* other, double* sums) {
    for (Index tile = 0; tile < count; ++tile) sums[tile] = one[tile] + other[tile];
}

}  // namespace

double Prices::link(Index at) {
    const Index count = tiling_.last() + 1;
    for (Index level = 0; level < levels_; ++level) {
        double* ended = ended_.data();
        const double* barred = barred_[level];
        if (level == 0)
            std::copy(barred, barred + count, ended);
        else
            add(count, barred, best(at, level - 1), ended);
        for (Index operand = 0; operand < operands; ++operand) {
            for (Index first = 0; first < level; ++first) {
                if (space_.holds[operand][first]) go_on(at, level, operand, first, run(at, level - 1, operand, first));
            }
            if (space_.holds[operand][level]) go_on(at, level, operand, level, ended);
        }
        for (Index operand = 0; operand < operands; ++operand) {
            if (!space_.holds[operand][level]) continue;
            const double* own = term(at, operand, level);
            add(count, ended, own, ended);
        }
        end_runs(at, level, ended);
        double* least = best_[at * levels_ + level];
        std::copy(ended, ended + count, least);
        spread(least, no_class);
    }
    return levels_ == 0 ? fixed_[at] : fixed_[at] + best(at, levels_ - 1)[count - 1];
}

// Continues a run that begins at level `first`, with further loops of its class; only the other operands are paid yet.
void Prices::go_on(Index at, Index level, Index operand, Index first, const double* before) {
    const Index count = tiling_.last() + 1;
    double* open = run_[run_row(at, level, operand, first)];
    add(count, barred_[level], before, open);
    for (Index other = 0; other < operands; ++other) {
        if (other == operand || !space_.holds[other][level]) continue;
        const double* own = term(at, other, level);
        add(count, open, own, open);
    }
    spread(open, operand);
}

// Pays for open runs at the tile at which they end.
void Prices::end_runs(Index at, Index level, double* ended) {
    const Index count = tiling_.last() + 1;
    double* due = due_.data();
    for (Index operand = 0; operand < operands; ++operand) {
        std::fill(due, due + count, 0.0);
        for (Index first = level; first >= 0; --first) {
            if (!space_.holds[operand][first]) continue;
            const double* own = term(at, operand, first);
            add(count, due, own, due);
            const double* open = run(at, level, operand, first);
            for (Index tile = 0; tile < count; ++tile) ended[tile] = std::min(ended[tile], open[tile] + due[tile]);
        }
    }
}

// Sets each tile's value to the minimum over the tiles inside it that differ by loops of one class (`no_class`: any).
void Prices::spread(double* values, Index loops_of) const {
    const Index count = tiling_.last() + 1;
    for (std::size_t digit = 0; digit < space_.digits.size(); ++digit) {
        const Index own = space_.class_of[space_.digits[digit].loop];
        if (loops_of != no_class && loops_of != own) continue;
        const Index stride = tiling_.stride[digit], copies = tiling_.radix[digit] - 1;
        for (Index start = 0; start < count; start += stride * (copies + 1)) {
            for (Index copy = 0; copy < copies; ++copy) {
                const double* __restrict__ inside = values + start + copy * stride;
                double* __restrict__ around = values + start + (copy + 1) * stride;
                for (Index tile = 0; tile < stride; ++tile) around[tile] = std::min(around[tile], inside[tile]);
            }
        }
    }
}

// The criteria of a way: candidates and selection.

namespace {

constexpr std::size_t most_time_criteria = 4;  // at once
// Work per tile and level.
constexpr Count tables_of_moves = 8, tables_of_a_criterion = 4;

}  // namespace

WaySearch::WaySearch(const Space& space, Objective objective)
    : space_(space),
      objective_(objective),
      sums_are_linear_(space.sums_are_linear()),
      tiling_(space),
      prices_(tiling_, objective == Objective::energy ? 1 : 1 + static_cast<Index>(most_time_criteria)),
      descent_(tiling_, prices_, objective) {
    list_criteria();
    const auto most = std::min(criteria_.size(), static_cast<std::size_t>(prices_.criteria()));
    used_.assign(criteria_.begin(), criteria_.begin() + static_cast<std::ptrdiff_t>(most));
}

// Lists the criteria: for cycles, each pair of a stall (none, waiting, busy) and a preload.
void WaySearch::list_criteria() {
    if (objective_ != Objective::latency) criteria_.push_back({Kind::energy, none, none});
    if (objective_ == Objective::energy) return;
    std::set<Index> ports;
    for (const layer::Level& level : space_.machine.levels) ports.insert(level.port.begin(), level.port.end());
    ports.erase(none);
    std::vector<Criterion> stalls{{Kind::no_stall, none, none}};
    for (const Kind kind : {Kind::waiting, Kind::busy}) {
        for (const Index port : ports) stalls.push_back({kind, port, none});
    }
    const std::vector<Index> first = preloads();
    for (const Criterion& stall : stalls) {
        for (const Index preload : first) criteria_.push_back({stall.kind, stall.port, preload});
    }
}

// Lists the preloads, without ports that preload a single operand: the operand's own preload takes at least as long.
std::vector<Index> WaySearch::preloads() const {
    std::vector<std::set<Index>> users(space_.machine.bits_per_cycle.size());
    const auto use = [&](Index port, Index operand) {
        if (port != none) users[port].insert(operand);
    };
    for (const layer::Operand operand : {input, weight}) {
        bool is_first = true;
        for (Index level = 0; level < space_.levels(); ++level) {
            if (!space_.holds[operand][level]) continue;
            use(space_.machine.levels[level].port[write_from_above], operand);
            if (!is_first) use(space_.machine.levels[level].port[read_for_below], operand);
            is_first = false;
        }
        if (!is_first) use(space_.machine.levels.back().port[read_for_below], operand);
    }
    std::vector<Index> found{input, weight};
    for (std::size_t port = 0; port < users.size(); ++port) {
        if (users[port].size() > 1) found.push_back(first_port + static_cast<Index>(port));
    }
    return found;
}

void WaySearch::list(std::span<const Index> way) {
    tiling_.choose(way);
    tiling_.list_tiles();
    prices_.make_room();
    entries_ += static_cast<Count>(tiling_.tiles.size());
}

void WaySearch::fill_tables(Index complete_from) {
    prices_.measure(complete_from);
    prices_.time_moves(complete_from);
    entries_ += tables_of_moves * space_.levels() * static_cast<Count>(tiling_.tiles.size());
}

bool WaySearch::may_take_less(Index first, Index last, double limit) {
    entries_ += (last - first + 1) * tables_of_a_criterion * space_.levels() * static_cast<Count>(tiling_.tiles.size());
    return prices_.may_take_less(first, last, limit);
}

double WaySearch::least(Index at, const Criterion& criterion, Index complete_from) {
    entries_ += tables_of_a_criterion * space_.levels() * static_cast<Count>(tiling_.tiles.size());
    return prices_.find_least(at, criterion, complete_from);
}

bool WaySearch::may_be_below(std::span<const Index> way, double cycles, double limit) {
    list(way);
    if (objective_ == Objective::energy) return may_take_less(1, patterns(), limit);
    for (Index complete_from = 1; complete_from <= patterns(); ++complete_from) {
        if (is_below(complete_from, cycles, limit)) return true;
    }
    return false;
}

bool WaySearch::is_below(Index complete_from, double cycles, double limit) {
    fill_tables(complete_from);
    const bool times_energy = used_.front().is_energy() && used_.size() > 1;
    double factor = 1.0;
    for (std::size_t one = 0; one < used_.size(); ++one) {
        double value = least(0, used_[one], complete_from);
        if (times_energy && one == 0) {
            factor = value;
            value = cycles;
        }
        if (value * factor < limit) continue;
        const auto first = used_.begin() + (times_energy ? 1 : 0),
                   own = used_.begin() + static_cast<std::ptrdiff_t>(one);
        if (own > first) std::rotate(first, own, own + 1);
        return false;
    }
    return true;
}

bool WaySearch::prepare(std::span<const Index> way, Index complete_from, double limit, bool keeps_criteria) {
    if (complete_from == 1) list(way);
    if (objective_ == Objective::energy) {
        descent_.begin(used_);
        return may_take_less(complete_from, complete_from, limit);
    }
    fill_tables(complete_from);
    if (!keeps_criteria) select(complete_from);
    descent_.begin(used_);
    double energy = 1.0, cycles = 0.0;
    for (std::size_t one = 0; one < used_.size(); ++one) {
        const double found = least(static_cast<Index>(one), used_[one], complete_from);
        if (used_[one].is_energy())
            energy = found;
        else
            cycles = std::max(cycles, found);
    }
    return energy * cycles < limit;
}

// Selects the energy criterion, if any, and the highest of the others, with the longest preload.
void WaySearch::select(Index complete_from) {
    const Index scratch = prices_.criteria() - 1;
    std::vector<double> value;
    Index longest = none;
    double highest = 0.0;
    for (const Criterion& one : criteria_) {
        value.push_back(one.is_energy() ? std::numeric_limits<double>::infinity() : -1.0);
        if (one.is_energy() || (one.kind != Kind::no_stall && one.preload != longest)) continue;
        value.back() = least(scratch, one, complete_from);
        if (one.kind == Kind::no_stall && value.back() > highest) {
            longest = one.preload;
            highest = value.back();
        }
    }
    const auto most = std::min(criteria_.size(), static_cast<std::size_t>(prices_.criteria()));
    used_.clear();
    while (used_.size() < most) {
        const auto best = std::max_element(value.begin(), value.end());
        if (*best < 0) break;
        used_.push_back(criteria_[best - value.begin()]);
        *best = -1.0;
    }
}

// Lower bounds over all tilings, for each unrolling (way) of the array.

namespace {

constexpr Count entries_a_floor = 256;  // equivalent work

}  // namespace

std::optional<WaySearch::Floor> WaySearch::floor(std::span<const Index> way) {
    if (!tiling_.choose(way)) return std::nullopt;
    tiling_.list_ends();
    entries_ += entries_a_floor;
    return Floor{floor_of_energy(), objective_ == Objective::energy ? 0.0 : floor_of_cycles()};
}

// Returns the energy of the units' transfers plus one transfer of each element at every boundary.
double WaySearch::floor_of_energy() const {
    const double unit_bits = tiling_.bits_of_sums(0, 0), saved = tiling_.price_of_return(0, unit_bits);
    double energy = space_.layer.mac_energy_pj;
    for (Index operand = 0; operand < operands; ++operand) {
        if (operand == weight && !space_.layer.has_weight) continue;
        for (Index boundary = 0; boundary <= space_.levels(); ++boundary) {
            const Index upper = space_.above[operand][boundary];
            if (upper == none) continue;
            if (operand == output) {
                if (!sums_are_linear_) continue;
                const double bits = boundary - 1 == space_.above[output][0] ? unit_bits : space_.bits(output);
                energy += tiling_.energy_of_sums(boundary, boundary > 0 ? 1 : 0, bits, saved);
            } else if (boundary == 0) {
                energy += tiling_.energy_of_reads(operand, 0, 0);
            } else {
                const Share& own = tiling_.share[operand][boundary];
                const double bits = space_.touched[operand] * space_.bits(operand);
                const Index lower = boundary - 1;
                energy += bits / space_.shortest(upper) * space_.machine.levels[upper].read_pj * own.copies_above;
                energy += bits / space_.shortest(lower) * space_.machine.levels[lower].write_pj * own.copies;
            }
        }
    }
    return energy;
}

// Returns the maximum of two bounds: the loops plus the stalls of a port that serves the units, and the time of a port
// that moves each element once. The latter includes transfers before and after the loops, which take at least as long
// as the port's share of them.
double WaySearch::floor_of_cycles() const {
    const double loops = tiling_.whole().iterations;
    double longest = 0.0;
    for (Index port = 0; port < static_cast<Index>(space_.machine.bits_per_cycle.size()); ++port) {
        double busy = 0.0, waiting = 0.0;
        for (Index operand = 0; operand < operands; ++operand) {
            busy += busy_at_units(port, operand, waiting);
            for (Index boundary = 1; boundary <= space_.levels(); ++boundary)
                busy += busy_once(port, operand, boundary);
        }
        longest = std::max({longest, busy, loops + waiting});
    }
    return longest;
}

double WaySearch::busy_at_units(Index port, Index operand, double& waiting) const {
    double busy = 0.0;
    for (Index move = 0; move < layer::moves; ++move) {
        if (space_.port[operand][0][move] != port) continue;
        const double bits = operand == output ? tiling_.bits_of_sums(0, 0) : space_.bits(operand);
        const auto each = static_cast<double>(space_.machine.bits_per_cycle[port].size());
        const double once = std::ceil(bits * tiling_.largest(operand, 0, 0, true) / each);
        const bool begins = operand == output && move == read_for_below;
        const double times = tiling_.whole().iterations - (begins ? tiling_.whole().relevant[output] : 0.0);
        busy += once * times;
        waiting += std::max(once - 1.0, 0.0) * times;
    }
    return busy;
}

// Returns the cycles to move an operand once, over all its tiles, without returns of partial sums.
double WaySearch::busy_once(Index port, Index operand, Index boundary) const {
    double found = 0.0;
    for (Index move = 0; move < layer::moves; ++move) {
        if (space_.port[operand][boundary][move] != port || is_return(operand, move)) continue;
        const Count own_bits = space_.layer.bits[operand];
        const auto bits =
            static_cast<double>(operand == output ? std::min(own_bits, space_.layer.partial_bits) : own_bits);
        const bool is_upper = move == read_for_below || move == write_from_below;
        const auto each = static_cast<double>(space_.machine.bits_per_cycle[port].size());
        found += std::ceil(tiling_.moved_once(operand, boundary, is_upper) * bits / each);
    }
    return found;
}

}  // namespace onchip::exact
