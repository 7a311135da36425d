// Packings of many buffers: one pass over time, filling of gaps, skylines, and repairs.

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <stdexcept>
#include <utility>

#include "arena.hpp"
#include "words.hpp"

namespace onchip::arena {

// Blocks from lifetimes in steps, the most bytes alive at once, a packing in one pass over time, and filling of gaps.

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

// The skyline, and the candidate blocks for its lowest stretch.

namespace {

constexpr double no_key = -std::numeric_limits<double>::infinity();
constexpr Index no_stop = std::numeric_limits<Index>::max();

}  // namespace

Candidates::Candidates(const std::vector<Block>& blocks, Index sections)
    : blocks_(blocks), sorted_(blocks.size()), place_of_(blocks.size()), first_at_(sections + 1) {
    std::iota(sorted_.begin(), sorted_.end(), 0);
    std::sort(sorted_.begin(), sorted_.end(), [&](Index one, Index other) {
        return std::pair{blocks[one].first, one} < std::pair{blocks[other].first, other};
    });
    while (leaves_ < static_cast<Index>(blocks.size())) leaves_ *= 2;
    nodes_.resize(2 * static_cast<std::size_t>(leaves_));
    Index place = 0;
    for (Index section = 0; section <= sections; ++section) {
        while (place < static_cast<Index>(sorted_.size()) && blocks[sorted_[place]].first < section) ++place;
        first_at_[section] = place;
    }
    for (place = 0; place < static_cast<Index>(sorted_.size()); ++place) place_of_[sorted_[place]] = place;
}

void Candidates::refill(const std::vector<double>& keys) {
    for (Index place = 0; place < leaves_; ++place) {
        const bool is_block = place < static_cast<Index>(sorted_.size());
        nodes_[leaves_ + place] =
            is_block ? Node{blocks_[sorted_[place]].stop, keys[sorted_[place]]} : Node{no_stop, no_key};
    }
    for (Index node = leaves_ - 1; node > 0; --node) join(node);
}

void Candidates::join(Index node) {
    const Node &left = nodes_[2 * node], &right = nodes_[2 * node + 1];
    nodes_[node] = {std::min(left.least_stop, right.least_stop), std::max(left.key, right.key)};
}

void Candidates::remove(Index block) {
    Index node = leaves_ + place_of_[block];
    nodes_[node] = {no_stop, no_key};
    for (node /= 2; node > 0; node /= 2) join(node);
}

// Returns the block with the greatest key (ties: the first) within the sections, or none.
Index Candidates::best_within(Index first, Index stop) const {
    Index best = none;
    double key = no_key;
    search(1, 0, leaves_, first_at_[first], first_at_[stop], stop, best, key);
    return best;
}

void Candidates::search(Index node, Index begin, Index end, Index from, Index to, Index stop, Index& best,
                        double& key) const {
    if (end <= from || to <= begin || nodes_[node].least_stop > stop || nodes_[node].key <= key) return;
    if (end - begin == 1) {
        best = sorted_[begin];
        key = nodes_[node].key;
        return;
    }
    const Index middle = begin + (end - begin) / 2;
    const bool is_right_better = nodes_[2 * node].key < nodes_[2 * node + 1].key;
    if (is_right_better) search(2 * node + 1, middle, end, from, to, stop, best, key);
    search(2 * node, begin, middle, from, to, stop, best, key);
    if (!is_right_better) search(2 * node + 1, middle, end, from, to, stop, best, key);
}

Skyline::Skyline(Index sections)
    : sections_(sections), stop_of_(sections + 1), before_(sections + 1), height_of_(sections + 1) {
    clear();
}

void Skyline::clear() {
    std::fill(stop_of_.begin(), stop_of_.end(), none);
    heap_.clear();
    height_of_[sections_] = most_units;
    before_[0] = none;
    begin(0, sections_, 0);
}

bool Skyline::has_ended(const Low& low) const {
    return stop_of_[low.first] == none || height_of_[low.first] != low.height;
}

// Starts a stretch of a new height; the stretch after it exists already.
void Skyline::begin(Index first, Index stop, Units height) {
    stop_of_[first] = stop;
    height_of_[first] = height;
    before_[stop] = first;
    heap_.push_back({height, first});
    std::push_heap(heap_.begin(), heap_.end(), [](const Low& one, const Low& other) {
        return std::pair{one.height, one.first} > std::pair{other.height, other.first};
    });
}

Skyline::Stretch Skyline::lowest() {
    const auto is_later = [](const Low& one, const Low& other) {
        return std::pair{one.height, one.first} > std::pair{other.height, other.first};
    };
    while (has_ended(heap_.front())) {
        std::pop_heap(heap_.begin(), heap_.end(), is_later);
        heap_.pop_back();
    }
    const Low low = heap_.front();
    return {low.first, stop_of_[low.first], low.height};
}

void Skyline::join_with_next(Index first) {
    const Index next = stop_of_[first];
    if (next >= sections_ || height_of_[next] != height_of_[first]) return;
    const Index stop = stop_of_[next];
    stop_of_[next] = none;
    stop_of_[first] = stop;
    before_[stop] = first;
}

// Places a block on the stretch that contains its lifetime.
void Skyline::fill(const Stretch& stretch, const Block& block) {
    const Index before = before_[stretch.first];
    if (block.stop < stretch.stop) begin(block.stop, stretch.stop, stretch.height);
    begin(block.first, block.stop, stretch.height + block.size);
    if (stretch.first < block.first) begin(stretch.first, block.first, stretch.height);
    join_with_next(block.first);
    if (block.first == stretch.first && before != none) join_with_next(before);
}

// Raises a stretch to its lower neighbour, because no unplaced block fits within it.
void Skyline::raise(const Stretch& stretch) {
    const Index before = before_[stretch.first];
    const Units left = before == none ? most_units : height_of_[before];
    begin(stretch.first, stretch.stop, std::min(left, height_of_[stretch.stop]));
    join_with_next(stretch.first);
    if (before != none) join_with_next(before);
}

// The rounds of skyline filling: the ranking of blocks, and learning from skylines that grew too high.

namespace {

constexpr Index look_every = 256;
constexpr std::int64_t drawn_rounds = 30;
constexpr double too_high = 1.02;  // times the best arena: the limit of a learning round
constexpr double learnt_from = 0.4;
constexpr double boost = 0.3;
constexpr double forgetting = 0.97;

// By size; by lifetime; by area (with two exponents of the lifetime); by area and lifetime with the fullest steps
// first.
constexpr Ranking first_rankings[] = {{1, 0, 0, 0, false}, {0, 1, 0, 0, true},   {1, 1, 0, 0, true},
                                      {1, 2, 0, 0, true},  {1, 2, 256, 0, true}, {0.5, 1, 16, 0, false}};

}  // namespace

Index sections_of(const std::vector<Block>& blocks) {
    Index sections = 0;
    for (const Block& one : blocks) sections = std::max(sections, one.stop);
    return sections;
}

SkylineSearch::SkylineSearch(std::vector<Block> blocks, std::vector<Units> offsets, std::uint64_t seed)
    : blocks_(std::move(blocks)),
      sections_(sections_of(blocks_)),
      log_load_(blocks_.size()),
      candidates_(blocks_, sections_),
      skyline_(sections_),
      chance_(seed),
      boosts_(blocks_.size()),
      keys_(blocks_.size()),
      tried_(blocks_.size()) {
    set_loads();
    offer(offsets);
}

// Sets the greatest load within each block's lifetime, from maxima over runs of 1, 2, 4, ... sections.
void SkylineSearch::set_loads() {
    std::vector<Units> changes(sections_ + 1), loads(sections_);
    for (const Block& one : blocks_) {
        changes[one.first] += one.size;
        changes[one.stop] -= one.size;
    }
    Units live = 0;
    for (Index section = 0; section < sections_; ++section) loads[section] = live += changes[section];
    load_ = *std::max_element(loads.begin(), loads.end());
    std::vector<std::vector<Units>> greatest{loads};
    for (Index width = 1; 2 * width <= sections_; width *= 2) {
        const std::vector<Units>& half = greatest.back();
        std::vector<Units> whole(half.size() - width);
        for (std::size_t at = 0; at < whole.size(); ++at) whole[at] = std::max(half[at], half[at + width]);
        greatest.push_back(std::move(whole));
    }
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        const Block& one = blocks_[block];
        int level = 0;
        while ((2 << level) <= one.stop - one.first) ++level;
        const Units most = std::max(greatest[level][one.first], greatest[level][one.stop - (1 << level)]);
        log_load_[block] = std::log(static_cast<double>(most) / static_cast<double>(load_));
    }
}

