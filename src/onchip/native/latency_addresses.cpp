// The choice of addresses: the free range that is available earliest.

#include "latency_addresses.hpp"

#include <algorithm>
#include <numeric>

namespace onchip::latency {

void AddressMap::clear(Bytes capacity_bytes, Placing placing) {
    capacity_bytes_ = capacity_bytes;
    placing_ = placing;
    all_.clear();
}

void AddressMap::put(const Rectangle& one) {
    if (one.bytes == 0) return;
    const auto later = [](const Rectangle& first, const Rectangle& second) { return first.stop > second.stop; };
    all_.insert(std::upper_bound(all_.begin(), all_.end(), one, later), one);
}

Rectangle AddressMap::remove(Bytes offset, Index start, Index stop) {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Rectangle& one) {
        return one.offset == offset && one.start == start && one.stop == stop;
    });
    if (found == all_.end()) return {};
    const Rectangle removed = *found;
    all_.erase(found);
    return removed;
}

void AddressMap::extend(Bytes offset, Index start, Index stop, Index new_stop) {
    put({offset, remove(offset, start, stop).bytes, start, new_stop});
}

bool AddressMap::is_free(const Rectangle& one) const {
    return std::none_of(all_.begin(), all_.end(), [&](const Rectangle& other) {
        return other.start < one.stop && one.start < other.stop && other.offset < one.offset + one.bytes &&
               one.offset < other.offset + other.bytes;
    });
}

FoundAddress AddressMap::earliest(Bytes bytes, Index wanted, Index needed, Index stop) {
    best_ = {};
    if (bytes > capacity_bytes_) return best_;
    if (bytes == 0) return {0, wanted};
    paint(wanted, needed, stop);
    look(bytes, wanted, needed, true);
    look(bytes, wanted, needed, false);
    return best_;
}

// Starts with the latest stop, so that each range of bytes is painted once.
void AddressMap::paint(Index wanted, Index needed, Index stop) {
    beside_.clear();
    edges_.assign({0, capacity_bytes_});
    for (const Rectangle& one : all_) {
        if (one.stop <= wanted) break;
        if (stop <= one.start) continue;
        beside_.push_back(one);
        edges_.push_back(one.offset);
        edges_.push_back(one.offset + one.bytes);
    }
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    free_from_.assign(edges_.size(), 0);
    next_.resize(edges_.size());
    std::iota(next_.begin(), next_.end(), 0);
    const auto unpainted = [this](std::size_t at) {
        while (next_[at] != static_cast<Index>(at)) at = static_cast<std::size_t>(next_[at] = next_[next_[at]]);
        return at;
    };
    for (const Rectangle& one : beside_) {
        const auto edge = std::lower_bound(edges_.begin(), edges_.end(), one.offset);
        const Bytes end = one.offset + one.bytes;
        for (std::size_t at = unpainted(edge - edges_.begin()); edges_[at] < end; at = unpainted(at)) {
            free_from_[at] = std::min(one.stop, needed + 1);
            next_[at] = static_cast<Index>(at) + 1;
        }
    }
}

// Considers each range of `bytes` bytes directly above, or directly below, an edge.
void AddressMap::look(Bytes bytes, Index wanted, Index needed, bool is_above) {
    latest_.clear();  // candidates for the latest range of a later window
    std::size_t first = 0, last = 0, oldest = 0;
    for (std::size_t edge = 0; edge < edges_.size(); ++edge) {
        const Bytes offset = is_above ? edges_[edge] : edges_[edge] - bytes;
        if (offset < 0) continue;
        if (offset + bytes > capacity_bytes_) return;
        while (edges_[first + 1] <= offset) ++first;
        for (; edges_[last] < offset + bytes; ++last) {
            while (latest_.size() > oldest && free_from_[latest_.back()] <= free_from_[last]) latest_.pop_back();
            latest_.push_back(last);
        }
        while (latest_[oldest] < first) ++oldest;
        const Index position = std::max(wanted, free_from_[latest_[oldest]]);
        if (position > needed) continue;
        const bool is_better = placing_ == Placing::highest ? offset > best_.offset : offset < best_.offset;
        if (best_.offset < 0 || position < best_.position || (position == best_.position && is_better)) {
            best_ = {offset, position};
        }
    }
}

std::vector<BusyBytes::Range>::const_iterator BusyBytes::at(Bytes offset) const {
    const auto starts_later = [](Bytes one, const Range& range) { return one < range.offset; };
    return std::upper_bound(all_.begin(), all_.end(), offset, starts_later) - 1;
}

Cycles BusyBytes::until(Bytes offset, Bytes bytes) const {
    Cycles latest = 0;
    if (bytes == 0) return latest;
    for (auto range = at(offset); range != all_.end() && range->offset < offset + bytes; ++range) {
        latest = std::max(latest, range->until);
    }
    return latest;
}

void BusyBytes::use(Bytes offset, Bytes bytes, Cycles until) {
    if (bytes == 0) return;
    until = std::max(until, this->until(offset, bytes));
    const auto last = all_.begin() + (at(offset + bytes) - all_.begin());
    const Cycles behind = last->until;
    const bool ends_there = last->offset == offset + bytes;
    auto first = all_.begin() + (at(offset) - all_.begin());
    if (first->offset < offset) ++first;
    const auto after = last + (ends_there ? 0 : 1);
    const auto place = all_.erase(first, std::max(first, after));
    const Range added[2] = {{offset, until}, {offset + bytes, behind}};
    all_.insert(place, added, added + (ends_there ? 1 : 2));
}

}  // namespace onchip::latency
