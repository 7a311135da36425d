// The order of merging: first blocks with adjacent lifetimes, until none is left; then the two smallest blocks of the
// longest lifetime that two blocks share.

#include "arena_joined.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace onchip::arena {

JoinedBlocks::JoinedBlocks(std::vector<Block> blocks, const StopToken& stop)
    : given_(blocks.size()), blocks_(checked(std::move(blocks))), is_part_(given_), waiting_(given_) {
    std::iota(waiting_.begin(), waiting_.end(), 0);
    do {
        while (!waiting_.empty() && !stop.is_asked()) {
            const Index block = waiting_.back();
            waiting_.pop_back();
            if (!join_in_time(block)) open(block);
        }
    } while (!stop.is_asked() && join_in_bytes());
}

// Merges a block with one of equal size whose lifetime is adjacent. Returns false if none exists.
bool JoinedBlocks::join_in_time(Index block) {
    const Block& own = blocks_[block];
    const Index before = open_at(stopping_, {own.first, own.size});
    if (before != none) {
        join({before, block, false});
        return true;
    }
    const Index after = open_at(starting_, {own.stop, own.size});
    if (after != none) join({block, after, false});
    return after != none;
}

bool JoinedBlocks::join_in_bytes() {
    while (!long_lives_.empty()) {
        const auto [sections, first] = long_lives_.top();
        long_lives_.pop();
        SmallestFirst& sized = living_[{first, first + sections}];
        const Index one = take_smallest(sized), other = take_smallest(sized);
        if (other == none) {
            if (one != none) sized.push({blocks_[one].size, one});
            continue;
        }
        // The arena ends at the used bytes of the upper block, so the block with more padding is the upper one.
        const auto padding = [&](Index block) { return blocks_[block].size - blocks_[block].used; };
        join(padding(one) > padding(other) ? Join{other, one, true} : Join{one, other, true});
        return true;
    }
    return false;
}

void JoinedBlocks::open(Index block) {
    const Block& own = blocks_[block];
    stopping_[{own.stop, own.size}].push_back(block);
    starting_[{own.first, own.size}].push_back(block);
    SmallestFirst& sized = living_[{own.first, own.stop}];
    if (!sized.empty()) long_lives_.push({own.stop - own.first, own.first});
    sized.push({own.size, block});
}

void JoinedBlocks::join(Join made) {
    const Block &first = blocks_[made.first], &second = blocks_[made.second];
    Block whole = first;
    if (made.is_upon) {
        whole.size = first.size + second.size;
        whole.used = first.size + second.used;
    } else {
        whole.stop = second.stop;
        whole.used = std::max(first.used, second.used);
        whole.steps = first.steps + second.steps;
    }
    is_part_[made.first] = is_part_[made.second] = true;
    is_part_.push_back(false);
    waiting_.push_back(static_cast<Index>(blocks_.size()));
    joins_.push_back(made);
    blocks_.push_back(whole);
}

Index JoinedBlocks::open_at(std::map<Edge, std::vector<Index>>& edges, Edge edge) {
    const auto found = edges.find(edge);
    if (found == edges.end()) return none;
    std::vector<Index>& there = found->second;
    while (!there.empty() && is_part_[there.back()]) there.pop_back();
    return there.empty() ? none : there.back();
}

Index JoinedBlocks::take_smallest(SmallestFirst& sized) {
    while (!sized.empty()) {
        const Index block = sized.top().second;
        sized.pop();
        if (!is_part_[block]) return block;
    }
    return none;
}

std::vector<Block> JoinedBlocks::left() const {
    std::vector<Block> left;
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        if (!is_part_[block]) left.push_back(blocks_[block]);
    }
    return left;
}

std::vector<Units> JoinedBlocks::offsets(const std::vector<Units>& offsets_left) const {
    std::vector<Units> offsets(blocks_.size());
    auto next = offsets_left.begin();
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        if (is_part_[block]) continue;
        if (next == offsets_left.end()) throw std::invalid_argument("there are fewer offsets than blocks left");
        offsets[block] = *next++;
    }
    if (next != offsets_left.end()) throw std::invalid_argument("there are more offsets than blocks left");
    for (std::size_t made = joins_.size(); made-- > 0;) {
        const Join& join = joins_[made];
        const Units offset = offsets[given_ + made];
        offsets[join.first] = offset;
        offsets[join.second] = offset + (join.is_upon ? blocks_[join.first].size : 0);
    }
    offsets.resize(given_);
    return offsets;
}

}  // namespace onchip::arena
