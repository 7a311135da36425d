// Attempts below a ceiling, and their moves.

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "arena.hpp"

namespace onchip::arena {

namespace {

constexpr double first_share = 0.7;
constexpr double heavier = 0.3;                 // times the mean weight, added to a block that displaced others
constexpr std::int64_t least_patience = 5'000;  // moves
constexpr double patience_for_each = 100;       // moves per block alive at once
constexpr std::size_t least_apart = 64;

}  // namespace

LivingBeside::LivingBeside(const std::vector<Block>& blocks)
    : blocks_(blocks), sorted_(blocks.size()), first_at_(sections_of(blocks) + 1) {
    std::iota(sorted_.begin(), sorted_.end(), 0);
    std::stable_sort(sorted_.begin(), sorted_.end(),
                     [&](Index one, Index other) { return blocks[one].first < blocks[other].first; });
    const auto count = static_cast<Index>(sorted_.size());
    for (Index section = 0, place = 0; section < static_cast<Index>(first_at_.size()); ++section) {
        while (place < count && blocks[sorted_[place]].first < section) ++place;
        first_at_[section] = place;
    }
    std::vector<Index> living;
    Index next = 0;
    for (Index place = 0; place < count; ++place) {
        const Index section = blocks[sorted_[place]].first;
        if (place >= next && first_at_[section] == place) {
            std::erase_if(living, [&](Index one) { return blocks[one].stop <= section; });
            marks_.push_back({place, living});
            next = place + static_cast<Index>(std::max(living.size(), least_apart));
        }
        living.push_back(sorted_[place]);
    }
}

void LivingBeside::list(Index block, std::vector<Index>& beside) const {
    beside.clear();
    const Index first = blocks_[block].first, from = first_at_[first], to = first_at_[blocks_[block].stop];
    const auto behind = std::upper_bound(marks_.begin(), marks_.end(), from,
                                         [](Index place, const Mark& one) { return place < one.place; });
    const Mark& mark = *(behind - 1);
    for (Index one : mark.living) {
        if (blocks_[one].stop > first) beside.push_back(one);
    }
    for (Index place = mark.place; place < from; ++place) {
        if (blocks_[sorted_[place]].stop > first) beside.push_back(sorted_[place]);
    }
    for (Index place = from; place < to; ++place) {
        if (sorted_[place] != block) beside.push_back(sorted_[place]);
    }
}

// The total weight of the displaced blocks, for increasing offsets.
class Repair::Pushed {
public:
    Pushed(const std::vector<Edge>& starts, const std::vector<Edge>& ends, Units size)
        : starts_(starts), ends_(ends), size_(size) {}

