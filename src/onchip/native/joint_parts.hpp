// The components of the joint search: storage, tables of the problem, states, dominance, queue, evictions and lanes.

#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <map>
#include <memory_resource>
#include <mutex>
#include <new>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "joint.hpp"
#include "words.hpp"

namespace onchip::joint {

using Word = std::uint64_t;

inline constexpr Index word_bits = 64;

// Sets of operators or tensors are bits in words stored elsewhere.

inline Index words_for(std::size_t count) {
    return static_cast<Index>((count + word_bits - 1) / word_bits);
}

inline std::size_t word_of(Index item) {
    return static_cast<std::size_t>(item) / word_bits;
}

inline Word bit_of(Index item) {
    return Word{1} << (static_cast<std::size_t>(item) % word_bits);
}

inline bool has(const Word* set, Index item) {
    return (set[word_of(item)] & bit_of(item)) != 0;
}

inline void add(Word* set, Index item) {
    set[word_of(item)] |= bit_of(item);
}

inline void remove(Word* set, Index item) {
    set[word_of(item)] &= ~bit_of(item);
}

// Hashes a number (SplitMix64).
inline Word mixed(Word word) {
    return onchip::mixed((word + 1) * 0x9E3779B97F4A7C15U);
}

// Removes the lowest item of a word and returns it.
inline Index take_lowest(Word& word) {
    const int lowest = std::countr_zero(word);
    word &= word - 1;
    return lowest;
}

// Memory of at most `most_bytes` bytes; throws std::bad_alloc beyond.
class Budget : public std::pmr::memory_resource {
public:
    explicit Budget(std::int64_t most_bytes) : left_bytes_(static_cast<std::size_t>(std::min(most_bytes, reach))) {}

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (bytes > left_bytes_) throw std::bad_alloc();
        void* place = std::pmr::new_delete_resource()->allocate(bytes, alignment);
        left_bytes_ -= bytes;
        return place;
    }
    void do_deallocate(void* place, std::size_t bytes, std::size_t alignment) override {
        std::pmr::new_delete_resource()->deallocate(place, bytes, alignment);
        left_bytes_ += bytes;
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

    static constexpr std::int64_t reach = std::int64_t{1} << 34;  // limit of all indices

    std::size_t left_bytes_;
};

// Lists stored contiguously.
class Lists {
public:
    void append(const std::vector<Index>& list) {
        items_.insert(items_.end(), list.begin(), list.end());
        stops_.push_back(items_.size());
    }
    std::span<const Index> operator[](Index at) const {
        return {items_.data() + stops_[at], stops_[at + 1] - stops_[at]};
    }

private:
    std::vector<std::size_t> stops_{0};
    std::vector<Index> items_;
};

// The components of the joint search: tables of the problem, states, dominance, queue, evictions.

// The progress of a search. Only plans below the upper bound are accepted; it falls to the cost of the best plan found.
struct Progress {
    std::atomic<std::int64_t> states{0};
    std::atomic<std::int64_t> most_states{unlimited};
    std::atomic<Cost> lower_bound{0};
    std::atomic<Cost> upper_bound{unlimited};

    void lower_upper_bound(Cost cost) {
        Cost known = upper_bound.load(std::memory_order_relaxed);
        while (cost < known && !upper_bound.compare_exchange_weak(known, cost, std::memory_order_relaxed)) {
        }
    }
};

// The problem and derived tables.
struct Tables {
    // The outputs of an operator that others read.
    struct Left {
        Units units = 0;
        Cost cost = 0;  // of evicting all of them
        bool may_end_short = false;
    };

    explicit Tables(const Problem& problem);

    std::vector<Tensor> tensors;
    Index operator_count;
    Index operator_words;
    Index tensor_words;
    Units capacity_units;
    Lists reads;
    Lists writes;
    Lists predecessors;
    Lists successors;
    Lists readers;                                         // by tensor
    std::vector<std::vector<Overwritable>> overwritables;  // by operator, sorted by group
    std::vector<bool> is_overwritable;                     // by tensor
    std::vector<Word> may_end_short;                       // a set of tensors
    std::vector<bool> operands_may_end_short;              // by operator
    std::vector<Left> left;                                // by operator
    std::vector<Word> hashes;                              // by operator; the hash of a set is their exclusive or
};

// Sets of tensors evicted together: each extends an earlier set by one tensor; `none` is the empty set.
class EvictedSets {
public:
    explicit EvictedSets(Budget& budget) : links_(&budget) {}

