// Best-first search: builds the cheapest deferred child, unless it is dominated.

#include "joint_lanes.hpp"

namespace onchip::joint {

namespace {

constexpr unsigned turns_between_trades = 16;

}  // namespace

Lane::Lane(Index number, const Tables& tables, const Options& options, Progress& progress, Exchange& exchange)
    : number_(number),
      tables_(tables),
      options_(options),
      progress_(progress),
      exchange_(exchange),
      budget_(options.most_bytes / options.workers),
      sets_(budget_),
      states_(tables, sets_, budget_),
      frontier_(tables, states_, budget_),
      queue_(options, progress, budget_),
      evictions_(tables, states_, sets_, queue_, budget_),
      outgoing_(options.workers) {}

void Lane::run(const StopToken& stop) {
    try {
        exchange_.end(go_on(stop));
    } catch (const std::bad_alloc&) {
        exchange_.end(Outcome::memory_spent);
    } catch (...) {
        exchange_.end(std::current_exception());
    }
}

Outcome Lane::go_on(const StopToken& stop) {
    if (number_ == 0 && states_.size() == 0) {
        const Index root = states_.build_root(stop);
        if (root == none || !settle(root, stop)) return Outcome::stopped;
    }
    while (true) {
        if (!is_alone() && (!queue_.has_any() || ++turns_ % turns_between_trades == 0) && !trade(stop)) {
            return Outcome::stopped;
        }
        if (exchange_.is_over() || (is_alone() && !queue_.has_any())) return Outcome::exhausted;
        if (stop.is_asked()) return Outcome::stopped;
        if (progress_.states.load(std::memory_order_relaxed) >= progress_.most_states.load(std::memory_order_relaxed)) {
            return Outcome::states_spent;
        }
        if (queue_.has_any() && !go_on_with(queue_.pop(), stop)) return Outcome::stopped;
    }
}

// Returns false after a stop request.
bool Lane::go_on_with(const Queue::Popped& popped, const StopToken& stop) {
    const auto& [next, least_cost] = popped;
    if (states_[next.parent].is_dominated || !queue_.accepts(least_cost)) return true;
    if (is_alone() && options_.greed == 0) progress_.lower_bound.store(least_cost, std::memory_order_relaxed);
    if (next.following != none) {
        progress_.states.fetch_add(1, std::memory_order_relaxed);
        return evictions_.defer(next, stop);
    }
    const Index state = states_.build(next.parent, next.runs, next.evicted, stop);
    if (state == none) return false;
    states_[state].lane = number_;
    const Index owner = is_alone() ? number_ : exchange_.owner(states_[state].hash);
    if (owner == number_) return settle(state, stop);
    states_.move_last_to(outgoing_[owner]);
    return true;
}

// Sends states to their owners and settles the received ones. Returns false if the search has ended or after a stop
// request.
bool Lane::trade(const StopToken& stop) {
    if (!exchange_.trade(number_, outgoing_, queue_.floor(), incoming_, stop)) return false;
    for (std::size_t at = 0; at < incoming_.states.size(); ++at) {
        if (queue_.accepts(incoming_.states[at].cost) && !settle(states_.take(incoming_, at), stop)) return false;
    }
    incoming_.clear();
    return true;
}

// Keeps the last state unless it is dominated, and defers its children. Returns false after a stop request.
bool Lane::settle(Index state, const StopToken& stop) {
    if (!frontier_.enter(state)) {
        states_.drop_last();
        return true;
    }
    progress_.states.fetch_add(1, std::memory_order_relaxed);
    if (states_[state].steps < tables_.operator_count) return defer_children(state, stop);
    exchange_.has_found({number_, state}, states_[state].cost);
    return true;
}

// Defers all children of a state. Returns false after a stop request.
bool Lane::defer_children(Index state, const StopToken& stop) {
    for (Index at = 0; at < tables_.operator_words; ++at) {
        Word left = states_.ready(state)[at];
        while (left != 0) {
            const Index runs = at * word_bits + take_lowest(left);
            const Cost least_cost = states_.least_cost(state, 0);
            if (!states_.fits(state, runs)) {
                if (!evictions_.defer({state, runs, none, 0}, stop)) return false;
            } else if (queue_.accepts(least_cost)) {
                queue_.push({state, runs, none, none}, least_cost, states_[state].cost, states_[state].steps + 1);
            }
        }
    }
    return !stop.is_asked();
}

}  // namespace onchip::joint
