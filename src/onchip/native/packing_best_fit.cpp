// All that is placed stands in the order of offsets, so that one pass sees every gap.

#include "packing_best_fit.hpp"

#include <algorithm>
#include <stdexcept>

namespace onchip::packing {

namespace {

constexpr std::size_t buffers_between_looks = 64;
constexpr std::size_t at_once = 64;

// What is placed, in the order of offsets; where the next one above it may begin.
struct Shelf {
    std::vector<Index> starts, stops;
    std::vector<Units> offsets, ends;

    void insert(const Life& life, Units offset, Units end) {
        const auto place = std::upper_bound(offsets.begin(), offsets.end(), offset) - offsets.begin();
        starts.insert(starts.begin() + place, life.start);
        stops.insert(stops.begin() + place, life.stop);
        ends.insert(ends.begin() + place, end);
        offsets.insert(offsets.begin() + place, offset);
    }
};

// Calls with the number of each that lives with it; most do not, so many are looked at together first.
template <typename See>
void for_each_alive(const Shelf& shelf, const Life& life, See see) {
    const std::size_t count = shelf.starts.size();
    std::uint8_t alive[at_once];
    for (std::size_t first = 0; first < count; first += at_once) {
        const std::size_t some = std::min(at_once, count - first);
        const Index* starts = shelf.starts.data() + first;
        const Index* stops = shelf.stops.data() + first;
        std::uint8_t any = 0;
        for (std::size_t at = 0; at < some; ++at) {
            alive[at] = static_cast<std::uint8_t>((starts[at] < life.stop) & (life.start < stops[at]));
            any |= alive[at];
        }
        if (!any) continue;
        for (std::size_t at = 0; at < some; ++at) {
            if (alive[at]) see(first + at);
        }
    }
}

}  // namespace

BestFit::BestFit(std::vector<Life> lives, Units alignment) : lives_(std::move(lives)), alignment_(alignment) {
    const bool is_bad = std::any_of(lives_.begin(), lives_.end(), [](const Life& one) {
        return one.size < 1 || one.size > most_units || one.stop <= one.start;
    });
    if (is_bad || alignment < 1)
        throw std::invalid_argument("a buffer has a size and a life, an alignment is 1 or more");
}

std::vector<Units> BestFit::place(const std::vector<Index>& order, const StopToken& stop) const {
    std::vector<Units> offsets(lives_.size(), 0);
    Shelf shelf;
    for (std::size_t turn = 0; turn < order.size(); ++turn) {
        if (turn % buffers_between_looks == 0 && stop.is_asked()) return {};
        const std::size_t number = static_cast<std::size_t>(order[turn]);
        const Life& life = lives_.at(number);
        Units top = 0, best = -1, least_gap = most_units;
        for_each_alive(shelf, life, [&](std::size_t other) {
            const Units gap = shelf.offsets[other] - top;
            if (gap >= life.size && gap < least_gap) best = top, least_gap = gap;
            top = std::max(top, shelf.ends[other]);
        });
        offsets[number] = best < 0 ? top : best;
        shelf.insert(life, offsets[number], (offsets[number] + life.size + alignment_ - 1) / alignment_ * alignment_);
    }
    return offsets;
}

}  // namespace onchip::packing
