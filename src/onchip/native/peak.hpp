// An order of least peak memory: best-first search over sets of executed operators. The cost of a path is the greatest
// need of its steps.
//
// Tensors are not spilled, so the executed operators determine the residents: tensors that have been written or read,
// and are read again.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <queue>
#include <span>
#include <vector>

#include "stop.hpp"

namespace onchip::peak {

using Index = std::int32_t;
using Bytes = std::int64_t;

inline constexpr Bytes unlimited = std::int64_t{1} << 62;

struct Tensor {
    Bytes units;          // of the alignment, rounded up
    Bytes padding_bytes;  // unused bytes of its last unit
};

// An input whose bytes the outputs may take after its last use; then the outputs in `inside` need no room.
struct Overwritable {
    Index tensor;
    Index group;  // the first possible input of each group is overwritten
    std::vector<Index> inside;
};

struct Operator {
    std::vector<Index> reads;  // like all lists: ascending, without duplicates
    std::vector<Index> writes;
    std::vector<Index> predecessors;
    std::vector<Overwritable> overwritables;
};

struct Problem {
    std::vector<Tensor> tensors;
    std::vector<Operator> operators;
    Bytes alignment_bytes;
};

// Throws std::invalid_argument for an alignment below 1 or negative sizes.
Problem problem_of(const std::vector<Bytes>& sizes_bytes, std::vector<Operator> operators, Bytes alignment_bytes);

// A position between two operators of an order. A step forward or back takes time proportional to the operator's
// operands and successors.
class Position {
public:
    // Throws std::invalid_argument for invalid indices.
    explicit Position(const Problem& problem);

    void run(Index op);        // must be ready
    void take_back(Index op);  // must be the last that ran

    const std::vector<Index>& ready() const { return ready_; }
    Bytes used_units() const { return used_units_; }
    // For a ready operator: bytes resident while it runs, change of resident units, and true if neither units nor
    // padding get worse.
    Bytes need_bytes(Index op) const;
    Bytes units_added(Index op) const { return change_by(op).units; }
    bool leaves_no_more(Index op) const;

    // A key of the set of executed operators; valid until the next call.
    std::span<const std::uint32_t> key() { return key_of(ready_, -1); }
    std::span<const std::uint32_t> key_after(Index op);

private:
    struct Change {
        Bytes units;
        Bytes padding_come;  // greatest padding of the new residents
        Bytes padding_gone;
    };

    bool has_begun(Index tensor) const;
    void take(Index tensor);
    void leave(Index tensor);
    Change change_by(Index op) const;
    std::vector<Index> inside_others(Index op) const;
    Bytes greatest_padding(Index op, const std::vector<Index>& inside) const;
    std::span<const std::uint32_t> key_of(const std::vector<Index>& ready, Index last);

    const Problem& problem_;
    std::vector<Index> producer_;               // by tensor, -1 for none
    std::vector<Index> reader_count_;           // by tensor
    std::vector<std::vector<Index>> operands_;  // by operator
    std::vector<std::vector<Index>> successors_;
    std::vector<Index> awaited_;  // by operator: predecessors that have not run
    std::vector<Index> unread_;   // by tensor: readers that have not run
    std::vector<bool> has_run_;
    std::vector<bool> is_resident_;
    std::vector<Index> ran_;
    std::vector<Index> ready_;         // ascending
    std::map<Bytes, Index> paddings_;  // multiset of the residents' paddings; used if alignment > 1
    std::vector<std::uint32_t> key_;
    std::vector<Index> ready_then_;
    Bytes used_units_ = 0;
};

// Returns the need of each step of an order. Throws std::invalid_argument if the order is invalid.
std::vector<Bytes> needs_of(const Problem& problem, const std::vector<Index>& order);

enum class Outcome { found, exhausted, stopped, states_spent, memory_spent };

struct Options {
    Bytes least_bytes;  // peaks up to here are equivalent, and more operators are safe
    Bytes most_bytes;   // paths with a greater need are pruned
    std::int64_t most_memory_bytes;
};

// Expands each set of executed operators once; of equal needs the longer path first.
class Search {
public:
    Search(Problem problem, Options options);
    Search(const Search&) = delete;  // `position_` refers to `problem_`
    Search& operator=(const Search&) = delete;

    // Continues until it ends, is stopped, or has expanded `most_states` states in total.
    Outcome run(const StopToken& stop, std::int64_t most_states);

    std::int64_t states() const { return states_looked_at_.load(std::memory_order_relaxed); }
    Bytes lower_bound() const { return bound_.load(std::memory_order_relaxed); }
    const std::vector<Index>& order() const { return order_; }

private:
    struct State {
        Bytes least;
        std::size_t key_begin;
        std::uint32_t key_length;
        Index count;  // number of executed operators
        Index parent;
        Index last;
    };
    struct Waiting {
        Bytes peak;
        Bytes units;
        std::int64_t number;
        Index count;
        Index state;
        bool operator<(const Waiting& other) const;  // true if expanded later
    };

    void expand(Index state, Bytes peak);
    void offer(Index parent, Index op, Bytes peak);
    Index find_or_add(std::span<const std::uint32_t> key);
    void enlarge();
    void walk_to(Index state);
    bool is_safe(Index op, Bytes peak);
    bool has_memory() const;

    Problem problem_;
    Options options_;
    Position position_;
    Index here_ = 0;
    std::vector<State> states_;
    std::vector<std::uint32_t> keys_;
    std::vector<Index> table_;  // hash table of states by key, -1: free
    std::priority_queue<Waiting> heap_;
    std::vector<Index> order_;
    std::vector<Index> ahead_;
    std::int64_t offered_ = 0;
    std::atomic<std::int64_t> states_looked_at_{0};
    std::atomic<Bytes> bound_;
};

}  // namespace onchip::peak
