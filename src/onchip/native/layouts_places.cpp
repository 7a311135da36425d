// Where an operand can be placed in a layout, and what leaves for it.

#include <cmath>

#include "layouts.hpp"
#include "words.hpp"

namespace onchip::layouts {

namespace {

constexpr double distance_to_the_edge = 5.0;

}  // namespace

std::uint64_t Beam::key_of(const Resident& one) {
    const std::uint64_t flags = (one.is_copied ? 1u : 0u) + (one.is_idle ? 2u : 0u);
    const std::uint64_t place = mixed(static_cast<std::uint64_t>(one.start) * 4 + flags + 1);
    return mixed((static_cast<std::uint64_t>(one.tensor) + 1) * 0x9e3779b97f4a7c15ULL + place);
}

Cost Beam::leaving(const Resident& one) const {
    const Tensor& tensor = problem_.tensors[one.tensor];
    if (one.is_idle || one.is_new) return 0;
    return tensor.load + (one.is_copied ? 0 : tensor.store);
}

Bytes Beam::start_after(const Layout& layout, Index place) const {
    return place < static_cast<Index>(layout.residents.size()) ? layout.residents[place].start : problem_.capacity;
}

Resident Beam::placed(const Use& use, Bytes start) const {
    return {use.tensor, start, start + problem_.tensors[use.tensor].size, !use.is_written, false, true, true};
}

// The largest operand that is not there yet, none if all are.
Index Beam::missing_use(const Layout& layout) const {
    const std::vector<Use>& uses = problem_.steps[step_];
    for (Index use = 0; use < static_cast<Index>(uses.size()); ++use) {
        bool is_there = false;
        for (const Resident& one : layout.residents) is_there = is_there || one.tensor == uses[use].tensor;
        if (!is_there) return use;
    }
    return none;
}

// False if nothing is missing.
bool Beam::list_children(Index number) {
    const Layout& layout = layouts_[number];
    const Index use = missing_use(layout);
    if (use == none) {
        children_.push_back({layout.cost, -1.0, layout.key, 0, number, none, 0, 0, Move::nothing});
        return false;
    }
    if (!list_places(number, use)) add_stack(number);
    return true;
}

// Each least run of neighbours, often none, without which there is room; operands do not leave. False if none is.
bool Beam::list_places(Index number, Index use) {
    const Layout& layout = layouts_[number];
    const Bytes size = problem_.tensors[problem_.steps[step_][use].tensor].size;
    const auto count = static_cast<Index>(layout.residents.size());
    Index stop = 0;
    Cost cost = 0;
    bool has_any = false;
    for (Index first = 0; first <= count; ++first) {
        if (stop < first) {
            stop = first;
            cost = 0;
        }
        const Bytes low = aligned(end_before(layout, first));
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
    return has_any;
}

// At the lower and at the upper end of the room between two that stay.
void Beam::add_places(Index number, Index use, Index first, Index stop, Cost cost) {
    const Layout& layout = layouts_[number];
    if (layout.cost + cost > dearest_) return;
    const Bytes size = problem_.tensors[problem_.steps[step_][use].tensor].size;
    const Bytes low = aligned(end_before(layout, first));
    const Bytes high = (start_after(layout, stop) - size) / problem_.alignment * problem_.alignment;
    add_place(number, use, first, stop, cost, low);
    if (high > low) add_place(number, use, first, stop, cost, high);
}

void Beam::add_place(Index number, Index use, Index first, Index stop, Cost cost, Bytes start) {
    const Layout& layout = layouts_[number];
    std::uint64_t key = layout.key + key_of(placed(problem_.steps[step_][use], start));
    for (Index place = first; place < stop; ++place) key -= key_of(layout.residents[place]);
    const double chance = static_cast<double>(mixed(key ^ seed_) >> 11) * 0x1p-53;
    const double tie = chance * (1.0 + mismatch(layout, use, first, stop, start));
    children_.push_back({layout.cost + cost, tie, key, start, number, use, first, stop, Move::place});
}

// How many steps lie between its end and that of what it touches: what leaves together leaves one gap.
double Beam::mismatch(const Layout& layout, Index use, Index first, Index stop, Bytes start) const {
    const Use& mine = problem_.steps[step_][use];
    const auto between = [&](const Resident& other) {
        return std::fabs(static_cast<double>((other.is_idle ? step_ : until_[other.tensor]) - mine.until));
    };
    const bool is_low = start == aligned(end_before(layout, first));
    const bool is_high = start + problem_.tensors[mine.tensor].size + problem_.alignment > start_after(layout, stop);
    double least = HUGE_VAL;
    if (is_low) least = first ? between(layout.residents[first - 1]) : distance_to_the_edge;
    if (is_high) {
        const bool is_edge = stop == static_cast<Index>(layout.residents.size());
        least = std::fmin(least, is_edge ? distance_to_the_edge : between(layout.residents[stop]));
    }
    return least;
}

// All leave, and the operands are stacked: there is always room for that.
void Beam::add_stack(Index number) {
    const Layout& layout = layouts_[number];
    Cost cost = layout.cost;
    for (const Resident& one : layout.residents) cost += leaving(one);
    const std::uint64_t key = mixed(layout.key + static_cast<std::uint64_t>(step_));
    children_.push_back({cost, 0.0, key, 0, number, none, 0, 0, Move::stack});
}

}  // namespace onchip::layouts
