// Functions shared by both beams: free places in a layout, its residents after evictions, and selection of children.

#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "layouts.hpp"

namespace onchip::layouts {

inline constexpr double distance_to_the_edge = 5.0;
inline constexpr std::size_t children_kept_per_layout = 4;

inline Bytes aligned(Bytes address, Bytes alignment) {
    return (address + alignment - 1) / alignment * alignment;
}

// The free ranges between residents sorted by address.
class Room {
public:
    Room(std::span<const Resident> residents, Bytes capacity, Bytes alignment)
        : residents_(residents), capacity_(capacity), alignment_(alignment) {}

    // The lowest address above `count` residents, and the start of the resident with a number.
    Bytes start_behind(Index count) const { return aligned(count ? residents_[count - 1].end : 0, alignment_); }
    Bytes end_before(Index number) const { return number < count() ? residents_[number].start : capacity_; }

    // Calls `place(first, stop, cost, start)` for each minimal run of neighbours, often empty, whose eviction makes
    // room: at the lower and the upper end. Operands stay. Returns false if no run makes room.
    template <typename Leaving, typename Place>
    bool list_places(Bytes size, const Leaving& leaving, const Place& place) const {
        Index stop = 0;
        Cost cost = 0;
        bool has_any = false;
        for (Index first = 0; first <= count(); ++first) {
            if (stop < first) {
                stop = first;
                cost = 0;
            }
            const Bytes low = start_behind(first);
            while (stop < count() && end_before(stop) - low < size && !residents_[stop].is_operand) {
                cost += leaving(residents_[stop++]);
            }
            if (end_before(stop) - low >= size) {
                has_any = true;
                if (stop == first || end_before(stop) - start_behind(first + 1) < size) {
                    const Bytes high = (end_before(stop) - size) / alignment_ * alignment_;
                    place(first, stop, cost, low);
                    if (high > low) place(first, stop, cost, high);
                }
            }
            if (first < stop) cost -= leaving(residents_[first]);
        }
        return has_any;
    }

    // Returns the least distance `between` the placed tensor and its direct neighbours, without those from `first` to
    // `stop`. Tensors that leave together leave one gap.
    template <typename Between>
    double mismatch(Index first, Index stop, Bytes start, Bytes size, const Between& between) const {
        double least = HUGE_VAL;
        if (start == start_behind(first)) least = first ? between(residents_[first - 1]) : distance_to_the_edge;
        if (start + size + alignment_ > end_before(stop)) {
            least = std::fmin(least, stop == count() ? distance_to_the_edge : between(residents_[stop]));
        }
        return least;
    }

private:
    Index count() const { return static_cast<Index>(residents_.size()); }

    std::span<const Resident> residents_;
    Bytes capacity_;
    Bytes alignment_;
};

// Returns the residents with those from `first` to `stop` replaced by one.
inline std::vector<Resident> with_placed(const std::vector<Resident>& old, Index first, Index stop,
                                         const Resident& placed) {
    std::vector<Resident> found;
    found.reserve(old.size() + 1);
    found.assign(old.begin(), old.begin() + first);
    found.push_back(placed);
    found.insert(found.end(), old.begin() + stop, old.end());
    return found;
}

// Keeps the cheapest children for a beam of this width if there are more than `most`; sets the cost above which
// children need not be listed.
template <typename Child>
void shrink(std::vector<Child>& children, Index width, std::size_t most, Cost& dearest) {
    const std::size_t fewest = children_kept_per_layout * static_cast<std::size_t>(width);
    if (children.size() <= most) return;
    const auto last = children.begin() + static_cast<std::ptrdiff_t>(fewest) - 1;
    std::nth_element(children.begin(), last, children.end());
    dearest = last->cost;
    children.resize(fewest);
}

}  // namespace onchip::layouts
