// Packings of many buffers in near n log n time: one pass over time, filling of gaps, skylines, and a local search.
//
// They prove nothing; `packing.hpp` proves optimality.
//
// Terms. A section is a maximal set of blocks that are alive at once; a block is alive in the sections [first, stop).
// Sizes are padded to the alignment, so sums of sizes are aligned offsets. The load of a section is the sum of the
// sizes of its live blocks. The skyline has a height for each section: later blocks are placed at that height or above.

#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "stop.hpp"

namespace onchip::arena {

using Units = std::int64_t;
using Index = std::int32_t;

inline constexpr Index none = -1;
inline constexpr Units most_units = Units{1} << 60;

// Buffers as columns: half-open lifetimes in steps, and sizes in bytes.
struct Lives {
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> stops;
    std::vector<Units> sizes;
    Units alignment = 1;
};

// `size` is padded and `used` is not: the arena ends at the largest offset plus used bytes. `steps` is the lifetime in
// steps.
struct Block {
    Index first = 0;
    Index stop = 0;
    Units size = 0;
    Units used = 0;
    Units steps = 0;
};

// Converts lifetimes to sections and pads sizes. Throws std::invalid_argument if the columns differ in length, or if a
// buffer is invalid.
std::vector<Block> blocks_of(const Lives& lives);

// Returns a lower bound on the arena: the most bytes alive at one step, padded except for the block with the most
// padding. Throws like `blocks_of`.
Units most_live(const Lives& lives);

// Places the blocks in one pass over the sections: each block gets, at its first section, the smallest free range. A
// block that would end above `most` stays at `none`. Takes n log n time and cannot be stopped.
std::vector<Units> sweep_within(const std::vector<Block>& blocks, Units most);

// Places the blocks without an offset, in this order, each at the lowest free offset with an end at or below `most`;
// the other blocks stay at `none`. Returns the offsets found so far after a stop request. Throws std::invalid_argument
// if the number of offsets differs or if the order names no block.
std::vector<Units> fill_within(const std::vector<Block>& blocks, const std::vector<Index>& order,
                               std::vector<Units> offsets, Units most, const StopToken& stop);

// Number of sections of the blocks.
Index sections_of(const std::vector<Block>& blocks);

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

// Fills skylines, and keeps the best packing.
class SkylineSearch {
public:
    // Starts from a packing, which is not checked.
    SkylineSearch(std::vector<Block> blocks, std::vector<Units> offsets, std::uint64_t seed);

    // Keeps a packing from another source if its arena is lower.
    void offer(const std::vector<Units>& offsets);

    // Builds `rounds` more skyline packings. Ends early if the arena is at most the target or after a stop request.
    void fill(std::int64_t rounds, Units target, const StopToken& stop);

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

// Finds the blocks that share a section with a block, without a list of pairs.
class LivingBeside {
public:
    explicit LivingBeside(const std::vector<Block>& blocks);

    // The order is unspecified; the block itself is excluded.
    void list(Index block, std::vector<Index>& beside) const;

private:
    // The blocks alive in the first section of the block at a position of the order, among those before the position.
    struct Mark {
        Index place = 0;
        std::vector<Index> living;
    };

    const std::vector<Block>& blocks_;
    std::vector<Index> sorted_;    // by first section
    std::vector<Index> first_at_;  // by section: the first position of a block that begins there or later
    std::vector<Mark> marks_;      // spaced by the number of blocks alive at once
};

// A local search that lowers a packing below a falling ceiling. It removes the blocks that end above the ceiling and
// reinserts them one by one, each where it displaces the least weight; displaced blocks queue up.
//
// If an attempt fails, its changes are kept in stretches of sections without a waiting block, because a long packing is
// tight in many independent places.
//
// The initial weight of a block is size times lifetime. It grows each time the block displaces others, so no cycle of
// displacements lasts. A placement inspects only the blocks that overlap the block in time, so packings that are tight
// in few places improve quickly.
class Repair {
public:
    // Starts from a packing, which is not checked. Throws std::invalid_argument if the number of offsets differs.
    Repair(std::vector<Block> blocks, std::vector<Units> offsets, std::uint64_t seed);

    // Runs until `looks` overlapping blocks have been inspected, the arena is at most the target, or a stop is
    // requested.
    void lower(std::int64_t looks, Units target, const StopToken& stop);

    // Continues from a packing of another source if its arena is lower.
    void offer(const std::vector<Units>& offsets);

    Units arena() const { return arena_; }
    const std::vector<Units>& offsets() const { return offsets_; }

private:
    // The lower or upper end of a block that overlaps the placed block in time, with its weight.
    struct Edge {
        Units at = 0;
        double weight = 0;
    };
    class Pushed;

    Units arena_of(const std::vector<Units>& offsets) const;
    void begin(Units ceiling);
    void move();
    void end(bool is_packed);
    void keep_what_is_packed();
    void find_edges(Index block);
    Units least_place(const Block& block);
    bool push_out(const Block& block, Units offset);

    std::vector<Block> blocks_;
    LivingBeside living_;
    Units unit_ = 0;  // greatest common divisor of all sizes
    Units tallest_ = 0;
    std::mt19937_64 chance_;
    std::vector<Units> offsets_;
    Units arena_ = 0;
    double share_;              // of the distance from the target to the arena, for the next ceiling
    Units ceiling_ = none;      // none between attempts
    std::vector<Units> tried_;  // none for a waiting block
    std::deque<Index> waiting_;
    std::vector<double> weights_;
    std::size_t fewest_ = 0;    // lowest number of waiting blocks in this attempt
    std::int64_t in_vain_ = 0;  // moves since then
    std::int64_t patience_ = 0;
    std::int64_t looks_ = 0;
    std::vector<Index> beside_;
    std::vector<Edge> starts_, ends_;
};

}  // namespace onchip::arena
