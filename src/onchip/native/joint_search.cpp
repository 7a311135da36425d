// The joint search in one or several lanes, and its Python bindings.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "joint.hpp"
#include "joint_parts.hpp"

namespace onchip::joint {

// The exchange between lanes.

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

// Best-first search: builds the cheapest deferred child, unless it is dominated.

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

// The lanes in parallel, and reconstruction of the plan.

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

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `joint::Search`.

void add_joint(nb::module_& module) {
    using namespace joint;
    nb::enum_<Outcome>(module, "JointOutcome",
                       "Reason why a joint search ended. EXHAUSTED: no plan costs less than the upper bound.")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped)
        .value("STATES_SPENT", Outcome::states_spent)
        .value("MEMORY_SPENT", Outcome::memory_spent);
    nb::class_<Tensor>(
        module, "JointTensor",
        "A tensor with its size in units of the alignment and its transfer costs.\n"
        "\n"
        "`store_cost` is 0 if DRAM has a copy whenever the tensor could leave. `may_end_short` is True if\n"
        "the tensor may end in the last, partial unit of the capacity.")
        .def(nb::init<Units, Cost, Cost, bool>(), nb::kw_only(), "units"_a, "load_cost"_a, "store_cost"_a,
             "may_end_short"_a);
    using Overwritables = std::vector<std::tuple<Index, Units, Index>>;
    nb::class_<Operator>(
        module, "JointOperator",
        "An operator with the numbers of its tensors and predecessors, each list ascending.\n"
        "\n"
        "Predecessors have lower numbers than the operator. `overwritables` are the inputs whose bytes the\n"
        "outputs may take, as tuples of tensor, units saved and group, sorted by group. At most one input\n"
        "of each group is overwritten.")
        .def(
            "__init__",
            [](Operator* place, std::vector<Index> reads, std::vector<Index> writes, std::vector<Index> predecessors,
               const Overwritables& overwritables) {
                std::vector<Overwritable> inputs;
                for (const auto& [tensor, units, group] : overwritables) inputs.push_back({tensor, units, group});
                new (place) Operator{std::move(reads), std::move(writes), std::move(predecessors), std::move(inputs)};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a, "overwritables"_a = Overwritables());
    nb::class_<Search>(
        module, "JointSearch",
        "Best-first search for the cheapest order and residencies with a cost below `upper_bound`.\n"
        "\n"
        "`capacity_units` is the scratchpad in units of the alignment. With `greed`, each executed operator\n"
        "counts as that much cost saved: plans are found sooner, and only an exhausted search proves a\n"
        "bound. `seed` breaks ties. The search ends if it needs more than `most_bytes` of memory. With one\n"
        "worker it is deterministic. Raises ValueError, with the entry, if a tensor, an operator or an option\n"
        "is invalid.")
        .def(
            "__init__",
            [](Search* place, std::vector<Tensor> tensors, std::vector<Operator> operators, Units capacity_units,
               Cost upper_bound, Cost greed, std::uint64_t seed, std::int64_t most_bytes, Index workers) {
                new (place) Search(Problem{std::move(tensors), std::move(operators), capacity_units},
                                   Options{upper_bound, greed, seed, most_bytes, workers});
            },
            "tensors"_a, "operators"_a, nb::kw_only(), "capacity_units"_a, "upper_bound"_a = unlimited, "greed"_a = 0,
            "seed"_a = 0, "most_bytes"_a = unlimited, "workers"_a = 1)
        .def("run", &Search::run, "stop"_a, "most_states"_a = unlimited, nb::call_guard<nb::gil_scoped_release>(),
             "Search on until `most_states` states are spent in all.\n"
             "\n"
             "A search whose states are spent can be resumed. Raises RuntimeError if it is running, or ended as\n"
             "STOPPED or MEMORY_SPENT.")
        .def("pause", &Search::pause, "Let `run` return between two states, as if its states were spent.")
        .def("lower_upper_bound", &Search::lower_upper_bound, "cost"_a,
             "Search only for plans that cost less, from now on.")
        .def_prop_ro("states", &Search::states,
                     "Number of states built and kept, plus choices listed.\n"
                     "\n"
                     "This property and `lower_bound` may be read while the search runs.")
        .def_prop_ro("lower_bound", &Search::lower_bound,
                     "Lower bound on the cost of every plan that the search may find.")
        .def_prop_ro("cost", &Search::cost,
                     "Cost of the plan found, or -1 if there is none.\n"
                     "\n"
                     "If several workers were stopped, the plan may not be proven to be the cheapest.")
        .def_prop_ro(
            "moves",
            [](const Search& search) {
                std::vector<std::pair<Index, std::vector<Index>>> moves;
                for (Move& one : search.moves()) moves.emplace_back(one.runs, std::move(one.evicted));
                return moves;
            },
            "Operators of the plan in execution order, each with the tensors evicted before it runs.");
}

}  // namespace onchip
