// The dynamic program from step to step: closes gaps that end, branches on gaps that begin, and merges equal states.

#include "stays.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "words.hpp"

namespace onchip::stays {

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
