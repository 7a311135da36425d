// Lanes, side by side, and the plan that they have found.

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

Outcome Search::run(const StopToken& stop) {
    if (is_begun_.exchange(true)) throw std::logic_error("a search runs once");
    auto& [options, tables, progress, exchange, lanes] = *parts_;
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
    is_over_ = true;
    return exchange.outcome();
}

Cost Search::cost() const {
    return is_over_ ? parts_->exchange.cost() : none;
}

std::vector<Move> Search::moves() const {
    std::vector<Move> moves;
    if (!is_over_) return moves;
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
