// Lowers a packing under a falling ceiling: what ends above it is taken out and put in again, one block after another,
// where it pushes out what weighs least; what is pushed out waits for its turn. Nothing is proven.
//
// What is packed in stretches of sections where none waits is kept when an attempt is given up: a long packing is
// tight in many places that know nothing of each other.
//
// A block weighs its size times its life, and the more the oftener it had to push others out: so none goes round for
// ever. Only what lives beside a block is looked at to place it, so a packing that is tight in few places is soon low.

#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "arena.hpp"

namespace onchip::arena {

// Who lives in any section of a block, without a list of pairs.
class LivingBeside {
public:
    LivingBeside(const std::vector<Block>& blocks, Index sections);

    // In no order, without the block itself.
    void list(Index block, std::vector<Index>& beside) const;

private:
    // What lives in the first section of some place of the order, and stands before it.
    struct Mark {
        Index place = 0;
        std::vector<Index> living;
    };

    const std::vector<Block>& blocks_;
    std::vector<Index> sorted_;    // by first section
    std::vector<Index> first_at_;  // by section: the first place of blocks that begin there or later
    std::vector<Mark> marks_;      // as far apart as many live at once
};

class ArenaRepair {
public:
    // Begins with a packing, which is not checked. Throws std::invalid_argument for what no block can be, and for
    // another number of offsets.
    ArenaRepair(std::vector<Block> blocks, const std::vector<Units>& offsets, std::uint64_t seed);

    // Goes on until so many blocks beside others have been looked at, the arena is at most the target, or it is asked
    // to stop.
    void lower(std::int64_t looks, Units target, const StopToken& stop);

    // A packing found elsewhere is gone on from if it is lower; throws as above.
    void offer(const std::vector<Units>& offsets);

    Units arena() const { return arena_; }
    const std::vector<Units>& offsets() const { return offsets_; }

private:
    // Where a block beside the one that is placed begins or ends, and what it weighs.
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
    Units unit_ = 0;  // of all sizes, the greatest common divisor
    Units tallest_ = 0;
    std::mt19937_64 chance_;
    std::vector<Units> offsets_;
    Units arena_ = 0;
    double share_;              // of what is between the target and the arena, for the next ceiling
    Units ceiling_ = none;      // none between two attempts
    std::vector<Units> tried_;  // none while a block waits
    std::deque<Index> waiting_;
    std::vector<double> weights_;
    std::size_t fewest_ = 0;    // that waited at once in this attempt
    std::int64_t in_vain_ = 0;  // moves since
    std::int64_t patience_ = 0;
    std::int64_t looks_ = 0;
    std::vector<Index> beside_;
    std::vector<Edge> starts_, ends_;
};

}  // namespace onchip::arena
