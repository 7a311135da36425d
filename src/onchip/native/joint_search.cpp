// Best first: the cheapest child that is deferred is built, unless another state makes it useless.

#include <stdexcept>

#include "joint_parts.hpp"

namespace onchip::joint {

struct Search::Parts {
    Parts(const Problem& problem, const Options& asked)
        : options(asked),
          tables(problem),
          budget(asked.most_bytes),
          sets(budget),
          states(tables, sets, budget),
          frontier(tables, states, budget),
          queue(options, budget),
          evictions(tables, states, sets, queue, budget) {}

    Options options;
    Tables tables;
    Budget budget;
    EvictedSets sets;
    States states;
    Frontier frontier;
    Queue queue;
    Evictions evictions;
};

Search::Search(const Problem& problem, const Options& options) {
    problem.check();
    options.check(problem);
    parts_ = std::make_unique<Parts>(problem, options);
}

Search::~Search() = default;

Outcome Search::run(const StopToken& stop) {
    if (is_begun_.exchange(true)) throw std::logic_error("a search runs once");
    try {
        return go_on(stop);
    } catch (const std::bad_alloc&) {
        return Outcome::memory_spent;
    }
}

Outcome Search::go_on(const StopToken& stop) {
    auto& [options, tables, budget, sets, states, frontier, queue, evictions] = *parts_;
    Index state = states.build_root(stop);
    if (state == none) return Outcome::stopped;
    while (true) {
        if (state != none && frontier.enter(state)) {
            states_.fetch_add(1, std::memory_order_relaxed);
            if (states[state].steps == tables.operator_count) {
                goal_ = state;
                return Outcome::found;
            }
            if (!defer_children(state, stop)) return Outcome::stopped;
        } else if (state != none) {
            states.drop_last();
        }
        if (queue.is_empty()) return Outcome::exhausted;
        if (stop.is_asked()) return Outcome::stopped;
        if (this->states() >= options.most_states) return Outcome::states_spent;
        const auto [next, cost] = queue.pop();
        state = none;
        if (states[next.parent].is_dominated) continue;
        if (options.greed == 0) lower_bound_.store(cost, std::memory_order_relaxed);
        if (next.following == none) {
            state = states.build(next.parent, next.runs, next.evicted, cost, stop);
            if (state == none) return Outcome::stopped;
        } else {
            states_.fetch_add(1, std::memory_order_relaxed);
            if (!evictions.defer(next, stop)) return Outcome::stopped;
        }
    }
}

// Defers every child of a state; false if asked to stop.
bool Search::defer_children(Index state, const StopToken& stop) {
    auto& [options, tables, budget, sets, states, frontier, queue, evictions] = *parts_;
    for (Index at = 0; at < tables.operator_words; ++at) {
        Word left = states.ready(state)[at];
        while (left != 0) {
            const Index runs = at * word_bits + take_lowest(left);
            const Cost cost = states[state].cost;
            if (!states.fits(state, runs)) {
                if (!evictions.defer({state, runs, none, 0}, stop)) return false;
            } else if (queue.accepts(cost)) {
                queue.push({state, runs, none, none}, cost, states[state].steps + 1);
            }
        }
    }
    return !stop.is_asked();
}

Cost Search::cost() const {
    return goal_ == none ? none : parts_->states[goal_].cost;
}

std::vector<Move> Search::moves() const {
    std::vector<Move> moves;
    for (Index state = goal_; state != none; state = parts_->states[state].parent) {
        const std::span<const Index> operators = parts_->states.moves(state);
        for (auto one = operators.rbegin(); one != operators.rend(); ++one) moves.push_back({*one, {}});
        if (operators.empty()) continue;
        parts_->sets.visit(parts_->states[state].evicted,
                           [&](Index tensor) { moves.back().evicted.push_back(tensor); });
    }
    std::ranges::reverse(moves);
    return moves;
}

}  // namespace onchip::joint
