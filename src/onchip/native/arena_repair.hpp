// A local search that lowers a packing below a falling ceiling. It removes the blocks that end above the ceiling and
// reinserts them one by one, each where it displaces the least weight; displaced blocks queue up. It proves nothing.
//
// If an attempt fails, its changes are kept in stretches of sections without a waiting block, because a long packing is
// tight in many independent places.
//
// The initial weight of a block is size times lifetime. It grows each time the block displaces others, so no cycle of
// displacements lasts. A placement inspects only the blocks that overlap the block in time, so packings that are tight
// in few places improve quickly.

#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "arena.hpp"

namespace onchip::arena {

// Finds the blocks that share a section with a block, without a list of pairs.
class LivingBeside {
public:
    LivingBeside(const std::vector<Block>& blocks, Index sections);

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

class ArenaRepair {
public:
    // Starts from a packing, which is not checked. Throws std::invalid_argument if a block is invalid or if the number
    // of offsets differs.
    ArenaRepair(std::vector<Block> blocks, const std::vector<Units>& offsets, std::uint64_t seed);

    // Runs until `looks` overlapping blocks have been inspected, the arena is at most the target, or a stop is
    // requested.
    void lower(std::int64_t looks, Units target, const StopToken& stop);

    // Continues from a packing of another source if its arena is lower. Throws like the constructor.
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
