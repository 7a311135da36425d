// The possible places of an operand in a layout, and the evictions for it, for any next operator.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "layout_orders.hpp"
#include "words.hpp"

namespace onchip::layouts {

Cost OrderBeam::leaving(const Resident& one) const {
    if (one.is_new || one.is_idle) return 0;
    const Tensor& tensor = problem_.tensors[one.tensor];
    return tensor.load + (one.is_copied ? 0 : tensor.store);
}

Resident OrderBeam::placed(Index runs, Index use, Bytes start) const {
    const Index tensor = operands_[runs][use];
    const auto& writes = problem_.operators[runs].writes;
    const bool is_written = std::ranges::find(writes, tensor) != writes.end();
    return {tensor, start, start + problem_.tensors[tensor].size, until_[runs][use], !is_written, false, true, true};
}

// Returns the first operand that is not resident, or none.
Index OrderBeam::missing_use(const Layout& layout, std::span<const Resident> residents) const {
    const std::vector<Index>& operands = operands_[layout.runs];
    for (Index use = layout.placed; use < static_cast<Index>(operands.size()); ++use) {
        const bool is_there =
            std::ranges::any_of(residents, [&](const Resident& one) { return one.tensor == operands[use]; });
        if (!is_there) return use;
    }
    return none;
}

// Evicts all residents in the way of the pin, unless one is an operand.
void OrderBeam::list_pin(Index number, Index use) {
    const Layout& layout = begun_.list[number];
    const auto residents = begun_.of(layout);
    const Index tensor = operands_[layout.runs][use];
    const Bytes pin = problem_.pins[tensor], end = pin + problem_.tensors[tensor].size;
    Index first = 0;
    while (first < layout.count && residents[first].end <= pin) ++first;
    Cost cost = 0;
    Index stop = first;
    const Room room(residents, problem_.capacity, problem_.alignment);
    for (; room.end_before(stop) < end; ++stop) {
        if (residents[stop].is_operand) return;
        cost += leaving(residents[stop]);
    }
    add_place(number, use, first, stop, cost, pin);
}

// Operands stay, unless no place is left: then all residents are evicted and the operands are stacked, which always
// fits.
void OrderBeam::list_places(Index number, Index use) {
    const Layout& layout = begun_.list[number];
    const Room room(begun_.of(layout), problem_.capacity, problem_.alignment);
    const bool has_any = room.list_places(
        problem_.tensors[operands_[layout.runs][use]].size, [&](const Resident& one) { return leaving(one); },
        [&](Index first, Index stop, Cost cost, Bytes start) { add_place(number, use, first, stop, cost, start); });
    if (has_any || has_pins_) return;
    Cost all = layout.cost;
    for (const Resident& one : begun_.of(layout)) all += leaving(one);
    if (all <= dearest_) children_.push_back({all, 0.0, 0, number, none, 0, 0});
}

void OrderBeam::add_place(Index number, Index use, Index first, Index stop, Cost cost, Bytes start) {
    const Layout& layout = begun_.list[number];
    if (layout.cost + cost > dearest_) return;
    const Index tensor = operands_[layout.runs][use];
    const auto operator_or_now = [&](Index until) { return until == none ? steps_ : until; };
    const Index until = operator_or_now(until_[layout.runs][use]);
    const auto operators_between = [&](const Resident& other) {
        return std::fabs(static_cast<double>((other.is_idle ? steps_ : operator_or_now(other.until)) - until));
    };
    const Room room(begun_.of(layout), problem_.capacity, problem_.alignment);
    const double mismatch = room.mismatch(first, stop, start, problem_.tensors[tensor].size, operators_between);
    const std::uint64_t place = mixed((static_cast<std::uint64_t>(start) + 1) * 0x9e3779b97f4a7c15ULL +
                                      static_cast<std::uint64_t>(layout.node));
    const double chance = static_cast<double>(mixed(place ^ options_.seed) >> 11) * 0x1p-53;
    const double tie = layout.tie + chance * (1.0 + mismatch);
    children_.push_back({layout.cost + cost, tie, start, number, use, first, stop});
}

// Puts the operand with the most padding on top.
std::vector<Resident> OrderBeam::stacked_operands(Index runs) const {
    std::vector<Index> uses(operands_[runs].size());
    std::iota(uses.begin(), uses.end(), 0);
    const auto padding = [&](Index use) {
        const Bytes size = problem_.tensors[operands_[runs][use]].size;
        return aligned(size, problem_.alignment) - size;
    };
    std::ranges::stable_sort(uses, [&](Index one, Index other) { return padding(one) < padding(other); });
    std::vector<Resident> stacked;
    for (Index use : uses) {
        const Bytes end = stacked.empty() ? 0 : stacked.back().end;
        stacked.push_back(placed(runs, use, aligned(end, problem_.alignment)));
    }
    return stacked;
}

}  // namespace onchip::layouts
