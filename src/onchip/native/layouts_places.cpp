// The possible places of an operand in a layout, and the evictions for it.

#include <cmath>

#include "layouts.hpp"
#include "layouts_room.hpp"
#include "words.hpp"

namespace onchip::layouts {

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

Resident Beam::placed(const Use& use, Bytes start) const {
    return {use.tensor, start, start + problem_.tensors[use.tensor].size, !use.is_written, false, true, true};
}

// Returns the largest operand that is not resident, or none.
Index Beam::missing_use(const Layout& layout) const {
    const std::vector<Use>& uses = problem_.steps[step_];
    for (Index use = 0; use < static_cast<Index>(uses.size()); ++use) {
        bool is_there = false;
        for (const Resident& one : layout.residents) is_there = is_there || one.tensor == uses[use].tensor;
        if (!is_there) return use;
    }
    return none;
}

// Returns false if no operand is missing.
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

// Returns false if no place exists.
bool Beam::list_places(Index number, Index use) {
    const Room room(layouts_[number].residents, problem_.capacity, problem_.alignment);
    return room.list_places(
        problem_.tensors[problem_.steps[step_][use].tensor].size, [&](const Resident& one) { return leaving(one); },
        [&](Index first, Index stop, Cost cost, Bytes start) { add_place(number, use, first, stop, cost, start); });
}

void Beam::add_place(Index number, Index use, Index first, Index stop, Cost cost, Bytes start) {
    const Layout& layout = layouts_[number];
    if (layout.cost + cost > dearest_) return;
    const Use& mine = problem_.steps[step_][use];
    std::uint64_t key = layout.key + key_of(placed(mine, start));
    for (Index place = first; place < stop; ++place) key -= key_of(layout.residents[place]);
    const auto steps_between = [&](const Resident& other) {
        return std::fabs(static_cast<double>((other.is_idle ? step_ : until_[other.tensor]) - mine.until));
    };
    const Room room(layout.residents, problem_.capacity, problem_.alignment);
    const double mismatch = room.mismatch(first, stop, start, problem_.tensors[mine.tensor].size, steps_between);
    const double chance = static_cast<double>(mixed(key ^ seed_) >> 11) * 0x1p-53;
    const double tie = chance * (1.0 + mismatch);
    children_.push_back({layout.cost + cost, tie, key, start, number, use, first, stop, Move::place});
}

// Evicts all residents and stacks the operands, which always fits.
void Beam::add_stack(Index number) {
    const Layout& layout = layouts_[number];
    Cost cost = layout.cost;
    for (const Resident& one : layout.residents) cost += leaving(one);
    const std::uint64_t key = mixed(layout.key + static_cast<std::uint64_t>(step_));
    children_.push_back({cost, 0.0, key, 0, number, none, 0, 0, Move::stack});
}

}  // namespace onchip::layouts
