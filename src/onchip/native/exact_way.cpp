// The criteria of a way: candidates and selection.

#include "exact_way.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace onchip::exact {

using layer::input;
using layer::output;
using layer::read_for_below;
using layer::weight;
using layer::write_from_above;

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

}  // namespace onchip::exact
