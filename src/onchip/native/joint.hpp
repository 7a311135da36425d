// Joint search over order and residencies: best-first search over partial plans that proves the least transfer cost.
//
// docs/search.md proves that each part is exact.
//
// Terms. Operators and tensors are numbered from 0; units are of the scratchpad's alignment. A state is a partial plan:
// the executed operators, the resident tensors, and those with a copy in DRAM that later operators still read. A tensor
// is charged when it is evicted: its reload, and a store unless DRAM has a copy. A child of a state evicts a set of
// tensors (inputs of the operator leave while it runs, overwritten), runs one operator, then runs all safe operators.
// Children are deferred: they are built when they are popped. A choice is a deferred family of eviction sets that are
// not listed yet. `joint_parts.hpp` has the components.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "stop.hpp"

namespace onchip::joint {

using Index = std::int32_t;
using Units = std::int64_t;
using Cost = std::int64_t;

inline constexpr Index none = -1;
inline constexpr std::int64_t most_in_all = std::int64_t{1} << 60;
inline constexpr std::int64_t unlimited = std::int64_t{1} << 62;
inline constexpr Index most_workers = 256;

struct Tensor {
    Units units = 1;
    Cost load_cost = 0;
    Cost store_cost = 0;         // 0 if DRAM has a copy whenever the tensor could leave
    bool may_end_short = false;  // true if it may end within the last, partial unit of the capacity
};

// An input whose bytes the outputs may take if no later operator reads it or if it is evicted; that saves units while
// the operator runs. At most one input of each group is overwritten.
struct Overwritable {
    Index tensor = none;
    Units units = 0;
    Index group = 0;
};

// The lists ascend; predecessors have lower numbers.
struct Operator {
    std::vector<Index> reads;
    std::vector<Index> writes;
    std::vector<Index> predecessors;
    std::vector<Overwritable> overwritables;
};

struct Problem {
    std::vector<Tensor> tensors;
    std::vector<Operator> operators;
    Units capacity_units = 0;

    // Throws std::invalid_argument, with the entry, if the problem is invalid.
    void check() const;
};

// With greed, each executed operator counts as that much cost saved: plans are found sooner, but only an exhausted
// search proves a bound. Another seed changes the ties.
struct Options {
    Cost upper_bound = unlimited;  // only plans below it are accepted
    Cost greed = 0;
    std::uint64_t seed = 0;
    std::int64_t most_bytes = unlimited;
    Index workers = 1;  // threads; a single one is deterministic

    // Throws std::invalid_argument if a value is out of range.
    void check(const Problem& problem) const;
};

// Exhausted: no plan costs less than the upper bound. A search with spent states can be resumed.
enum class Outcome { found, exhausted, stopped, states_spent, memory_spent };

// An operator, and the tensors evicted before it.
struct Move {
    Index runs = none;
    std::vector<Index> evicted;
};

class Search {
public:
    Search(const Problem& problem, const Options& options);
    ~Search();

    // Continues until `most_states` states are spent in total. Throws std::logic_error if the search is running, was
    // stopped or ran out of memory, because the state being built is lost then.
    Outcome run(const StopToken& stop, std::int64_t most_states = unlimited);

    // Makes `run` return between two states, as if its states were spent. May be called by any thread.
    void pause();
    // Restricts the search to plans below this cost from now on. May be called by any thread.
    void lower_upper_bound(Cost cost);

    // Progress, for any thread: number of states built and choices listed, and a lower bound on every plan's cost.
    std::int64_t states() const;
    Cost lower_bound() const;

    // The plan found; none while `run` runs. If several workers were stopped, the plan may not be proven to be the
    // cheapest.
    Cost cost() const;
    std::vector<Move> moves() const;

private:
    struct Parts;

    std::unique_ptr<Parts> parts_;
    std::atomic<bool> is_running_{false};
    std::atomic<bool> is_lost_{false};
};

}  // namespace onchip::joint