    double at(Units offset) {
        for (; begun_ < starts_.size() && starts_[begun_].at < offset + size_; ++begun_)
            ++between_, weight_ += starts_[begun_].weight;
        for (; ended_ < ends_.size() && ends_[ended_].at <= offset; ++ended_)
            --between_, weight_ -= ends_[ended_].weight;
        return between_ == 0 ? 0 : weight_;
    }

private:
    const std::vector<Edge>& starts_;
    const std::vector<Edge>& ends_;
    Units size_;
    std::size_t begun_ = 0, ended_ = 0, between_ = 0;
    double weight_ = 0;
};

Repair::Repair(std::vector<Block> blocks, std::vector<Units> offsets, std::uint64_t seed)
    : blocks_(std::move(blocks)),
      living_(blocks_),
      chance_(seed),
      offsets_(std::move(offsets)),
      share_(first_share),
      weights_(blocks_.size()) {
    if (offsets_.size() != blocks_.size()) throw std::invalid_argument("there is not one offset for every block");
    double lives = 0;
    for (const Block& one : blocks_) {
        unit_ = std::gcd(unit_, one.size);
        tallest_ = std::max(tallest_, one.used);
        lives += one.stop - one.first;
    }
    patience_ = least_patience + static_cast<std::int64_t>(patience_for_each * lives / sections_of(blocks_));
    arena_ = arena_of(offsets_);
}

Units Repair::arena_of(const std::vector<Units>& offsets) const {
    Units arena = 0;
    for (std::size_t at = 0; at < blocks_.size(); ++at) arena = std::max(arena, offsets[at] + blocks_[at].used);
    return arena;
}

void Repair::offer(const std::vector<Units>& offsets) {
    if (arena_of(offsets) >= arena_) return;
    offsets_ = offsets;
    arena_ = arena_of(offsets);
    ceiling_ = none;
}

void Repair::lower(std::int64_t looks, Units target, const StopToken& stop) {
    target = std::max(target, tallest_);
    for (looks += looks_; looks_ < looks && arena_ > target && !stop.is_asked();) {
        if (ceiling_ == none) {
            const auto above = static_cast<Units>(static_cast<double>(arena_ - target) * share_) / unit_ * unit_;
            begin(std::min(target + above, arena_ - 1));
        }
        if (!waiting_.empty()) move();
        if (waiting_.empty() || in_vain_ > patience_) end(waiting_.empty());
    }
}

// Starts an attempt: removes all blocks that end above the ceiling, in random order, and resets the weights to a mean
// of 1.
void Repair::begin(Units ceiling) {
    ceiling_ = ceiling;
    tried_ = offsets_;
    waiting_.clear();
    double sum = 0;
    for (std::size_t at = 0; at < blocks_.size(); ++at) {
        const Block& one = blocks_[at];
        weights_[at] = static_cast<double>(one.size) * static_cast<double>(one.stop - one.first);
        sum += weights_[at];
        if (tried_[at] + one.used > ceiling) {
            tried_[at] = none;
            waiting_.push_back(static_cast<Index>(at));
        }
    }
    for (double& one : weights_) one *= static_cast<double>(blocks_.size()) / sum;
    std::shuffle(waiting_.begin(), waiting_.end(), chance_);
    fewest_ = waiting_.size();
    in_vain_ = 0;
}

// Places the block that has waited longest.
void Repair::move() {
    const Index block = waiting_.front();
    waiting_.pop_front();
    find_edges(block);
    const Units offset = least_place(blocks_[block]);
    if (push_out(blocks_[block], offset)) weights_[block] += heavier;
    tried_[block] = offset;
    ++in_vain_;
    if (waiting_.size() < fewest_) {
        fewest_ = waiting_.size();
        in_vain_ = 0;
    }
}

void Repair::end(bool is_packed) {
    keep_what_is_packed();
    arena_ = arena_of(offsets_);
    share_ = is_packed ? first_share : (1 + share_) / 2;
    ceiling_ = none;
}

// Keeps moved blocks in stretches of sections without a waiting block: all blocks that overlap them in time are unmoved
// or in the same stretch.
void Repair::keep_what_is_packed() {
    std::vector<Index> moved;
    for (std::size_t at = 0; at < blocks_.size(); ++at) {
        if (tried_[at] != offsets_[at]) moved.push_back(static_cast<Index>(at));
    }
    std::sort(moved.begin(), moved.end(),
              [&](Index one, Index other) { return blocks_[one].first < blocks_[other].first; });
    for (std::size_t begin = 0, end = 0; begin < moved.size(); begin = end) {
        Index stop = 0;
        bool is_packed = true;
        for (; end < moved.size() && (end == begin || blocks_[moved[end]].first < stop); ++end) {
            stop = std::max(stop, blocks_[moved[end]].stop);
            is_packed = is_packed && tried_[moved[end]] != none;
        }
        for (std::size_t at = begin; is_packed && at < end; ++at) offsets_[moved[at]] = tried_[moved[at]];
    }
}

void Repair::find_edges(Index block) {
    living_.list(block, beside_);
    looks_ += static_cast<std::int64_t>(beside_.size()) + 1;
    starts_.clear();
    ends_.clear();
    for (Index one : beside_) {
        if (tried_[one] == none) continue;
        starts_.push_back({tried_[one], weights_[one]});
        ends_.push_back({tried_[one] + blocks_[one].size, weights_[one]});
    }
    const auto is_lower = [](const Edge& one, const Edge& other) { return one.at < other.at; };
    std::sort(starts_.begin(), starts_.end(), is_lower);
    std::sort(ends_.begin(), ends_.end(), is_lower);
}

// Returns the offset of least displaced weight: 0, the top of a block, directly below a block, or below the ceiling.
// Ties are broken at random.
Units Repair::least_place(const Block& block) {
    const Units highest = (ceiling_ - block.used) / unit_ * unit_;
    Units least = 0;
    double least_weight = std::numeric_limits<double>::infinity();
    std::uint64_t equal = 0;
    const auto weigh = [&](Pushed& pushed, Units offset) {
        const double weight = pushed.at(offset);
        if (weight > least_weight) return;
        equal = weight < least_weight ? 1 : equal + 1;
        if (chance_() % equal == 0) least = offset;
        least_weight = weight;
    };
    Pushed above(starts_, ends_, block.size);
    weigh(above, 0);
    for (const Edge& end : ends_) {
        if (end.at <= highest) weigh(above, end.at);
    }
    Pushed below(starts_, ends_, block.size);
    for (const Edge& start : starts_) {
        if (start.at >= block.size && start.at - block.size <= highest) weigh(below, start.at - block.size);
    }
    weigh(below, highest);
    return least;
}

// Returns true if a block was displaced.
bool Repair::push_out(const Block& block, Units offset) {
    const std::size_t waiting = waiting_.size();
    for (Index one : beside_) {
        if (tried_[one] == none || tried_[one] >= offset + block.size) continue;
        if (tried_[one] + blocks_[one].size <= offset) continue;
        tried_[one] = none;
        waiting_.push_back(one);
    }
    return waiting_.size() > waiting;
}

}  // namespace onchip::arena
