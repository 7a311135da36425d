// Addresses of stays during timing: disjoint rectangles of bytes by steps, and the cycle until which each byte is in
// use.
//
// Written tensors are placed first. Then each load takes the address at which it can start earliest, so that no load
// waits for fragmented room. See docs/latency.md.

#pragma once

#include <cstdint>
#include <vector>

namespace onchip::latency {

using Index = std::int32_t;
using Bytes = std::int64_t;
using Cycles = std::int64_t;

// When stays get addresses: never; during timing, with ties broken by the lowest or highest offset; or after timing in
// bytes.
enum class Placing : std::uint8_t { none, lowest, highest, afterwards };

struct Rectangle {
    Bytes offset = 0;
    Bytes bytes = 0;
    Index start = 0;  // half-open steps
    Index stop = 0;
};

struct FoundAddress {
    Bytes offset = -1;   // negative: not found
    Index position = 0;  // first step from which it is free
};

class AddressMap {
public:
    void clear(Bytes capacity_bytes, Placing placing);

    // Sets the rule for later placements.
    void choose(Placing placing) { placing_ = placing; }

    void put(const Rectangle& one);
    // Removes the rectangle with this lowest corner and these steps, and returns it; an empty one if not found.
    Rectangle remove(Bytes offset, Index start, Index stop);
    void extend(Bytes offset, Index start, Index stop, Index new_stop);

    bool is_free(const Rectangle& one) const;

    // Finds an address for `bytes` bytes over [needed, stop), free from `wanted` on or as early as possible after it.
    FoundAddress earliest(Bytes bytes, Index wanted, Index needed, Index stop);

private:
    void paint(Index wanted, Index needed, Index stop);
    void look(Bytes bytes, Index wanted, Index needed, bool is_above);

    Bytes capacity_bytes_ = 0;
    Placing placing_ = Placing::none;
    std::vector<Rectangle> all_;  // latest stop first
    // The rectangles that overlap the requested steps, and their edges in order, with 0 and the capacity.
    std::vector<Rectangle> beside_;
    std::vector<Bytes> edges_;
    // By range between two edges: the step from which it is free, and the next unpainted range.
    std::vector<Index> free_from_, next_;
    std::vector<std::size_t> latest_;
    FoundAddress best_;
};

// The cycle until which each byte is in use. Ranges are used in program order.
class BusyBytes {
public:
    void clear() { all_.assign(1, {0, 0}); }

    // Returns the cycle from which none of these bytes is in use.
    Cycles until(Bytes offset, Bytes bytes) const;
    // Marks these bytes as used until the given cycle, or until their latest use so far.
    void use(Bytes offset, Bytes bytes, Cycles until);

private:
    struct Range {
        Bytes offset = 0;  // up to the offset of the next range
        Cycles until = 0;
    };

    std::vector<Range>::const_iterator at(Bytes offset) const;

    std::vector<Range> all_ = {{0, 0}};
};

}  // namespace onchip::latency
