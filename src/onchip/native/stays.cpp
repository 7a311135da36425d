// Optimal residencies between uses for one order, by bytes: a dynamic program over all choices.
//
// Terms. A gap is a range of steps in which a tensor is idle. It stays and takes its units in each step, or leaves and
// costs its load, and its store if the tensor has not left in an earlier gap. A state holds the open gaps that stay,
// and the tensors with further gaps that have left before. Of two paths to a state only the cheaper one matters.
// `tests/contract/test_evictions.py` has a plain version.

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "stop.hpp"
#include "words.hpp"

namespace onchip::stays {

using Index = std::int32_t;
using Units = std::int64_t;
using Cost = std::int64_t;

// A tensor is idle in the steps [start, stop). All gaps of a tensor have the same units and costs.
struct Gap {
    Index tensor = 0;
    Index start = 0;
    Index stop = 0;
    Units units = 0;
    Cost load_cost = 0;
    Cost store_cost = 0;
};

class Search {
public:
    // `left_units`: room of each step for idle tensors. Throws std::invalid_argument if a gap is empty or ends after
    // the last step, if units are negative or above 2^60, or if costs are negative or sum to more than 2^60.
    Search(std::vector<Gap> gaps, std::vector<Units> left_units);

    // Returns true if the search is complete. It is incomplete after more than `most_states` states, if states must
    // distinguish more than 64 gaps or tensors at once, or after a stop request.
    bool run(std::int64_t most_states, const StopToken& stop);

    // The least cost of leaving, and by gap true if the tensor stays; valid after a complete search.
    Cost cost() const { return cost_; }
    std::vector<bool> stays() const;

private:
    using Bits = std::uint64_t;

    // The latest gap in which a path to a state left; `before` is the node of the previous one.
    struct Departure {
        std::uint32_t before;
        Index gap;
    };

    struct State {
        Bits staying = 0;
        Bits have_left = 0;
        Units used = 0;
        Cost cost = 0;
        std::uint32_t last_departure = 0;
    };

    // Bits of a gap while it is open, and of its tensor from its first gap to its last.
    struct Place {
        Bits gap = 0;
        Bits tensor = 0;
        bool is_last = false;
    };

    bool give_places();
    void close(Index step);
    bool open(Index gap);
    void merge();
    void leave(State& state, Index gap);