void SkylineSearch::offer(const std::vector<Units>& offsets) {
    tried_ = offsets;
    Units arena = 0;
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        arena = std::max(arena, tried_[block] + blocks_[block].used);
    }
    keep(arena);
}

void SkylineSearch::keep(Units arena) {
    if (arena >= arena_) return;
    arena_ = arena;
    offsets_ = tried_;
}

void SkylineSearch::fill(std::int64_t rounds, Units target, const StopToken& stop) {
    for (; rounds > 0 && arena_ > target && !stop.is_asked(); --rounds, ++rounds_) {
        const bool is_learning = rounds_ >= drawn_rounds && rounds_ % 2 == 1;
        const Ranking ranking = next_ranking();
        rank(ranking, is_learning);
        const auto most = static_cast<Units>(static_cast<double>(arena_) * (is_learning ? too_high : 1.0));
        const bool is_whole = fill_once(most, stop);
        if (stop.is_asked()) return;
        if (is_learning) learn();
        if (!is_whole || tried_arena_ >= arena_) continue;
        keep(tried_arena_);
        best_ranking_ = ranking;
    }
}

// Returns first the given rankings, then random ones, then perturbations of the best; every other later round is the
// best ranking, boosted by what was learnt.
Ranking SkylineSearch::next_ranking() {
    if (rounds_ < static_cast<std::int64_t>(std::size(first_rankings))) return first_rankings[rounds_];
    Ranking next;
    if (rounds_ < drawn_rounds) {
        next.size = 2 * drawn();
        next.life = 2 * drawn();
        next.load = drawn() < 0.5 ? 0 : std::exp(6 * drawn());
        next.noise = drawn() < 0.5 ? 0 : 0.5 * drawn() * drawn();
    } else if (rounds_ % 2 == 1) {
        next = best_ranking_;
        next.noise = drawn() < 0.5 ? 0 : 0.3 * best_ranking_.noise * drawn();
    } else {
        next.size = best_ranking_.size + 0.3 * (drawn() - 0.5);
        next.life = best_ranking_.life + 0.3 * (drawn() - 0.5);
        next.load = best_ranking_.load * std::exp(drawn() < 0.5 ? 0 : drawn() - 0.5);
        if (best_ranking_.load == 0 && drawn() < 0.1) next.load = std::exp(6 * drawn());
        next.noise = drawn() < 0.1 ? 0.3 * drawn() : best_ranking_.noise * (0.5 + drawn());
    }
    next.counts_sections = drawn() < 0.5;
    return next;
}

