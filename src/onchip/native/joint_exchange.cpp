// The exchange between lanes.

#include <algorithm>
#include <chrono>

#include "joint_lanes.hpp"

namespace onchip::joint {

namespace {

constexpr std::size_t crowded_states = 1024;
constexpr Cost shares_of_a_lead = 16;
constexpr std::chrono::milliseconds between_looks{2};  // of the stop token

}  // namespace

bool Exchange::trade(Index lane, std::vector<Parcel>& outgoing, Cost floor, Parcel& incoming, const StopToken& stop) {
    std::unique_lock held(lock_);
    for (std::size_t other = 0; other < outgoing.size(); ++other) {
        if (outgoing[other].states.empty()) continue;
        inboxes_[other].append(outgoing[other]);
        outgoing[other].clear();
        news_.notify_all();
    }
    floors_[lane] = floor;
    raise_bound();
    while (!has_waiting(lane) && !is_over() && !stop.is_asked()) {
        if (is_all_done()) {
            raise_bound();
            end_held(Outcome::exhausted);
        }
        if (!is_idle(lane) && !is_far_ahead(lane) && !is_another_crowded(lane)) break;
        if (!is_over()) news_.wait_for(held, between_looks);
    }
    const bool goes_on = !is_over() && !stop.is_asked();
    if (goes_on && has_waiting(lane)) {
        std::swap(incoming, inboxes_[lane]);
        floors_[lane] = std::min(floors_[lane], incoming.least_cost);
        news_.notify_all();
    }
    return goes_on;
}

// Returns true if every lane is idle and no parcel is on its way.
bool Exchange::is_all_done() const {
    for (Index lane = 0; lane < static_cast<Index>(floors_.size()); ++lane) {
        if (!is_idle(lane) || has_waiting(lane)) return false;
    }
    return true;
}

// Returns true if states of this cost are probably above the optimum while other lanes have cheaper ones.
bool Exchange::is_far_ahead(Index lane) const {
    const Cost most = progress_.upper_bound.load(std::memory_order_relaxed);
    const Cost lead = most == unlimited ? 0 : (most - least_) / shares_of_a_lead;
    return proves_ && floors_[lane] > least_ + lead;
}

bool Exchange::is_another_crowded(Index lane) const {
    for (Index other = 0; other < static_cast<Index>(inboxes_.size()); ++other) {
        if (other != lane && inboxes_[other].states.size() > crowded_states) return true;
    }
    return false;
}

// Raises the lower bound to the minimum over lanes and parcels: every undiscovered plan extends a deferred child, or a
// state in a parcel.
void Exchange::raise_bound() {
    if (!proves_) return;
    Cost least = progress_.upper_bound.load(std::memory_order_relaxed);
    for (const Cost floor : floors_) least = std::min(least, floor);
    for (const Parcel& inbox : inboxes_) least = std::min(least, inbox.least_cost);
    if (least == unlimited || least <= least_) return;
    least_ = least;
    progress_.lower_bound.store(least, std::memory_order_relaxed);
    news_.notify_all();
}

void Exchange::has_found(Place goal, Cost cost) {
    const std::scoped_lock held(lock_);
    if (cost > progress_.upper_bound.load(std::memory_order_relaxed)) return;
    goal_ = goal;
    cost_ = cost;
    progress_.lower_upper_bound(cost);
    if (!proves_) end_held(Outcome::found);
}

void Exchange::end(Outcome why) {
    const std::scoped_lock held(lock_);
    end_held(why);
}

void Exchange::end(std::exception_ptr error) {
    const std::scoped_lock held(lock_);
    if (!error_) error_ = std::move(error);
    end_held(Outcome::stopped);
}

void Exchange::end_held(Outcome why) {
    if (!is_over()) outcome_ = why;
    is_over_.store(true, std::memory_order_relaxed);
    news_.notify_all();
}

Outcome Exchange::outcome() const {
    if (error_) std::rethrow_exception(error_);
    const bool is_cheapest = goal_.state != none && cost_ <= progress_.upper_bound.load(std::memory_order_relaxed);
    return outcome_ == Outcome::exhausted && is_cheapest ? Outcome::found : outcome_;
}

}  // namespace onchip::joint
