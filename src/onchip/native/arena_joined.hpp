// Coalesces pairs of blocks without waste, as long as pairs exist: blocks of equal lifetimes are stacked, blocks of
// equal sizes and adjacent lifetimes share an offset. A packing of the merged blocks yields a packing of all blocks. No
// load changes.

#pragma once

#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "arena.hpp"

namespace onchip::arena {

class JoinedBlocks {
public:
    // Ends early after a stop request. Throws std::invalid_argument, like `ArenaSearch`, if a block is invalid.
    JoinedBlocks(std::vector<Block> blocks, const StopToken& stop);

    // Returns the blocks that are not part of a merged block, in order of creation.
    std::vector<Block> left() const;

    // Returns offsets of the given blocks from offsets of the blocks left. Throws std::invalid_argument if their number
    // differs.
    std::vector<Units> offsets(const std::vector<Units>& offsets_left) const;

private:
    // A merge of two blocks: the second is on top of the first, or lives directly after it at the same offset.
    struct Join {
        Index first = none;
        Index second = none;
        bool is_upon = false;
    };
    using Edge = std::pair<Index, Units>;  // a section and a size
    using Life = std::pair<Index, Index>;
    using Sized = std::pair<Units, Index>;  // a block preceded by its size
    using SmallestFirst = std::priority_queue<Sized, std::vector<Sized>, std::greater<>>;

    bool join_in_time(Index block);
    bool join_in_bytes();
    void open(Index block);
    void join(Join made);
    Index open_at(std::map<Edge, std::vector<Index>>& edges, Edge edge);
    Index take_smallest(SmallestFirst& sized);

    std::size_t given_ = 0;
    std::vector<Block> blocks_;  // the given blocks, then the merged ones
    std::vector<Join> joins_;
    std::vector<bool> is_part_;
    std::vector<Index> waiting_;                   // not inspected yet
    std::map<Edge, std::vector<Index>> stopping_;  // by stop section; includes parts of merged blocks
    std::map<Edge, std::vector<Index>> starting_;  // by first section
    std::map<Life, SmallestFirst> living_;
    std::priority_queue<std::pair<Index, Index>> long_lives_;  // sections and first section of shared lifetimes
};

}  // namespace onchip::arena
