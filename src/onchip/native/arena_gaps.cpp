// Greedy placement: the segment tree of taken ranges, and its gaps.

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "arena.hpp"

namespace onchip::arena {

void Ranges::add(Range added) {
    auto from = std::lower_bound(ranges_.begin(), ranges_.end(), added.low,
                                 [](const Range& one, Units low) { return one.high < low; });
    auto to = from;
    for (; to != ranges_.end() && to->low <= added.high; ++to) {
        added = {std::min(added.low, to->low), std::max(added.high, to->high)};
    }
    if (from == to) {
        ranges_.insert(from, added);
        return;
    }
    *from = added;
    ranges_.erase(from + 1, to);
}

bool Ranges::raise(Units& offset, Units size) const {
    auto at = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                               [](Units low, const Range& one) { return low < one.high; });
    bool is_raised = false;
    for (; at != ranges_.end() && at->low < offset + size; ++at) {
        offset = at->high;
        is_raised = true;
    }
    return is_raised;
}

TakenBytes::TakenBytes(Index sections) {
    while (leaves_ < sections) leaves_ *= 2;
    covering_.resize(2 * static_cast<std::size_t>(leaves_));
    inside_.resize(2 * static_cast<std::size_t>(leaves_));
}

void TakenBytes::take(const Block& block, Units offset) {
    const Ranges::Range taken{offset, offset + block.size};
    const auto cover = [&](Index node) {
        covering_[node].add(taken);
        inside_[node].add(taken);
    };
    Index left = block.first + leaves_, right = block.stop + leaves_;
    for (; left < right; left /= 2, right /= 2) {
        if (left % 2 == 1) cover(left++);
        if (right % 2 == 1) cover(--right);
    }
    left = (block.first + leaves_) / 2;
    right = (block.stop - 1 + leaves_) / 2;
    for (; left > 0; left /= 2, right /= 2) {
        inside_[left].add(taken);
        if (right != left) inside_[right].add(taken);
    }
}

Units TakenBytes::offset_for(const Block& block, Gap gap) {
    gather(block);
    if (gap == Gap::smallest) return smallest_gap(block.size);
    Units offset = 0;
    bool is_raised = true;
    while (is_raised) {
        is_raised = false;
        for (const Ranges* one : gathered_) is_raised |= one->raise(offset, block.size);
    }
    return offset;
}

// Lists the nodes whose ranges together cover everything taken in the block's sections.
void TakenBytes::gather(const Block& block) {
    gathered_.clear();
    const auto list = [&](const Ranges& ranges) {
        if (!ranges.all().empty()) gathered_.push_back(&ranges);
    };
    Index left = block.first + leaves_, right = block.stop + leaves_;
    for (; left < right; left /= 2, right /= 2) {
        if (left % 2 == 1) list(inside_[left++]);
        if (right % 2 == 1) list(inside_[--right]);
    }
    left = (block.first + leaves_) / 2;
    right = (block.stop - 1 + leaves_) / 2;
    for (; left > 0; left /= 2, right /= 2) {
        list(covering_[left]);
        if (right != left) list(covering_[right]);
    }
}

Units TakenBytes::smallest_gap(Units size) {
    merged_.clear();
    for (const Ranges* one : gathered_) merged_.insert(merged_.end(), one->all().begin(), one->all().end());
    std::sort(merged_.begin(), merged_.end(),
              [](const Ranges::Range& one, const Ranges::Range& other) { return one.low < other.low; });
    Units top = 0, best = none, least = most_units;
    for (const Ranges::Range& one : merged_) {
        if (one.low - top >= size && one.low - top < least) {
            least = one.low - top;
            best = top;
        }
        top = std::max(top, one.high);
    }
    return best == none ? top : best;
}

std::vector<Units> fill_within(const std::vector<Block>& blocks, const std::vector<Index>& order,
                               std::vector<Units> offsets, Units most, const StopToken& stop) {
    if (offsets.size() != blocks.size()) throw std::invalid_argument("there is not one offset for every block");
    TakenBytes taken(sections_of(blocks));
    for (std::size_t block = 0; block < blocks.size(); ++block) {
        if (offsets[block] != none) taken.take(blocks[block], offsets[block]);
    }
    for (const Index block : order) {
        if (stop.is_asked()) break;
        if (block < 0 || static_cast<std::size_t>(block) >= blocks.size()) {
            throw std::invalid_argument("the order names a block that does not exist");
        }
        if (offsets[block] != none) continue;
        const Units offset = taken.offset_for(blocks[block], Gap::lowest);
        if (offset + blocks[block].used > most) continue;
        taken.take(blocks[block], offset);
        offsets[block] = offset;
    }
    return offsets;
}

}  // namespace onchip::arena
