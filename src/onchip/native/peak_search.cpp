// The best-first search for an order of least peak.

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "peak.hpp"

namespace onchip::peak {

namespace {

constexpr std::size_t first_table = 1024;
constexpr std::uint64_t spread = 0x9E3779B97F4A7C15U;

std::uint64_t hash_of(std::span<const std::uint32_t> key) {
    std::uint64_t hash = key.size();
    for (const std::uint32_t word : key) {
        hash = (hash ^ word) * spread;
        hash ^= hash >> 32U;
    }
    return hash;
}

}  // namespace

bool Search::Waiting::operator<(const Waiting& other) const {
    return std::tuple(peak, -count, units, number) > std::tuple(other.peak, -other.count, other.units, other.number);
}

Search::Search(Problem problem, Options options)
    : problem_(std::move(problem)), options_(options), position_(problem_), table_(first_table, -1), bound_(0) {
    const Index start = find_or_add(position_.key());
    states_[start].least = options_.least_bytes;
    bound_.store(options_.least_bytes, std::memory_order_relaxed);
    if (options_.least_bytes <= options_.most_bytes) heap_.push({options_.least_bytes, 0, 0, 0, start});
}

Outcome Search::run(const StopToken& stop, std::int64_t most_states) {
    const auto operators = static_cast<Index>(problem_.operators.size());
    while (!heap_.empty()) {
        if (stop.is_asked()) return Outcome::stopped;
        if (states() >= most_states) return Outcome::states_spent;
        if (!has_memory()) return Outcome::memory_spent;
        const Waiting next = heap_.top();
        heap_.pop();
        if (next.peak > states_[next.state].least) continue;
        bound_.store(next.peak, std::memory_order_relaxed);
        states_looked_at_.fetch_add(1, std::memory_order_relaxed);
        if (next.count == operators) {
            for (Index state = next.state; states_[state].count > 0; state = states_[state].parent) {
                order_.push_back(states_[state].last);
            }
            std::reverse(order_.begin(), order_.end());
            return Outcome::found;
        }
        expand(next.state, next.peak);
    }
    bound_.store(options_.most_bytes + 1, std::memory_order_relaxed);
    return Outcome::exhausted;
}

// A single safe operator replaces all others.
void Search::expand(Index state, Bytes peak) {
    walk_to(state);
    const std::vector<Index>& ready = position_.ready();
    const auto safe = std::find_if(ready.begin(), ready.end(), [&](Index op) { return is_safe(op, peak); });
    if (safe != ready.end()) {
        offer(state, *safe, peak);
        return;
    }
    for (const Index op : ready) offer(state, op, std::max(peak, position_.need_bytes(op)));
}

void Search::offer(Index parent, Index op, Bytes peak) {
    if (peak > options_.most_bytes) return;
    const Index child = find_or_add(position_.key_after(op));
    State& own = states_[child];
    if (peak >= own.least) return;
    own.least = peak;
    own.parent = parent;
    own.last = op;
    own.count = states_[parent].count + 1;
    const Bytes units = position_.used_units() + position_.units_added(op);
    heap_.push({peak, units, ++offered_, own.count, child});
}

Index Search::find_or_add(std::span<const std::uint32_t> key) {
    const std::size_t mask = table_.size() - 1;
    std::size_t at = hash_of(key) & mask;
    for (; table_[at] >= 0; at = (at + 1) & mask) {
        const State& other = states_[table_[at]];
        const auto words = std::span(keys_).subspan(other.key_begin, other.key_length);
        if (std::equal(key.begin(), key.end(), words.begin(), words.end())) return table_[at];
    }
    const auto added = static_cast<Index>(states_.size());
    table_[at] = added;
    states_.push_back({unlimited, keys_.size(), static_cast<std::uint32_t>(key.size()), 0, -1, -1});
    keys_.insert(keys_.end(), key.begin(), key.end());
    if (2 * states_.size() > table_.size()) enlarge();
    return added;
}

void Search::enlarge() {
    table_.assign(2 * table_.size(), -1);
    const std::size_t mask = table_.size() - 1;
    for (Index state = 0; state < static_cast<Index>(states_.size()); ++state) {
        std::size_t at = hash_of(std::span(keys_).subspan(states_[state].key_begin, states_[state].key_length)) & mask;
        while (table_[at] >= 0) at = (at + 1) & mask;
        table_[at] = state;
    }
}

// Goes back to the common ancestor of the two paths, then forward.
void Search::walk_to(Index there) {
    ahead_.clear();
    Index target = there;
    while (here_ != target) {
        const State& from = states_[here_];
        const State& to = states_[target];
        if (to.count > 0 && to.count >= from.count) {
            ahead_.push_back(to.last);
            target = to.parent;
        } else {
            position_.take_back(from.last);
            here_ = from.parent;
        }
    }
    for (auto op = ahead_.rbegin(); op != ahead_.rend(); ++op) position_.run(*op);
    here_ = there;
}

// Returns true if it needs no more than the current peak and does not increase the residents.
bool Search::is_safe(Index op, Bytes peak) {
    return position_.leaves_no_more(op) && position_.need_bytes(op) <= peak;
}

bool Search::has_memory() const {
    const std::size_t used = states_.size() * (sizeof(State) + sizeof(Waiting)) + table_.size() * sizeof(Index) +
                             keys_.size() * sizeof(std::uint32_t);
    return static_cast<std::int64_t>(used) < options_.most_memory_bytes &&
           states_.size() < static_cast<std::size_t>(std::int32_t{1} << 30);
}

}  // namespace onchip::peak