    Index with(Index set, Index tensor) {
        links_.push_back({tensor, set});
        return static_cast<Index>(links_.size() - 1);
    }
    template <typename Visit>
    void visit(Index set, Visit visit_tensor) const {
        for (; set != none; set = links_[set].rest) visit_tensor(links_[set].tensor);
    }

private:
    struct Link {
        Index tensor = none;
        Index rest = none;
    };

    std::pmr::vector<Link> links_;
};

struct State {
    Word hash = 0;  // of the set of executed operators
    Cost cost = 0;  // including the reload of every live evicted tensor
    Units used_units = 0;
    std::size_t first_move = 0;  // position of the operators run since its parent
    Index steps = 0;             // number of executed operators
    Index parent = none;
    Index evicted = none;  // the set evicted before the first of its operators
    Index peer = none;     // next state with the same executed operators
    Index lane = 0;        // lane of the parent and of the evicted set
    bool is_dominated = false;
};

// States with their rows and moves in transit to another lane; `first_move` is relative to the parcel.
struct Parcel {
    std::vector<State> states;
    std::vector<Word> rows;
    std::vector<Index> moves;
    Cost least_cost = unlimited;

    void append(const Parcel& more);
    void clear();
};

// The states built so far, and the construction of children.
class States {
public:
    States(const Tables& tables, const EvictedSets& sets, Budget& budget);

    Index size() const { return static_cast<Index>(states_.size()); }
    State& operator[](Index state) { return states_[state]; }
    const State& operator[](Index state) const { return states_[state]; }
    const Word* executed(Index state) const { return chunks_[state >> chunk_bits_].data() + row_in_chunk(state); }
    const Word* ready(Index state) const { return executed(state) + tables_.operator_words; }
    const Word* resident(Index state) const { return ready(state) + tables_.operator_words; }
    const Word* copied(Index state) const { return resident(state) + tables_.tensor_words; }

    // Both return the new state, which is the last, or none after a stop request.
    Index build_root(const StopToken& stop);
    Index build(Index parent, Index runs, Index evicted, const StopToken& stop);
    void drop_last();
    void move_last_to(Parcel& parcel);
    Index take(const Parcel& parcel, std::size_t at);

    // The operators that a state ran after its parent.
    std::span<const Index> moves(Index state) const;

    Cost evict_cost(Index state, Index tensor) const {
        const Tensor& one = tables_.tensors[tensor];
        return has(copied(state), tensor) ? one.load_cost : one.load_cost + one.store_cost;
    }
    // Returns a lower bound on the cost of a plan that continues a state with evictions of the given cost.
    Cost least_cost(Index state, Cost evictions) const { return states_[state].cost + evictions; }
    // Returns the units missing for an operator if no live tensor is evicted; negative for free units.
    Units units_over(Index state, Index runs) const;
    bool fits(Index state, Index runs) const;
    // Returns true if no other unexecuted operator reads the tensor.
    bool is_last_use(Index state, Index tensor, Index runs) const;

private:
    std::size_t row_in_chunk(Index state) const { return row_words_ * (state & ((1 << chunk_bits_) - 1)); }
    Word* row(Index state) { return chunks_[state >> chunk_bits_].data() + row_in_chunk(state); }
    Index add_row();
    Units units_with(Index state, Index runs) const;
    Units units_saved(Index state, Index runs) const;
    void execute(Index state, Index runs);
    void drop_if_dead(Index state, Index tensor, Index runs);
    bool have_all_run(Index state, std::span<const Index> operators) const;
    bool run_safe_moves(Index state, const StopToken& stop);
    Index safe_move(Index state) const;
    bool is_safe(Index state, Index runs) const;

    const Tables& tables_;
    const EvictedSets& sets_;
    std::size_t row_words_;
    std::pmr::vector<State> states_;
    int chunk_bits_;                                   // log2 of the number of states per chunk
    std::pmr::vector<std::pmr::vector<Word>> chunks_;  // by state: executed, ready, resident, copied
    std::pmr::vector<Index> moves_;
};

// The undominated states, by executed operators.
class Frontier {
public:
    Frontier(const Tables& tables, States& states, Budget& budget)
        : tables_(tables), states_(states), first_(&budget) {}

