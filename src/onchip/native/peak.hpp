// An order of least peak: the best-first search over which operators have run, where the cost of a path is the
// greatest need on it.
//
// Nothing is spilled, so what is resident follows from what has run: what has been written or read, and is read again.

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
    Bytes padding_bytes;  // how much of its last unit is empty
};

// An input whose bytes the outputs may take if nobody reads it later; then those inside take no room of their own.
struct Overwritable {
    Index tensor;
    Index group;  // of each group of an operator one can be overwritten: the first that may
    std::vector<Index> inside;
};

struct Operator {
    std::vector<Index> reads;  // as in all lists: ascending, no repeats
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

// Between two operators of an order. Walks on and back in the time that the operator's operands and successors take.
class Position {
public:
    // Throws std::invalid_argument for indices that are not of the problem.
    explicit Position(const Problem& problem);

    void run(Index op);        // a ready one
    void take_back(Index op);  // the last that ran

    const std::vector<Index>& ready() const { return ready_; }
    Bytes used_units() const { return used_units_; }
    // Of a ready operator: what is resident while it runs, how much more after it than before, whether nothing is
    // worse.
    Bytes need_bytes(Index op) const;
    Bytes units_added(Index op) const { return change_by(op).units; }
    bool leaves_no_more(Index op) const;

    // What tells apart which operators have run; until the next call.
    std::span<const std::uint32_t> key() { return key_of(ready_, -1); }
    std::span<const std::uint32_t> key_after(Index op);

private:
    struct Change {
        Bytes units;
        Bytes padding_come;  // the greatest of what comes
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
    std::vector<Index> awaited_;  // by operator, how many of its predecessors have not run
    std::vector<Index> unread_;   // by tensor, how many of its readers have not run
    std::vector<bool> has_run_;
    std::vector<bool> is_resident_;
    std::vector<Index> ran_;
    std::vector<Index> ready_;         // ascending
    std::map<Bytes, Index> paddings_;  // of what is resident, how often; kept where there is an alignment
    std::vector<std::uint32_t> key_;
    std::vector<Index> ready_then_;
    Bytes used_units_ = 0;
};

// What each step of an order needs; throws std::invalid_argument for what is no order.
std::vector<Bytes> needs_of(const Problem& problem, const std::vector<Index>& order);

enum class Outcome { found, exhausted, stopped, states_spent, memory_spent };

struct Options {
    Bytes least_bytes;  // where paths begin: below it no path is told from another, and more operators are safe
    Bytes most_bytes;   // paths that need more are left out
    std::int64_t most_memory_bytes;
};

// A path is looked at once for each set of operators that have run; of two that need as much, the longer one first.
class Search {
public:
    Search(Problem problem, Options options);
    Search(const Search&) = delete;  // the position knows where the problem is
    Search& operator=(const Search&) = delete;

    // Searches on until it ends, is asked to, or has looked at so many states in all.
    Outcome run(const StopToken& stop, std::int64_t most_states);

    std::int64_t states() const { return states_looked_at_.load(std::memory_order_relaxed); }
    Bytes lower_bound() const { return bound_.load(std::memory_order_relaxed); }
    const std::vector<Index>& order() const { return order_; }

private:
    struct State {
        Bytes least;
        std::size_t key_begin;
        std::uint32_t key_length;
        Index count;  // of operators that have run
        Index parent;
        Index last;
    };
    struct Waiting {
        Bytes peak;
        Bytes units;
        std::int64_t number;
        Index count;
        Index state;
        bool operator<(const Waiting& other) const;  // is looked at later
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
    std::vector<Index> table_;  // of states by the hash of their keys, -1: free
    std::priority_queue<Waiting> heap_;
    std::vector<Index> order_;
    std::vector<Index> ahead_;
    std::int64_t offered_ = 0;
    std::atomic<std::int64_t> states_looked_at_{0};
    std::atomic<Bytes> bound_;
};

}  // namespace onchip::peak
