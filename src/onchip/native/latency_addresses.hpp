// Addresses of stays while they are timed: rectangles of bytes by steps, no two of which overlap.
//
// Beside them, until when the bytes of each are in use, in cycles.
//
// What is written has its place first; then each load takes the address at which it can begin earliest, so that no load
// waits for room that others leave in pieces. docs/latency.md says more.

#pragma once

#include <cstdint>
#include <vector>

namespace onchip::latency {

using Index = std::int32_t;
using Bytes = std::int64_t;
using Cycles = std::int64_t;

// Whether stays are placed while they are timed, of addresses that are as good at the lowest, or the highest; or when
// they have been timed in bytes.
enum class Placing : std::uint8_t { none, lowest, highest, afterwards };

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
    // Of those that may be beside what is looked for, and their edges in order; 0 and the capacity among them.
    std::vector<Rectangle> beside_;
    std::vector<Bytes> edges_;
    // Of the range of bytes between two edges, the step from which on it is free; and where the next unpainted one is.
    std::vector<Index> free_from_, next_;
    std::vector<std::size_t> latest_;
    FoundAddress best_;
};

// Each byte knows until when it is in use. Ranges of bytes are used in the order of the program.
class BusyBytes {
public:
    void clear() { all_.assign(1, {0, 0}); }

    // The cycle from which on none of these is in use.
    Cycles until(Bytes offset, Bytes bytes) const;
    // All of these are in use until that cycle, or for as long as one of them was before.
    void use(Bytes offset, Bytes bytes, Cycles until);

private:
    struct Range {
        Bytes offset = 0;  // up to the offset of the next
        Cycles until = 0;
    };

    std::vector<Range>::const_iterator at(Bytes offset) const;

    std::vector<Range> all_ = {{0, 0}};
};

}  // namespace onchip::latency
