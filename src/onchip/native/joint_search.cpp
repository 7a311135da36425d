// The lanes in parallel, and reconstruction of the plan.

#include <stdexcept>
#include <system_error>
#include <thread>

#include "joint_lanes.hpp"

namespace onchip::joint {

struct Search::Parts {
    Parts(const Problem& problem, const Options& asked) : options(asked), tables(problem), exchange(progress, options) {
        progress.upper_bound = options.upper_bound;
        for (Index number = 0; number < options.workers; ++number) {
            lanes.push_back(std::make_unique<Lane>(number, tables, options, progress, exchange));
        }
    }

    Options options;
    Tables tables;
    Progress progress;
    Exchange exchange;
    std::vector<std::unique_ptr<Lane>> lanes;
};

Search::Search(const Problem& problem, const Options& options) {
    problem.check();
    options.check(problem);
    parts_ = std::make_unique<Parts>(problem, options);
}

Search::~Search() = default;

std::int64_t Search::states() const {
    return parts_->progress.states.load(std::memory_order_relaxed);
}

Cost Search::lower_bound() const {
    return parts_->progress.lower_bound.load(std::memory_order_relaxed);
}

void Search::pause() {
    parts_->progress.most_states.store(0, std::memory_order_relaxed);
}

void Search::lower_upper_bound(Cost cost) {
    if (cost < 0) throw std::invalid_argument("an upper bound is at least 0");
    parts_->progress.lower_upper_bound(cost);
}

Outcome Search::run(const StopToken& stop, std::int64_t most_states) {
    if (is_lost_) throw std::logic_error("a search that was stopped cannot be resumed");
    if (is_running_.exchange(true)) throw std::logic_error("a search is running");
    is_lost_ = true;
    auto& [options, tables, progress, exchange, lanes] = *parts_;
    progress.most_states.store(most_states, std::memory_order_relaxed);
    exchange.begin();
    std::vector<std::jthread> others;
    try {
        for (Index more = 1; more < options.workers; ++more) {
            others.emplace_back(&Lane::run, lanes[more].get(), std::cref(stop));
        }
    } catch (const std::system_error&) {
        exchange.end(Outcome::memory_spent);
    }
    lanes.front()->run(stop);
    others.clear();
    is_running_ = false;
    const Outcome outcome = exchange.outcome();
    is_lost_ = outcome == Outcome::stopped || outcome == Outcome::memory_spent;
    return outcome;
}

Cost Search::cost() const {
    return is_running_ ? none : parts_->exchange.cost();
}

std::vector<Move> Search::moves() const {
    std::vector<Move> moves;
    if (is_running_) return moves;
    for (Place at = parts_->exchange.goal(); at.state != none;) {
        const States& states = parts_->lanes[at.lane]->states();
        const State& state = states[at.state];
        const std::span<const Index> operators = states.moves(at.state);
        for (auto one = operators.rbegin(); one != operators.rend(); ++one) moves.push_back({*one, {}});
        if (!operators.empty()) {
            parts_->lanes[state.lane]->sets().visit(state.evicted,
                                                    [&](Index tensor) { moves.back().evicted.push_back(tensor); });
        }
        at = {state.lane, state.parent};
    }
    std::ranges::reverse(moves);
    return moves;
}

}  // namespace onchip::joint
