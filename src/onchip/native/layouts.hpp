// Tensors, residencies, and layouts with their free places, for beam searches.
//
// A layout is the set of residents and their addresses between two operators.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "stop.hpp"

namespace onchip::layouts {

using Bytes = std::int64_t;
using Cost = std::int64_t;
using Index = std::int32_t;

inline constexpr Index none = -1;

// `store` is 0 if DRAM has a copy whenever the tensor could leave.
struct Tensor {
    Bytes size = 0;
    Cost load = 0;
    Cost store = 0;
};

// A residency at one address over the steps [start, stop).
struct Stay {
    Index tensor = none;
    Index start = 0;
    Index stop = 0;
    Bytes offset = 0;
};

struct Resident {
    Index tensor = none;
    Bytes start = 0;
    Bytes end = 0;
    Index until = none;      // last use up to which it should stay, by operator number; none without readers
    bool is_copied = false;  // DRAM has a copy
    bool is_idle = false;    // its eviction is charged
    bool is_operand = false;
    bool is_new = false;  // placed in this step
};

// The placements of all layouts as a shared tree; nodes without users are recycled.
class Trail {
public:
    struct Node {
        Index parent = none;
        Index step = 0;
        Index tensor = none;
        Index users = 1;
        Bytes start = 0;
    };

    Index add(Index parent, Index step, Index tensor, Bytes start);
    void share(Index node);
    void release(Index node);
    std::vector<Node> path_to(Index node) const;

private:
    std::vector<Node> nodes_;
    std::vector<Index> unused_;
};

// Writes residencies from a sequence of placements.
class Replay {
public:
    explicit Replay(std::vector<Stay>& stays) : stays_(stays) {}

    void use(Index tensor, Index step) {
        for (Open& one : open_) {
            if (one.resident.tensor == tensor) one.used = step;
        }
    }

    // Overlapping residents leave.
    void place(const Resident& placed, Index step) {
        close_if([&](const Open& one) { return one.resident.start < placed.end && placed.start < one.resident.end; });
        open_.push_back({placed, step, step});
    }

    // All residents leave; those placed in this step are dropped.
    void clear(Index step) {
        std::erase_if(open_, [&](const Open& one) { return one.since == step; });
        close_if([](const Open&) { return true; });
    }

    void end(Index tensor) {
        close_if([&](const Open& one) { return one.resident.tensor == tensor; });
    }

private:
    // A resident, its first step here, and its last use.
    struct Open {
        Resident resident;
        Index since = 0;
        Index used = 0;
    };

    template <typename Test>
    void close_if(const Test& test) {
        for (const Open& one : open_) {
            if (test(one)) stays_.push_back({one.resident.tensor, one.since, one.used + 1, one.resident.start});
        }
        std::erase_if(open_, test);
    }

    std::vector<Stay>& stays_;
    std::vector<Open> open_;
};

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
