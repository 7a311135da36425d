// One search in several threads, a lane each.
//
// A lane owns the states of some sets of executed operators, and what is deferred of them: whoever dominates whom is in
// the same lane. What it builds for another lane goes there in parcels. docs/search.md has the argument why nothing is
// missed. Alone, a lane is the search of one thread.

#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "joint_parts.hpp"

namespace onchip::joint {

// A state, and the lane that has it.
struct Place {
    Index lane = 0;
    Index state = none;
};

// Where lanes meet: parcels, who has nothing to do, why all of them end.
class Exchange {
public:
    Exchange(Progress& progress, const Options& options)
        : progress_(progress),
          proves_(options.greed == 0),
          inboxes_(options.workers),
          floors_(options.workers, 0),
          outcome_(Outcome::exhausted) {}

    // The lane of all states that have executed a set with this hash.
    Index owner(Word hash) const { return static_cast<Index>((hash >> 32U) % static_cast<Word>(inboxes_.size())); }

    bool is_over() const { return is_over_.load(std::memory_order_relaxed); }

    // Gives parcels to their lanes and takes what has come. Waits for that while there is nothing below the upper bound
    // deferred (`floor` is the least that is), others are far behind or have too much to take. False once all is over.
    bool trade(Index lane, std::vector<Parcel>& outgoing, Cost floor, Parcel& incoming, const StopToken& stop);

    // A plan that costs less than any before; found greedily, it is the end.
    void has_found(Place goal, Cost cost);

    // Ends all lanes; the first who says why is right.
    void end(Outcome why);
    void end(std::exception_ptr error);

    // Before the lanes begin, or go on.
    void begin() {
        outcome_ = Outcome::exhausted;
        is_over_.store(false, std::memory_order_relaxed);
    }

    // Once all lanes have ended. `outcome` rethrows what one of them threw.
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
    std::vector<Cost> floors_;  // what a lane has, or has built and not given yet, costs at least so much
    Place goal_;
    Cost cost_ = none;
    Cost least_ = 0;  // of all floors and all that waits
    Outcome outcome_;
    std::exception_ptr error_;
    std::atomic<bool> is_over_{false};
};

class Lane {
public:
    Lane(Index number, const Tables& tables, const Options& options, Progress& progress, Exchange& exchange);

    // Searches until all is over; the first lane that is at an end, with or without success, ends all.
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
    std::vector<Parcel> outgoing_;  // for each lane
    Parcel incoming_;
    unsigned turns_ = 0;
};

}  // namespace onchip::joint
