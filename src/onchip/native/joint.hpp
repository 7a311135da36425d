// Order and residencies together: a best-first search over partial plans that proves the least cost of transfers.
//
// docs/search.md has the argument why each part is exact; `tests/oracles/joint_search.py` is a plain version.
//
// Words. Operators and tensors are numbered from 0 on; units are of the scratchpad's alignment. A state is a partial
// plan: what is executed, what is resident, of which tensors that others still read DRAM has a copy. A tensor is
// charged when it is evicted: the load that brings it back, and a store unless there is a copy. A child of a state
// evicts a set of tensors (those that the operator reads leave while it runs, overwritten), runs one operator, then
// whatever is safe to run at once. Children are deferred: built when
// it is their turn. A choice is what is deferred of sets of evictions that are not listed yet. `joint_parts.hpp` has
// the parts.

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
    Cost store_cost = 0;       // 0 where DRAM has a copy whenever it could leave
    Cost first_load_cost = 0;  // what of these the first of two parts pays
    Cost first_store_cost = 0;
    bool may_end_short = false;  // it may end within the last, partial unit of the capacity
};

// What an operator reads, and may write to the bytes of, if nobody reads it after that or it leaves: that saves units
// while the operator runs. Of all of one group one can be overwritten.
struct Overwritable {
    Index tensor = none;
    Units units = 0;
    Index group = 0;
};

// Its lists rise; what has to run before it has lower numbers.
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

    // Throws std::invalid_argument, saying which entry, for what no problem has.
    void check() const;
};

// Of a problem of two parts, which divide each cost, it may be known what each of them pays at least.
//
// With greed, each executed operator counts as so much cost saved: plans come soon, and only an exhausted search proves
// anything. Another seed breaks ties otherwise.
struct Options {
    Cost upper_bound = unlimited;  // only plans below it count
    Cost greed = 0;
    std::uint64_t seed = 0;
    std::int64_t most_bytes = unlimited;
    Cost least_of_first = 0;
    Cost least_of_second = 0;
    Index workers = 1;  // threads; with one the same is found in the same order each time

    // Throws std::invalid_argument for what goes beyond 64 bits.
    void check(const Problem& problem) const;
};

// Exhausted: no plan costs less than the upper bound. A search whose states are spent can be resumed.
enum class Outcome { found, exhausted, stopped, states_spent, memory_spent };

// One operator, and what is evicted before it.
struct Move {
    Index runs = none;
    std::vector<Index> evicted;
};

class Search {
public:
    Search(const Problem& problem, const Options& options);
    ~Search();

    // Searches on until so many states are spent in all. Throws std::logic_error if it is running, was asked to stop or
    // is out of memory: what was being built then is lost.
    Outcome run(const StopToken& stop, std::int64_t most_states = unlimited);

    // For any thread at any time: `run` returns between two states, as if its states were spent.
    void pause();
    // For any thread at any time: from now on only plans below this cost count.
    void lower_upper_bound(Cost cost);

    // How far it is, for any thread at any time: the states built and choices listed, and a bound on every plan's cost.
    std::int64_t states() const;
    Cost lower_bound() const;

    // Of the plan found; none while `run` runs. Several workers may have one when they are stopped, which is not proven
    // to be the cheapest.
    Cost cost() const;
    std::vector<Move> moves() const;

private:
    struct Parts;

    std::unique_ptr<Parts> parts_;
    std::atomic<bool> is_running_{false};
    std::atomic<bool> is_lost_{false};
};

}  // namespace onchip::joint
