// Addresses of stays while they are timed: rectangles of bytes by steps, no two of which overlap.
//
// What is written has its place first; then each load takes the address at which it can begin earliest, so that no load
// waits for room that others leave in pieces. docs/latency.md says more.

#pragma once

#include <cstdint>
#include <vector>

namespace onchip::latency {

using Index = std::int32_t;
using Bytes = std::int64_t;

// Whether stays are placed; of addresses that are as good the lowest, or the highest.
enum class Placing : std::uint8_t { none, lowest, highest };

struct Rectangle {
    Bytes offset = 0;
    Bytes bytes = 0;
    Index start = 0;  // half-open steps
    Index stop = 0;
};

struct FoundAddress {
    Bytes offset = -1;   // below 0: there is none
    Index position = 0;  // the first step from which on it is free
};

class AddressMap {
public:
    void clear(Bytes capacity_bytes, Placing placing);

    // From now on, by this.
    void choose(Placing placing) { placing_ = placing; }

    void put(const Rectangle& one);
    // The rectangle with that lowest corner and these steps, if there is one.
    Rectangle remove(Bytes offset, Index start, Index stop);
    void extend(Bytes offset, Index start, Index stop, Index new_stop);

    bool is_free(const Rectangle& one) const;

    // For so many bytes over [needed, stop), free from `wanted` on if that can be, else as early as can be after it.
    FoundAddress earliest(Bytes bytes, Index wanted, Index needed, Index stop);

private:
    void paint(Index wanted, Index needed, Index stop);
    void look(Bytes bytes, Index wanted, Index needed, bool is_above);

    Bytes capacity_bytes_ = 0;
    Placing placing_ = Placing::none;
    std::vector<Rectangle> all_;  // the latest stop first
    std::vector<Bytes> edges_;    // of all, in order; 0 and the capacity among them
    // Of the range of bytes between two edges, the step from which on it is free; and where the next unpainted one is.
    std::vector<Index> free_from_, next_;
    std::vector<std::size_t> latest_;
    FoundAddress best_;
};

}  // namespace onchip::latency
