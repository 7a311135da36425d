// Optimal residencies between uses for one order, by bytes: a dynamic program over all choices.
//
// Terms. A gap is a range of steps in which a tensor is idle. It stays and takes its units in each step, or leaves and
// costs its load, and its store if the tensor has not left in an earlier gap. A state holds the open gaps that stay,
// and the tensors with further gaps that have left before. Of two paths to a state only the cheaper one matters.
// `tests/contract/test_evictions.py` has a plain version.

#pragma once

#include <cstdint>
#include <vector>

#include "stop.hpp"

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

}  // namespace onchip::stays
