// Blocks from lifetimes in steps, the most bytes alive at once, a packing in one pass over time, and filling of gaps.

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <stdexcept>
#include <utility>

#include "arena.hpp"
#include "words.hpp"

namespace onchip::arena {

namespace {

// The begin or end of a buffer's lifetime; at equal steps ends precede begins.
struct Change {
    std::int64_t step = 0;
    bool begins = false;
    Index buffer = 0;

    bool operator<(const Change& other) const { return std::pair{step, begins} < std::pair{other.step, other.begins}; }
};

Units padded(const Lives& lives, Index buffer) {
    return (lives.sizes[buffer] + lives.alignment - 1) / lives.alignment * lives.alignment;
}

std::vector<Change> changes_of(const Lives& lives) {
    const std::size_t count = lives.starts.size();
    if (lives.stops.size() != count || lives.sizes.size() != count) {
        throw std::invalid_argument("the columns of the lives differ in length");
    }
    require(0 < lives.alignment && lives.alignment <= most_units, "the alignment is not between 1 and 2^60", 0);
    Units total = 0;
    for (std::size_t buffer = 0; buffer < count; ++buffer) {
        require(lives.starts[buffer] < lives.stops[buffer], "a buffer lives for no step", buffer);
        require(0 < lives.sizes[buffer] && lives.sizes[buffer] <= most_units - lives.alignment - total,
                "a size is below 1, or all make more than 2^60", buffer);
        total += padded(lives, static_cast<Index>(buffer));
    }
    std::vector<Change> changes;
    changes.reserve(2 * count);
    for (std::size_t buffer = 0; buffer < count; ++buffer) {
        changes.push_back({lives.starts[buffer], true, static_cast<Index>(buffer)});
        changes.push_back({lives.stops[buffer], false, static_cast<Index>(buffer)});
    }
    std::sort(changes.begin(), changes.end());
    return changes;
}

// The free ranges, coalesced; everything above `top_` is free.
class FreeRanges {
public:
    // Takes the smallest free range that is large enough, else the top.
    Units take(Units size) {
        const auto found = by_size_.lower_bound({size, 0});
        if (found == by_size_.end()) return std::exchange(top_, top_ + size);
        const auto [length, low] = *found;
        forget(low, length);
        if (length > size) remember(low + size, length - size);
        return low;
    }

    void give(Units low, Units size) {
        const auto next = by_low_.lower_bound(low);
        if (next != by_low_.begin()) {
            const auto [before, length] = *std::prev(next);
            if (before + length == low) {
                forget(before, length);
                low = before;
                size += length;
            }
        }
        const auto above = by_low_.find(low + size);
        if (above != by_low_.end()) {
            const Units length = above->second;
            forget(low + size, length);
            size += length;
        }
        if (low + size == top_) {
            top_ = low;
        } else {
            remember(low, size);
        }
    }

private:
    void remember(Units low, Units length) {
        by_low_.emplace(low, length);
        by_size_.emplace(length, low);
    }

    void forget(Units low, Units length) {
        by_low_.erase(low);
        by_size_.erase({length, low});
    }

    Units top_ = 0;
    std::map<Units, Units> by_low_;
    std::set<std::pair<Units, Units>> by_size_;
};

}  // namespace

std::vector<Block> blocks_of(const Lives& lives) {
    std::vector<Block> blocks(lives.starts.size());
    Index section = 0;
    bool is_open = false;  // true if a block began after the last end
    for (const Change& change : changes_of(lives)) {
        if (change.begins) {
            blocks[change.buffer].first = section;
            is_open = true;
            continue;
        }
        if (std::exchange(is_open, false)) ++section;
        blocks[change.buffer].stop = section;
    }
    for (Index buffer = 0; buffer < static_cast<Index>(blocks.size()); ++buffer) {
        Block& one = blocks[buffer];
        one.used = lives.sizes[buffer];
        one.size = padded(lives, buffer);
        one.steps = lives.stops[buffer] - lives.starts[buffer];
    }
    return blocks;
}

Units most_live(const Lives& lives) {
    std::map<Units, Index> paddings;  // paddings of the live blocks
    Units live = 0, most = 0;
    for (const Change& change : changes_of(lives)) {
        const Units size = padded(lives, change.buffer), padding = size - lives.sizes[change.buffer];
        if (change.begins) {
            live += size;
            ++paddings[padding];
            most = std::max(most, live - paddings.rbegin()->first);
        } else {
            live -= size;
            if (--paddings[padding] == 0) paddings.erase(padding);
        }
    }
    return most;
}

std::vector<Units> sweep_within(const std::vector<Block>& blocks, Units most) {
    std::vector<Units> offsets(blocks.size(), none);
    std::vector<Index> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](Index one, Index other) { return blocks[one].first < blocks[other].first; });
    FreeRanges free;
    using Ending = std::pair<Index, Index>;  // the section at which a block is dead, and the block
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> living;
    for (const Index block : order) {
        const Block& one = blocks[block];
        for (; !living.empty() && living.top().first <= one.first; living.pop()) {
            free.give(offsets[living.top().second], blocks[living.top().second].size);
        }
        const Units offset = free.take(one.size);
        if (offset + one.used > most) {
            free.give(offset, one.size);
            continue;
        }
        offsets[block] = offset;
        living.emplace(one.stop, block);
    }
    return offsets;
}

std::vector<Units> fill_within(const std::vector<Block>& blocks, const std::vector<Index>& order,
                               std::vector<Units> offsets, Units most, const StopToken& stop) {
    if (offsets.size() != blocks.size()) throw std::invalid_argument("there is not one offset for every block");
    const LivingBeside living(blocks);
    std::vector<Index> beside;
    std::vector<std::pair<Units, Units>> taken;
    for (const Index block : order) {
        if (block < 0 || block >= static_cast<Index>(blocks.size())) {
            throw std::invalid_argument("the order names a block that does not exist");
        }
        if (offsets[block] != none) continue;
        if (stop.is_asked()) break;
        living.list(block, beside);
        taken.clear();
        for (const Index other : beside) {
            if (offsets[other] != none) taken.emplace_back(offsets[other], offsets[other] + blocks[other].size);
        }
        std::sort(taken.begin(), taken.end());
        Units lowest = 0;
        for (const auto& [low, high] : taken) {
            if (low - lowest >= blocks[block].size) break;
            lowest = std::max(lowest, high);
        }
        if (lowest + blocks[block].used <= most) offsets[block] = lowest;
    }
    return offsets;
}

}  // namespace onchip::arena
