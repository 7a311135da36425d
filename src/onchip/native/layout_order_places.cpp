// Where an operand can be placed in a layout, and what leaves for it, whatever runs next.

#include <algorithm>
#include <cmath>

#include "layout_orders.hpp"
#include "words.hpp"

namespace onchip::layouts {

namespace {

constexpr double distance_to_the_edge = 5.0;

}  // namespace

Cost OrderBeam::leaving(const Resident& one) const {
    if (one.is_new) return 0;
    const Tensor& tensor = problem_.tensors[one.tensor];
    return tensor.load + (one.is_copied ? 0 : tensor.store);
}

Bytes OrderBeam::start_after(const Layout& layout, Index place) const {
    return place < static_cast<Index>(layout.residents.size()) ? layout.residents[place].start : problem_.capacity;
}

Resident OrderBeam::placed(Index runs, Index tensor, Bytes start) const {
    const auto& writes = problem_.operators[runs].writes;
    const bool is_written = std::ranges::find(writes, tensor) != writes.end();
    return {tensor, start, start + problem_.tensors[tensor].size, !is_written, false, true, true};
}

// The first operand that is not there yet, none if all are.
Index OrderBeam::missing_use(const Layout& layout) const {
    const std::vector<Index>& operands = operands_[layout.runs];
    for (Index use = 0; use < static_cast<Index>(operands.size()); ++use) {
        const bool is_there =
            std::ranges::any_of(layout.residents, [&](const Resident& one) { return one.tensor == operands[use]; });
        if (!is_there) return use;
    }
    return none;
}

// All that is in the way of its pin leaves; operands do not.
void OrderBeam::list_pin(Index number, Index use) {
    const Layout& layout = begun_[number];
    const Index tensor = operands_[layout.runs][use];
    const Bytes pin = problem_.pins[tensor], end = pin + problem_.tensors[tensor].size;
    Index first = 0;
    while (first < static_cast<Index>(layout.residents.size()) && layout.residents[first].end <= pin) ++first;
    Cost cost = 0;
    Index stop = first;
    for (; start_after(layout, stop) < end; ++stop) {
        if (layout.residents[stop].is_operand) return;
        cost += leaving(layout.residents[stop]);
    }
    add_place(number, use, first, stop, cost, pin);
}

// Each least run of neighbours, often none, without which there is room; operands do not leave, unless no place is left
// else: then all leave, and the operands are stacked, for which there is always room.
void OrderBeam::list_places(Index number, Index use) {
    const Layout& layout = begun_[number];
    const Bytes size = problem_.tensors[operands_[layout.runs][use]].size;
    const auto count = static_cast<Index>(layout.residents.size());
    Index stop = 0;
    Cost cost = 0;
    bool has_any = false;
    for (Index first = 0; first <= count; ++first) {
        if (stop < first) {
            stop = first;
            cost = 0;
        }
        const Bytes low = aligned(first ? layout.residents[first - 1].end : 0);
        while (stop < count && start_after(layout, stop) - low < size && !layout.residents[stop].is_operand) {
            cost += leaving(layout.residents[stop++]);
        }
        if (start_after(layout, stop) - low >= size) {
            const bool is_least =
                stop == first || start_after(layout, stop) - aligned(layout.residents[first].end) < size;
            has_any = true;
            if (is_least) add_places(number, use, first, stop, cost);
        }
        if (first < stop) cost -= leaving(layout.residents[first]);
    }
    if (has_any || has_pins_) return;
    Cost all = layout.cost;
    for (const Resident& one : layout.residents) all += leaving(one);
    if (all <= dearest_) children_.push_back({all, 0.0, 0, number, none, 0, 0});
}

// At the lower and at the upper end of the room between two that stay.
void OrderBeam::add_places(Index number, Index use, Index first, Index stop, Cost cost) {
    const Layout& layout = begun_[number];
    const Bytes size = problem_.tensors[operands_[layout.runs][use]].size;
    const Bytes low = aligned(first ? layout.residents[first - 1].end : 0);
    const Bytes high = (start_after(layout, stop) - size) / problem_.alignment * problem_.alignment;
    add_place(number, use, first, stop, cost, low);
    if (high > low) add_place(number, use, first, stop, cost, high);
}

void OrderBeam::add_place(Index number, Index use, Index first, Index stop, Cost cost, Bytes start) {
    const Layout& layout = begun_[number];
    if (layout.cost + cost > dearest_) return;
    const Index tensor = operands_[layout.runs][use];
    const std::uint64_t place = mixed((static_cast<std::uint64_t>(start) + 1) * 0x9e3779b97f4a7c15ULL +
                                      static_cast<std::uint64_t>(layout.node));
    const double chance = static_cast<double>(mixed(place ^ options_.seed) >> 11) * 0x1p-53;
    const double tie = layout.tie + chance * (1.0 + mismatch(layout, tensor, first, stop, start));
    children_.push_back({layout.cost + cost, tie, start, number, use, first, stop});
}

// How many operators lie between its last reader and that of what it touches: what leaves together leaves one gap.
double OrderBeam::mismatch(const Layout& layout, Index tensor, Index first, Index stop, Bytes start) const {
    const auto last = [&](Index other) { return readers_[other].empty() ? steps_ : readers_[other].back(); };
    const auto between = [&](const Resident& other) {
        return std::fabs(static_cast<double>(last(other.tensor) - last(tensor)));
    };
    double least = HUGE_VAL;
    if (start == aligned(first ? layout.residents[first - 1].end : 0)) {
        least = first ? between(layout.residents[first - 1]) : distance_to_the_edge;
    }
    if (start + problem_.tensors[tensor].size + problem_.alignment > start_after(layout, stop)) {
        const bool is_edge = stop == static_cast<Index>(layout.residents.size());
        least = std::fmin(least, is_edge ? distance_to_the_edge : between(layout.residents[stop]));
    }
    return least;
}

// The one with the most padding goes on top.
void OrderBeam::stack_operands(Layout& layout) const {
    std::vector<Index> operands = operands_[layout.runs];
    const auto padding = [&](Index tensor) {
        const Bytes size = problem_.tensors[tensor].size;
        return aligned(size) - size;
    };
    std::ranges::stable_sort(operands, [&](Index one, Index other) { return padding(one) < padding(other); });
    layout.residents.clear();
    for (Index tensor : operands) {
        const Bytes start = aligned(layout.residents.empty() ? 0 : layout.residents.back().end);
        layout.residents.push_back(placed(layout.runs, tensor, start));
    }
}

}  // namespace onchip::layouts
