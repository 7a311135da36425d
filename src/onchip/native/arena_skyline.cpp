// The skyline, and the candidate blocks for its lowest stretch.

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "arena.hpp"

namespace onchip::arena {

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

}  // namespace onchip::arena