    std::vector<Gap> gaps_;
    std::vector<Units> left_units_;
    std::vector<std::vector<Index>> opening_;  // by step
    std::vector<std::vector<Index>> closing_;  // by step; size: number of steps + 1
    std::vector<Place> places_;                // by gap
    std::vector<State> states_;
    std::vector<Departure> departures_;
    std::uint32_t best_ = 0;
    Cost cost_ = 0;
    std::int64_t most_states_ = 0;
};

// The dynamic program from step to step: closes gaps that end, branches on gaps that begin, and merges equal states.

namespace {

constexpr std::int64_t largest_sum = std::int64_t{1} << 60;
constexpr std::int64_t most_departures = std::int64_t{1} << 31;

// Allocates single bits of a word.
class FreeBits {
public:
    // Returns 0 if none is left.
    std::uint64_t take() {
        const std::uint64_t bit = free_ & (~free_ + 1);
        free_ &= ~bit;
        return bit;
    }
    void give_back(std::uint64_t bits) { free_ |= bits; }

private:
    std::uint64_t free_ = ~std::uint64_t{0};
};

// Checks that the sum stays far below overflow.
void add(Cost& sum, Cost cost, std::size_t at) {
    require(0 <= cost && cost <= largest_sum - sum, "costs are below 0, or too many together", at);
    sum += cost;
}

}  // namespace

Search::Search(std::vector<Gap> gaps, std::vector<Units> left_units)
    : gaps_(std::move(gaps)),
      left_units_(std::move(left_units)),
      opening_(left_units_.size()),
      closing_(left_units_.size() + 1) {
    Cost costs = 0;
    for (std::size_t at = 0; at < gaps_.size(); ++at) {
        const Gap& gap = gaps_[at];
        require(0 <= gap.start && gap.start < gap.stop && std::cmp_less_equal(gap.stop, left_units_.size()),
                "a gap is empty or ends behind the last step", at);
        require(0 <= gap.units && gap.units <= largest_sum, "a gap has units below 0, or too many", at);
        add(costs, gap.load_cost, at);
        add(costs, gap.store_cost, at);
        opening_[gap.start].push_back(static_cast<Index>(at));
        closing_[gap.stop].push_back(static_cast<Index>(at));
    }
}

bool Search::run(std::int64_t most_states, const StopToken& stop) {
    most_states_ = std::min(most_states, most_departures);
    if (!give_places()) return false;
    states_.assign(1, State());
    departures_.assign(1, Departure{0, -1});
    for (std::size_t step = 0; step < left_units_.size(); ++step) {
        if (stop.is_asked()) return false;
        close(static_cast<Index>(step));
        for (const Index gap : opening_[step]) {
            if (!open(gap)) return false;
        }
        if (!opening_[step].empty() || !closing_[step].empty()) merge();
    }
    const auto best = std::ranges::min_element(states_, {}, &State::cost);
    if (best == states_.end()) return false;
    best_ = best->last_departure;
    cost_ = best->cost;
    return true;
}

// Assigns a bit to each gap and tensor while states distinguish it. Returns false if a word has too few bits.
bool Search::give_places() {
    std::unordered_map<Index, Index> last;
    for (const std::vector<Index>& gaps : opening_) {
        for (const Index gap : gaps) last[gaps_[gap].tensor] = gap;
    }
    FreeBits of_gaps;
    FreeBits of_tensors;
    std::unordered_map<Index, Bits> of_tensor;
    places_.assign(gaps_.size(), Place());
    for (std::size_t step = 0; step < left_units_.size(); ++step) {
        for (const Index gap : closing_[step]) of_gaps.give_back(places_[gap].gap);
        for (const Index gap : opening_[step]) {
            Place& place = places_[gap];
            const Index tensor = gaps_[gap].tensor;
            place.gap = of_gaps.take();
            place.is_last = last[tensor] == gap;
            const auto known = of_tensor.find(tensor);
            if (known != of_tensor.end()) {
                place.tensor = known->second;
            } else if (!place.is_last && gaps_[gap].store_cost > 0) {
                place.tensor = of_tensor[tensor] = of_tensors.take();
                if (place.tensor == 0) return false;
            }
            if (place.gap == 0) return false;
        }
        // After the loop above, so that tensors of one step never share a bit.
        for (const Index gap : opening_[step]) {
            if (places_[gap].is_last) of_tensors.give_back(places_[gap].tensor);
        }
    }
    return true;
}

// Frees the room of gaps that ended, and removes states that exceed the room of this step.
void Search::close(Index step) {
    for (const Index gap : closing_[step]) {
        const Bits bit = places_[gap].gap;
        for (State& state : states_) {
            if (state.staying & bit) state.used -= gaps_[gap].units;
            state.staying &= ~bit;
        }
    }
    std::erase_if(states_, [&](const State& state) { return state.used > left_units_[step]; });
}

// Branches each state on the gap: stay, if there is room, or leave. Returns false if there are too many states.
bool Search::open(Index gap) {
    const Place& place = places_[gap];
    const Units left = left_units_[gaps_[gap].start] - gaps_[gap].units;
    const std::size_t count = states_.size();
    if (std::cmp_greater(departures_.size() + count, most_states_)) return false;
    for (std::size_t at = 0; at < count; ++at) {
        if (states_[at].used <= left) {
            State staying = states_[at];
            staying.staying |= place.gap;
            staying.used += gaps_[gap].units;
            if (place.is_last) staying.have_left &= ~place.tensor;
            states_.push_back(staying);
        }
        leave(states_[at], gap);
    }
    return true;
}

void Search::leave(State& state, Index gap) {
    const Place& place = places_[gap];
    state.cost += gaps_[gap].load_cost + (state.have_left & place.tensor ? 0 : gaps_[gap].store_cost);
    state.have_left |= place.tensor;
    if (place.is_last) state.have_left &= ~place.tensor;
    departures_.push_back({state.last_departure, gap});
    state.last_departure = static_cast<std::uint32_t>(departures_.size() - 1);
}

// Keeps one cheapest state of each set of equal ones.
void Search::merge() {
    const auto key = [](const State& state) { return std::tie(state.staying, state.have_left, state.cost); };
    std::ranges::sort(states_, {}, key);
    const auto is_alike = [](const State& one, const State& other) {
        return one.staying == other.staying && one.have_left == other.have_left;
    };
    states_.erase(std::unique(states_.begin(), states_.end(), is_alike), states_.end());
}

std::vector<bool> Search::stays() const {
    std::vector<bool> found(gaps_.size(), true);
    for (std::uint32_t at = best_; at != 0; at = departures_[at].before) found[departures_[at].gap] = false;
    return found;
}

}  // namespace onchip::stays

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `stays::Search`.

void add_stays(nb::module_& module) {
    using namespace stays;
    nb::class_<Gap>(module, "StayGap",
                    "A stretch of the steps `start` to `stop - 1` in which a tensor is idle.\n"
                    "\n"
                    "The tensor stays, or it leaves: then its load is paid, and its store if it has not left in an\n"
                    "earlier gap. All gaps of a tensor have the same units and costs.")
        .def(nb::init<Index, Index, Index, Units, Cost, Cost>(), nb::kw_only(), "tensor"_a, "start"_a, "stop"_a,
             "units"_a, "load_cost"_a, "store_cost"_a);
    nb::class_<Search>(
        module, "StaySearch",
        "Dynamic program that chooses the gaps in which tensors stay, for one order at least cost.\n"
        "\n"
        "`left_units` is the room of each step for idle tensors. Raises ValueError, with the entry, if a\n"
        "gap is empty or ends after the last step, or if units or costs are negative or too large.")
        .def(nb::init<std::vector<Gap>, std::vector<Units>>(), "gaps"_a, "left_units"_a)
        .def("run", &Search::run, "most_states"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Run the search and return True if it is complete.\n"
             "\n"
             "Returns False if there are more than `most_states` states, if more than 64 gaps or tensors must be\n"
             "told apart at once, or if `stop` is asked.")
        .def_prop_ro("cost", &Search::cost, "Least cost of leaving, after a complete run.")
        .def_prop_ro("stays", &Search::stays, "True for each gap in which the tensor stays, at that cost.");
}

}  // namespace onchip
