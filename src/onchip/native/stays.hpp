// What stays between uses, of one order at least cost in bytes: every choice, state by state.
//
// Words. A gap is a stretch of steps over which a tensor is idle. It stays, and takes its units in each of them, or
// leaves, which costs its load, and its store if the tensor has not left in a gap before. A state says which of the
// open gaps stay, and which tensors with gaps to come have left before: of two ways to it the cheaper will do.
// `tests/oracles/stays.py` is a plain version.

#pragma once

#include <cstdint>
#include <vector>

#include "stop.hpp"

namespace onchip::stays {

using Index = std::int32_t;
using Units = std::int64_t;
using Cost = std::int64_t;

// A tensor is idle in the steps [start, stop). The gaps of one tensor have its units and its costs.
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
    // `left_units` are those that each step has for what is idle. Throws std::invalid_argument for gaps that are
    // empty or end behind the last step, for units below 0 or beyond 2^60, and for costs that are so together.
    Search(std::vector<Gap> gaps, std::vector<Units> left_units);

    // Whether all states were seen: not if there are more than so many, more than 64 gaps or tensors at once that
    // states tell apart, or if asked to stop.
    bool run(std::int64_t most_states, const StopToken& stop);

    // What leaving costs at least, and of each gap, as given, whether it stays; once all states were seen.
    Cost cost() const { return cost_; }
    std::vector<bool> stays() const;

private:
    using Bits = std::uint64_t;

    // What a way to a state has left last; `before` is the node of what it left before that.
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
    std::vector<std::vector<Index>> closing_;  // by step, with one behind the last
    std::vector<Place> places_;                // by gap
    std::vector<State> states_;
    std::vector<Departure> departures_;
    std::uint32_t best_ = 0;
    Cost cost_ = 0;
    std::int64_t most_states_ = 0;
};

}  // namespace onchip::stays
