// A search in several threads, with one lane per thread (hash-distributed A*).
//
// A lane owns all states of certain sets of executed operators, with their deferred children, so dominance is local.
// States built for other lanes are sent in parcels. docs/search.md proves that no state is lost. A single lane is a
// sequential search.

#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "joint_parts.hpp"

namespace onchip::joint {

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