    // Returns false if the state is dominated; otherwise marks the states that it dominates.
    bool enter(Index state);

private:
    Index& first_peer(Index state);
    bool dominates(Index better, Index worse) const;

    const Tables& tables_;
    States& states_;
    std::pmr::unordered_map<Word, Index> first_;  // by hash of the set executed: its first state
};

// A child that is not built yet; or, if `following` is not none, a choice: the sets that contain `evicted` and
// otherwise only candidates from that position on.
struct Deferred {
    Index parent = none;
    Index runs = none;
    Index evicted = none;
    Index following = none;
};

// The deferred children by priority (cost minus the savings that greed credits), then by decreasing number of executed
// operators; ties are first in, first out, or random by the seed.
class Queue {
public:
    struct Popped {
        Deferred deferred;
        Cost least_cost = 0;
    };

    Queue(const Options& options, const Progress& progress, Budget& budget)
        : options_(options), progress_(progress), by_priority_(&budget) {}

    bool accepts(Cost cost) const { return cost < progress_.upper_bound.load(std::memory_order_relaxed); }
    bool has_any() const { return !by_priority_.empty() && accepts(floor()); }

    // Lower bound on the cost of the deferred children; 0 in a greedy search.
    Cost floor() const {
        if (by_priority_.empty()) return unlimited;
        return options_.greed == 0 ? by_priority_.begin()->first.priority : 0;
    }

    // `cost`: of the child; `least_cost`: lower bound on plans through it; `steps`: operators executed after it.
    void push(const Deferred& child, Cost least_cost, Cost cost, Index steps);
    Popped pop();

private:
    struct Key {
        Cost priority = 0;
        Cost cost = 0;
        Index steps = 0;
        bool operator<(const Key& other) const {
            if (priority != other.priority) return priority < other.priority;
            return cost != other.cost ? cost < other.cost : steps > other.steps;
        }
    };

    const Options& options_;
    const Progress& progress_;
    std::pmr::map<Key, std::pmr::deque<Deferred>> by_priority_;
    std::uint64_t popped_ = 0;
};

// Lists the inclusion-minimal eviction sets that make an operator fit, a limited number of nodes at a time.
class Evictions {
public:
    Evictions(const Tables& tables, const States& states, EvictedSets& sets, Queue& queue, Budget& budget);

    // Defers a child for each set of a choice, and the sets not listed yet. Returns false after a stop request.
    bool defer(const Deferred& choice, const StopToken& stop);

private:
    // A resident tensor that may be evicted.
    struct Candidate {
        Index tensor = none;
        Index next_reader = none;  // its first reader that has not run
        Units units = 0;
        Cost cost = 0;
        Index rather = none;  // the earlier candidate that it yields to
        Index group = none;   // of overwritten inputs: at most one each
        bool may_end_short = false;
        bool is_chosen = false;
    };

    // A candidate chosen on the path, and the set including it once it is needed.
    struct Chosen {
        Index candidate = none;
        Index set = none;
    };

    // A node of the enumeration: `over` excess units, with candidates left from `following` on.
    struct Node {
        Units over = 0;
        Cost cost = 0;  // of the evictions
        Index following = 0;
    };

    void list_candidates(Index state, Index runs);
    void list_residents(Index state);
    void list_overwritables(Index state, Index runs);
    bool leaves_rather(Index state, const Candidate& rather, const Candidate& other);
    bool runs_before(Index first, Index second);
    Index next_reader(Index state, std::span<const Index> readers, std::size_t& at) const;

    Node begin(const Deferred& choice);
    bool holds(Units over) const;
    bool is_minimal(Units over);
    bool has_to_stay(const Candidate& one) const;
    void choose(Node& node);
    void take_back(Node& node);
    void push(const Deferred& choice, Cost cost, Index following);
    void push_rest(const Deferred& choice, Node node);
    Cost worth_of_a_unit(Units over) const;
    Cost least_cost_from(Index following, Units over, Cost worth) const;

