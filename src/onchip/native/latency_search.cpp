// Search for orders with lower latency: moves one operator, or several in a row, with simulated annealing.

#include <algorithm>
#include <cmath>
#include <utility>

#include "latency.hpp"

namespace onchip::latency {

namespace {

constexpr Index most_in_a_row = 12;
constexpr int most_tries = 4096;

}  // namespace

OrderSearch::OrderSearch(Problem problem) : problem_((problem.check(), std::move(problem))), evaluator_(problem_) {
    successors_.resize(problem_.operators.size());
    for (std::size_t number = 0; number < problem_.operators.size(); ++number) {
        for (const Index one : problem_.operators[number].predecessors) {
            successors_[one].push_back(static_cast<Index>(number));
        }
    }
    position_.resize(problem_.operators.size());
}

std::int64_t OrderSearch::run(std::vector<Index> order, const SearchOptions& options, const StopToken& stop) {
    random_.seed(options.seed);
    Cycles now = evaluator_.evaluate(order, options.room).latency;
    best_ = order;
    best_latency_ = now;
    for (std::size_t step = 0; step < order.size(); ++step) position_[order[step]] = static_cast<Index>(step);
    std::uniform_real_distribution<double> chance(0, 1);
    std::vector<Index> changed;
    std::int64_t evaluations = 1;
    for (; evaluations < options.most_evaluations && best_latency_ > options.enough && !stop.is_asked();
         ++evaluations) {
        changed = order;
        if (!move(changed)) break;
        const double spent = static_cast<double>(evaluations) / static_cast<double>(options.most_evaluations);
        const double heat =
            options.hottest > 0 ? options.hottest * std::pow(options.coldest / options.hottest, spent) : 0;
        const Cycles latest = now + (heat > 0 ? static_cast<Cycles>(-heat * std::log(1 - chance(random_))) : 0);
        const Cycles then = evaluator_.evaluate(changed, options.room, {}, latest).latency;
        if (then > latest) continue;
        order.swap(changed);
        for (std::size_t step = 0; step < order.size(); ++step) position_[order[step]] = static_cast<Index>(step);
        now = then;
        if (now < best_latency_) best_ = order, best_latency_ = now;
    }
    last_ = std::move(order);
    return evaluations;
}

// Returns false if no operator can move.
bool OrderSearch::move(std::vector<Index>& order) {
    const Index steps = static_cast<Index>(order.size());
    for (int attempt = 0; attempt < most_tries; ++attempt) {
        const Index from = static_cast<Index>(random_() % steps);
        const Index length = random_() % 2 ? 1 : 1 + static_cast<Index>(random_() % most_in_a_row);
        const Index stop = std::min(steps, from + length);
        const Index first = earliest(order, from, stop), last = latest(order, from, stop);
        const Index places = last - first;  // without its own
        if (places <= 0) continue;
        Index to = first + static_cast<Index>(random_() % places);
        if (to >= from) ++to;
        const auto begin = order.begin();
        if (to < from) {
            std::rotate(begin + to, begin + from, begin + stop);
        } else {
            std::rotate(begin + from, begin + stop, begin + to + (stop - from));
        }
        return true;
    }
    return false;
}

// Returns the first position at which the row [from, stop) may begin: after all its predecessors.
Index OrderSearch::earliest(const std::vector<Index>& order, Index from, Index stop) {
    Index place = 0;
    for (Index step = from; step < stop; ++step) {
        for (const Index one : problem_.operators[order[step]].predecessors) {
            if (position_[one] < from) place = std::max(place, position_[one] + 1);
        }
    }
    return place;
}

// Returns the last position at which it may begin, with itself removed: before all its successors.
Index OrderSearch::latest(const std::vector<Index>& order, Index from, Index stop) {
    Index place = static_cast<Index>(order.size());
    for (Index step = from; step < stop; ++step) {
        for (const Index one : successors_[order[step]]) {
            if (position_[one] >= stop) place = std::min(place, position_[one]);
        }
    }
    return place - (stop - from);
}

}  // namespace onchip::latency
