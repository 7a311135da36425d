// Heuristics that minimise the arena of many blocks: greedy placement, and repeated skyline filling in near n log n
// time.
//
// They prove nothing; `packing.hpp` proves optimality. docs/packing.md explains why each heuristic is fast.
//
// Terms. A section is a maximal set of blocks that are alive at once; a block is alive in the sections [first, stop).
// The load of a section is the sum of the sizes of its live blocks. Sizes are padded to the alignment, so sums of sizes
// are aligned offsets. The skyline has a height for each section: later blocks are placed at that height or above.

#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "stop.hpp"

namespace onchip::arena {

using Units = std::int64_t;
using Index = std::int32_t;

inline constexpr Index none = -1;
inline constexpr Units most_units = Units{1} << 60;

// `size` is padded and `used` is not: the arena ends at the largest offset plus used bytes. `steps` is the lifetime in
// steps.
struct Block {
    Index first = 0;
    Index stop = 0;
    Units size = 0;
    Units used = 0;
    Units steps = 0;
    Units fixed = none;  // the only legal offset, or none; only `place` and `offer` of ArenaSearch support fixed blocks
};

// Buffers as columns: half-open lifetimes in steps, sizes in bytes, and fixed offsets (`none` for a movable buffer).
struct Lives {
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> stops;
    std::vector<Units> sizes;
    std::vector<Units> fixed;
    Units alignment = 1;
};

// Converts lifetimes to sections and pads sizes. Throws std::invalid_argument if the columns differ in length.
std::vector<Block> blocks_of(const Lives& lives);

// Returns a lower bound on the arena: the most bytes alive at one step, padded except for the block with the most
// padding. Throws like `blocks_of`.
Units most_live(const Lives& lives);

// Returns the blocks if they are valid. Throws std::invalid_argument, with the entry, otherwise.
std::vector<Block> checked(std::vector<Block> blocks);

// Number of sections of the blocks.
Index sections_of(const std::vector<Block>& blocks);

enum class Gap { lowest, smallest };

// Sorted half-open ranges that neither overlap nor touch.
class Ranges {
public:
    struct Range {
        Units low = 0;
        Units high = 0;
    };

    void add(Range added);
    const std::vector<Range>& all() const { return ranges_; }

    // Raises an offset until the `size` units above it are free. Returns true if the offset changed.
    bool raise(Units& offset, Units size) const;

private:
    std::vector<Range> ranges_;
};

// The taken ranges in a segment tree over sections: a block of k sections is stored in at most 2 log k nodes.
class TakenBytes {
public:
    explicit TakenBytes(Index sections);
    void take(const Block& block, Units offset);

    // Returns the lowest gap, or the smallest gap between other blocks, that fits the block; else the offset above all.
    Units offset_for(const Block& block, Gap gap);

private:
    void gather(const Block& block);
    Units smallest_gap(Units size);

    Index leaves_ = 1;
    std::vector<Ranges> covering_;  // by node: ranges taken in all of its sections
    std::vector<Ranges> inside_;    // by node: ranges taken in any of its sections
    std::vector<const Ranges*> gathered_;
    std::vector<Ranges::Range> merged_;
};

// Places the blocks in one pass over the sections: each block gets, at its first section, the smallest free range above
// all fixed blocks. A block that would end above `most` stays at `none`. Takes n log n time and cannot be stopped.
std::vector<Units> sweep_within(const std::vector<Block>& blocks, Units most);

// Places the blocks without an offset, in this order, each at the lowest free offset with an end at or below `most`;
// the other blocks stay at `none`. Ignores fixed offsets. Returns the offsets found so far after a stop request. Throws
// std::invalid_argument if the number of offsets differs or if the order names no block.
std::vector<Units> fill_within(const std::vector<Block>& blocks, const std::vector<Index>& order,
                               std::vector<Units> offsets, Units most, const StopToken& stop);

// The unplaced blocks by first section; finds the block with the greatest key among those within given sections.
class Candidates {
public:
    Candidates(const std::vector<Block>& blocks, Index sections);
    void refill(const std::vector<double>& keys);
    void remove(Index block);
    Index best_within(Index first, Index stop) const;

private:
    struct Node {
        Index least_stop = 0;
        double key = 0;
    };

    void join(Index node);
    void search(Index node, Index begin, Index end, Index from, Index to, Index stop, Index& best, double& key) const;

    const std::vector<Block>& blocks_;
    std::vector<Index> sorted_;
    std::vector<Index> place_of_;
    std::vector<Index> first_at_;  // by section: the first position of a block that begins there or later
    std::vector<Node> nodes_;
    Index leaves_ = 1;
};

// The heights over all sections, as stretches of equal height.
class Skyline {
public:
    explicit Skyline(Index sections);
    void clear();

    struct Stretch {
        Index first = 0;
        Index stop = 0;
        Units height = 0;
    };

    Stretch lowest();
    void fill(const Stretch& stretch, const Block& block);
    void raise(const Stretch& stretch);

private:
    struct Low {
        Units height = 0;
        Index first = 0;
    };

    bool has_ended(const Low& low) const;
    void begin(Index first, Index stop, Units height);
    void join_with_next(Index first);

    Index sections_;
    std::vector<Index> stop_of_;    // by first section of a stretch, none elsewhere
    std::vector<Index> before_;     // first section of the preceding stretch
    std::vector<Units> height_of_;  // size: number of sections + 1
    std::vector<Low> heap_;
};

// How a skyline ranks blocks: exponents of size, lifetime and the greatest load within the lifetime, and noise.
struct Ranking {
    double size = 1;
    double life = 0;
    double load = 0;
    double noise = 0;
    bool counts_sections = false;
};

// Keeps the best packing of all heuristics.
class ArenaSearch {
public:
    // Throws std::invalid_argument, with the entry, if a block is invalid.
    ArenaSearch(std::vector<Block> blocks, std::uint64_t seed);

    // Places fixed blocks first, then the others in order. Returns false if stopped before the last block.
    bool place(const std::vector<Index>& order, Gap gap, const StopToken& stop);

    // Offers the packing of `sweep_within` without a limit.
    void sweep() { offer(sweep_within(blocks_, most_units)); }

    // Keeps a packing from another source if its arena is lower. Throws std::invalid_argument if the number of offsets
    // differs.
    void offer(const std::vector<Units>& offsets);

    // Builds `rounds` more skyline packings. Ends early if the arena is at most the target or after a stop request.
    void fill_skylines(std::int64_t rounds, Units target, const StopToken& stop);

    // Lowest arena so far in units; `most_units` before the first packing.
    Units arena() const { return arena_; }
    const std::vector<Units>& offsets() const { return offsets_; }

private:
    bool fill_once(Units most, const StopToken& stop);
    void rank(const Ranking& ranking, bool is_boosted);
    Ranking next_ranking();
    void learn();
    void keep(Units arena);
    void set_loads();
    double drawn();

    std::vector<Block> blocks_;
    Index sections_ = 0;
    Units load_ = 0;
    std::vector<double> log_load_;  // by block: the greatest load within its lifetime
    Candidates candidates_;
    Skyline skyline_;
    std::mt19937_64 chance_;
    std::int64_t rounds_ = 0;
    Ranking best_ranking_;
    std::vector<double> boosts_;
    std::vector<double> keys_;
    std::vector<Units> tried_;
    Units tried_arena_ = 0;
    std::vector<Units> offsets_;
    Units arena_ = most_units;
};

}  // namespace onchip::arena