    const Tables& tables_;
    const States& states_;
    EvictedSets& sets_;
    Queue& queue_;
    std::pmr::vector<std::pmr::vector<Word>> ancestors_;  // by operator; empty until needed
    std::vector<Index> walked_;
    std::vector<Candidate> residents_;  // of the state `listed_`
    std::vector<Candidate> candidates_;
    std::vector<Chosen> path_;
    Index listed_ = none;
    bool operands_may_end_short_ = false;
};

// A search in several threads, with one lane per thread (hash-distributed A*).
//
// A lane owns all states of certain sets of executed operators, with their deferred children, so dominance is local.
// States built for other lanes are sent in parcels. docs/search.md proves that no state is lost. A single lane is a
// sequential search.

// A state and its lane.
struct Place {
    Index lane = 0;
    Index state = none;
};

// The meeting point of lanes: parcels, idle lanes, and the reason of the end.
class Exchange {
public:
    Exchange(Progress& progress, const Options& options)
        : progress_(progress),
          proves_(options.greed == 0),
          inboxes_(options.workers),
          floors_(options.workers, 0),
          outcome_(Outcome::exhausted) {}

    // Returns the lane of all states whose set of executed operators has this hash.
    Index owner(Word hash) const { return static_cast<Index>((hash >> 32U) % static_cast<Word>(inboxes_.size())); }

    bool is_over() const { return is_over_.load(std::memory_order_relaxed); }

    // Delivers parcels and takes the received ones. Waits while the lane has no deferred child below the upper bound
    // (`floor` is the least cost), while others lag far behind, or while others have full inboxes. Returns false once
    // the search has ended.
    bool trade(Index lane, std::vector<Parcel>& outgoing, Cost floor, Parcel& incoming, const StopToken& stop);

    // Records a cheaper plan; ends a greedy search.
    void has_found(Place goal, Cost cost);

    // Ends all lanes; the first reason counts.
    void end(Outcome why);
    void end(std::exception_ptr error);

    // Call before the lanes start or resume.
    void begin() {
        outcome_ = Outcome::exhausted;
        is_over_.store(false, std::memory_order_relaxed);
    }

    // Call after all lanes have ended. `outcome` rethrows a lane's exception.
    Outcome outcome() const;
    Place goal() const { return goal_; }
    Cost cost() const { return cost_; }

private:
    bool is_idle(Index lane) const { return floors_[lane] >= progress_.upper_bound.load(std::memory_order_relaxed); }
    bool has_waiting(Index lane) const { return !inboxes_[lane].states.empty(); }
    bool is_all_done() const;
    bool is_far_ahead(Index lane) const;
    bool is_another_crowded(Index lane) const;
    void raise_bound();
    void end_held(Outcome why);

    Progress& progress_;
    const bool proves_;
    std::mutex lock_;
    std::condition_variable news_;
    std::vector<Parcel> inboxes_;
    std::vector<Cost> floors_;  // by lane: lower bound on its deferred and undelivered states
    Place goal_;
    Cost cost_ = none;
    Cost least_ = 0;  // minimum over all floors and parcels
    Outcome outcome_;
    std::exception_ptr error_;
    std::atomic<bool> is_over_{false};
};

class Lane {
public:
    Lane(Index number, const Tables& tables, const Options& options, Progress& progress, Exchange& exchange);

    // Runs until the search ends; the first lane that finishes, with or without success, ends all lanes.
    void run(const StopToken& stop);

    const States& states() const { return states_; }
    const EvictedSets& sets() const { return sets_; }

private:
    bool is_alone() const { return options_.workers == 1; }
    Outcome go_on(const StopToken& stop);
    bool trade(const StopToken& stop);
    bool settle(Index state, const StopToken& stop);
    bool defer_children(Index state, const StopToken& stop);
    bool go_on_with(const Queue::Popped& popped, const StopToken& stop);

    const Index number_;
    const Tables& tables_;
    const Options& options_;
    Progress& progress_;
    Exchange& exchange_;
    Budget budget_;
    EvictedSets sets_;
    States states_;
    Frontier frontier_;
    Queue queue_;
    Evictions evictions_;
    std::vector<Parcel> outgoing_;  // by lane
    Parcel incoming_;
    unsigned turns_ = 0;
};

}  // namespace onchip::joint
