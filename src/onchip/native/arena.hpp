// The least arena of many blocks: greedy placing, and a skyline that is filled again and again, in near n log n.
//
// Nothing is proven here; `packing.hpp` proves. Why each way is fast is said in docs/packing.md.
//
// Words. A section is a largest set of blocks that live at once; a block lives in the sections [first, stop). The load
// of a section is the sum of the sizes that live in it. Sizes are padded to the alignment, so offsets that are sums of
// sizes are aligned. The skyline has a height for each section: nothing is placed below it any more.

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

// `size` is padded, `used` is not: the arena ends where the used bytes of a block do. `steps` is how long it lives.
struct Block {
    Index first = 0;
    Index stop = 0;
    Units size = 0;
    Units used = 0;
    Units steps = 0;
    Units fixed = none;  // its only offset, or none; only `place` and `offer` of ArenaSearch know fixed blocks
};

// Buffers in columns: half-open lives in steps, sizes in bytes, and fixed offsets, `none` where a buffer has none.
struct Lives {
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> stops;
    std::vector<Units> sizes;
    std::vector<Units> fixed;
    Units alignment = 1;
};

// Counts lives in sections and pads sizes. Throws std::invalid_argument for columns that differ in length.
std::vector<Block> blocks_of(const Lives& lives);

// The most bytes that live at one step: sizes are padded, but for the one with the most padding. Throws as above.
Units most_live(const Lives& lives);

// The blocks, if they can be; throws std::invalid_argument, saying which entry cannot.
std::vector<Block> checked(std::vector<Block> blocks);

// Number of sections of the blocks.
Index sections_of(const std::vector<Block>& blocks);

enum class Gap { lowest, smallest };

// Half-open ranges, sorted, that neither overlap nor touch.
class Ranges {
public:
    struct Range {
        Units low = 0;
        Units high = 0;
    };

    void add(Range added);
    const std::vector<Range>& all() const { return ranges_; }

    // Raises an offset until so many units above it are free; says whether it had to.
    bool raise(Units& offset, Units size) const;

private:
    std::vector<Range> ranges_;
};

// What is taken, in a tree over sections: a block of k sections stands in 2 log k nodes.
class TakenBytes {
public:
    explicit TakenBytes(Index sections);
    void take(const Block& block, Units offset);

    // Where a block fits: in the lowest gap, or in the smallest one between others, else above all of them.
    Units offset_for(const Block& block, Gap gap);

private:
    void gather(const Block& block);
    Units smallest_gap(Units size);

    Index leaves_ = 1;
    std::vector<Ranges> covering_;  // by node: taken in all of its sections
    std::vector<Ranges> inside_;    // by node: taken in any of its sections
    std::vector<const Ranges*> gathered_;
    std::vector<Ranges::Range> merged_;
};

// One pass over the sections: each block goes into the smallest free range when it begins, above all fixed blocks. A
// block that would end above `most` stays at `none`. Takes n log n and cannot be stopped.
std::vector<Units> sweep_within(const std::vector<Block>& blocks, Units most);

// Places the blocks without an offset, in this order, each at the lowest free offset at which it ends at `most` or
// below; the others stay at `none`. Fixed offsets are ignored. Returns the offsets set so far once asked to stop.
// Throws std::invalid_argument for another number of offsets and for an entry of the order that names no block.
std::vector<Units> fill_within(const std::vector<Block>& blocks, const std::vector<Index>& order,
                               std::vector<Units> offsets, Units most, const StopToken& stop);

// What is not placed yet, by first section: finds the greatest key among the blocks that lie within some sections.
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
    std::vector<Index> first_at_;  // by section: the first place of blocks that begin there or later
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
    std::vector<Index> before_;     // the first section of the stretch before
    std::vector<Units> height_of_;  // one more than sections
    std::vector<Low> heap_;
};

// How a skyline ranks blocks: exponents of size, of life, and of the greatest load that a block lives through; noise.
struct Ranking {
    double size = 1;
    double life = 0;
    double load = 0;
    double noise = 0;
    bool counts_sections = false;
};

// Keeps the best packing that any way has found.
class ArenaSearch {
public:
    // Throws std::invalid_argument, saying which entry, for what no block can be.
    ArenaSearch(std::vector<Block> blocks, std::uint64_t seed);

    // Fixed blocks first, then one after another; false if it was asked to stop before the last.
    bool place(const std::vector<Index>& order, Gap gap, const StopToken& stop);

    // Offers what `sweep_within` places when nothing bounds it.
    void sweep() { offer(sweep_within(blocks_, most_units)); }

    // A packing found elsewhere, by block; throws std::invalid_argument for another number of offsets.
    void offer(const std::vector<Units>& offsets);

    // So many skylines more, or until the arena is the target or it is asked to stop.
    void fill_skylines(std::int64_t rounds, Units target, const StopToken& stop);

    // In units; of no packing while nothing has been placed.
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
    std::vector<double> log_load_;  // by block: the greatest load that it lives through
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
