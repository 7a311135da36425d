// Blocks joined in twos without waste, as long as that goes: of equal lives one upon the other, of equal sizes one
// right after the other. A packing of what is left is one of all, and no load changes.

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
    // Ends early if asked to stop. Throws std::invalid_argument, as `ArenaSearch` does, for what no block can be.
    JoinedBlocks(std::vector<Block> blocks, const StopToken& stop);

    // What is no part of another block, in the order of making.
    std::vector<Block> left() const;

    // By block as given, from the offsets of what is left; throws std::invalid_argument for another number of these.
    std::vector<Units> offsets(const std::vector<Units>& offsets_left) const;

private:
    // Two blocks that are one: the second lies upon the first, or lives right after it at the same offset.
    struct Join {
        Index first = none;
        Index second = none;
        bool is_upon = false;
    };
    using Edge = std::pair<Index, Units>;  // a section and a size
    using Life = std::pair<Index, Index>;
    using Sized = std::pair<Units, Index>;  // a block with its size before it
    using SmallestFirst = std::priority_queue<Sized, std::vector<Sized>, std::greater<>>;

    bool join_in_time(Index block);
    bool join_in_bytes();
    void open(Index block);
    void join(Join made);
    Index open_at(std::map<Edge, std::vector<Index>>& edges, Edge edge);
    Index take_smallest(SmallestFirst& sized);

    std::size_t given_ = 0;
    std::vector<Block> blocks_;  // as given, then what each join makes
    std::vector<Join> joins_;
    std::vector<bool> is_part_;
    std::vector<Index> waiting_;                   // not looked at yet
    std::map<Edge, std::vector<Index>> stopping_;  // by the section that they end before; parts are among them
    std::map<Edge, std::vector<Index>> starting_;  // by first section
    std::map<Life, SmallestFirst> living_;
    std::priority_queue<std::pair<Index, Index>> long_lives_;  // sections, and the first, of lives that several had
};

}  // namespace onchip::arena