double SkylineSearch::drawn() {
    return static_cast<double>(chance_() >> 11U) * 0x1p-53;
}

void SkylineSearch::rank(const Ranking& ranking, bool is_boosted) {
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        const Block& one = blocks_[block];
        const auto life = static_cast<double>(ranking.counts_sections ? one.stop - one.first : one.steps);
        keys_[block] = ranking.size * std::log(static_cast<double>(one.size)) + ranking.life * std::log(life) +
                       ranking.load * log_load_[block] + (is_boosted ? boosts_[block] : 0);
        if (ranking.noise > 0) keys_[block] += ranking.noise * (drawn() - 0.5);
    }
}

// Fills the lowest stretch first, with the block of the greatest key. Returns false if the arena exceeds `most` or
// after a stop request.
bool SkylineSearch::fill_once(Units most, const StopToken& stop) {
    skyline_.clear();
    candidates_.refill(keys_);
    std::fill(tried_.begin(), tried_.end(), none);
    tried_arena_ = 0;
    for (auto left = static_cast<Index>(blocks_.size()); left > 0;) {
        const Skyline::Stretch stretch = skyline_.lowest();
        const Index block = candidates_.best_within(stretch.first, stretch.stop);
        if (block == none) {
            skyline_.raise(stretch);
            continue;
        }
        if (left % look_every == 0 && stop.is_asked()) return false;
        --left;
        candidates_.remove(block);
        tried_[block] = stretch.height;
        tried_arena_ = std::max(tried_arena_, stretch.height + blocks_[block].used);
        if (tried_arena_ > most) return false;
        skyline_.fill(stretch, blocks_[block]);
    }
    return true;
}

// Boosts the blocks that ended high, so that the next learning round places them earlier; boosts decay.
void SkylineSearch::learn() {
    const Units high = load_ + static_cast<Units>(static_cast<double>(arena_ - load_) * learnt_from);
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        const bool is_high = tried_[block] != none && tried_[block] + blocks_[block].used > high;
        boosts_[block] = forgetting * (boosts_[block] + (is_high ? boost * drawn() : 0));
    }
}

// Attempts below a ceiling, and their moves.

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
