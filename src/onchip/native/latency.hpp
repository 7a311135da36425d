// When everything happens, for an order of the operators: what stays, when each transfer begins, and orders that end
// sooner.
//
// docs/latency.md says what is decided and why. Nothing here is a proof: bounds are in
// `bounds/latency/latency_bounds.py`.
//
// Words. Operators, tensors and scratchpads are numbered from 0 on; step s is the place s of an order. A tensor lies in
// one scratchpad: what is wanted in several is a tensor for each, of which the others are loaded of what the written
// one was stored as. A stay is one tensor in its scratchpad over the half-open range of steps [start, stop); it begins
// with the operator that writes the tensor, or with a load. A transfer of position p stands in the program after the
// operator of step p - 1 and before that of step p. Transfers are begun in one row, the row of the queues. Room is
// counted in bytes, and addresses are found later; or every stay gets its address while it is timed. With addresses the
// latency is that of the program; in bytes the program ends no later, wherever its stays lie: bytes are free when the
// store that reads them has ended.

#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "latency_addresses.hpp"
#include "stop.hpp"

namespace onchip::latency {

inline constexpr Index none = -1;
inline constexpr Cycles never = std::int64_t{1} << 60;

// Throws std::invalid_argument: entry `number` of the kind `what` is not valid in the owner (a problem or a network).
[[noreturn]] inline void refuse(const char* what, std::size_t number, const char* owner) {
    throw std::invalid_argument(std::string(what) + " " + std::to_string(number) + " is none of a " + owner);
}

// The cycles are without set-up.
struct Tensor {
    Bytes bytes = 0;
    Cycles load_cycles = 0;
    Cycles store_cycles = 0;
    bool is_in_dram = false;  // from the start, or as another one is
    bool is_output = false;   // is stored once
    Index memory = 0;         // the scratchpad in which it lies
    Index same_as = none;     // the tensor whose store brings it to DRAM, too
};

// Its lists have no tensor twice, nor one that is in both.
struct Operator {
    Cycles cycles = 0;
    std::vector<Index> reads;
    std::vector<Index> writes;
    std::vector<Index> predecessors;
};

struct Scratchpad {
    Bytes capacity_bytes = 0;
    Bytes addressed_bytes = 0;  // as many of them as addresses may take
};

struct Machine {
    std::vector<Scratchpad> scratchpads;
    Index queues = 1;
    Cycles setup_cycles = 0;
    bool has_one_channel = true;  // loads and stores take turns
};

struct Problem {
    std::vector<Tensor> tensors;
    std::vector<Operator> operators;
    Machine machine;

    // Throws std::invalid_argument, saying which entry, for what no problem has.
    void check() const;
};

struct Stay {
    Index tensor = none;
    Index start = 0;
    Index stop = 0;
    bool is_loaded = false;
    bool is_stored = false;
    Index before = none;  // the stay of the same tensor before it, by number
    Index after = none;
};

struct Transfer {
    Index stay = none;
    bool is_store = false;
    Index position = 0;
    Cycles start = 0;
    Cycles stop = 0;
};

// What an order comes to. Without room for some operator nothing else is said.
struct Timing {
    bool fits = false;
    Cycles latency = never;
    Cycles transfer_cycles = 0;
    std::vector<Stay> stays;
    std::vector<Transfer> transfers;  // as they are begun
    std::vector<Cycles> ends;         // of each step's operator
    std::vector<Bytes> offsets;       // of each stay, where it is placed
};

// Which share of each scratchpad what stays fills at most, and what is loaded ahead of its step or waits for its store.
// Where the share is 0 nothing stays from one step to the next, and operators have all room.
struct Room {
    double share = 1;
    double ahead_share = 1;
    Placing placing = Placing::none;
    bool is_longest_first = false;   // what is placed first is placed by how long it stays, else by its bytes
    bool has_place_for_all = false;  // loads have a place for when they are needed from the start, as what is written
    Index rounds = 1;                // of placing afterwards: what had no place, or late, comes sooner in the next
};

// Decides by rule, for one order: what leaves when there is no room (what is wanted latest for its bytes and its way
// back), then each load, by the step that waits for it, into all room that is free. A store goes where the queues are
// idle, or when its room is needed.
class Evaluator {
public:
    // The problem must outlive it.
    explicit Evaluator(const Problem& problem);

    // The order has each operator once, after its predecessors. Where stays are placed an order for which that was not
    // found does not fit. Of stays without loads ahead `first` may say where they lie at first. What surely ends after
    // `latest` may be left off, as if it did not fit. Rounds of placing end when `stop` is asked.
    const Timing& evaluate(const std::vector<Index>& order, const Room& room, const std::vector<Bytes>& first = {},
                           Cycles latest = never, const StopToken* stop = nullptr);

private:
    struct Turn {
        Cycles start = 0;
        Cycles stop = 0;
    };

    void place_afterwards(const Room& room, const StopToken* stop);
    Index place_all(const std::vector<Stay>& stays);
    bool time_as_placed(const std::vector<Stay>& stays);
    bool is_heavier_when_late(Index failed, const std::vector<Stay>& stays);
    void set_room(const Room& room);
    bool decide_stays();
    void link_uses();
    bool make_room(Index step);
    Index least_wanted(Index step, Index memory) const;
    void leave(Index tensor);
    void begin_stay(Index tensor, Index step);
    void end_stay(Index tensor, Index stop);
    void fill_room();
    bool place_first(const Room& room, const std::vector<Bytes>& offsets);
    bool place_as_low_as_can_be(Index number);
    void clear_addresses();
    bool time();
    bool is_too_late() const;
    void compute_until(Index step);
    Cycles outputs_free_at(Index step);
    Cycles room_free_at(Index step, Cycles start);
    Cycles stored_before(Index position, Cycles start, Index memory) const;
    void use(Index tensor, Cycles end);
    Turn turn(Cycles ready, Cycles cycles, bool is_store) const;
    std::span<const Index> pending_and_written() const;
    Index store_before(std::size_t at, const Turn& load, Index position);
    bool wait(Index number, Index step, Bytes most_bytes);
    Index earliest_position(Index number);
    Cycles room_at(Index number, Index earliest) const;
    bool stays_on(Index number, Index stop) const;
    void keep_until(Index number, Index stop);
    Index position_at(Cycles cycle, Index first, Index last) const;
    bool place_load(std::size_t at);
    void begin(Index stay, bool is_store, Index position, const Turn& turn);
    void store(Index number);
    Turn turn_of_store(Index number) const;
    template <typename Test>
    void store_all(Test has_to_go);

    Index memory_of(Index stay) const { return problem_.tensors[timing_.stays[stay].tensor].memory; }
    Index stored_as(Index tensor) const {
        return problem_.tensors[tensor].same_as == none ? tensor : problem_.tensors[tensor].same_as;
    }

    const Problem& problem_;
    const std::vector<Index>* order_ = nullptr;
    Timing timing_;

    // Uses, flat: by step its operands (reads, then writes) and the step of the next use of each.
    std::vector<Index> first_use_, next_use_, upcoming_;
    // What is resident while stays are decided.
    std::vector<Index> resident_, place_in_resident_, stay_of_, last_use_, last_stay_;
    std::vector<char> is_in_dram_, is_in_step_;
    bool keeps_anything_ = true;
    // By scratchpad.
    std::vector<Bytes> most_bytes_, ahead_bytes_, resident_bytes_;
    // Time.
    std::vector<std::vector<Bytes>> room_used_;  // by scratchpad and step
    std::vector<Cycles> arrived_, stored_, queue_free_;
    std::vector<Index> loads_, pending_stores_, producer_step_, stay_now_;
    std::vector<Transfer> storing_;  // those that may go on while what stands there is placed elsewhere
    Cycles channel_free_[2] = {0, 0};
    Cycles latest_ = never, computing_left_ = 0, first_channel_left_ = 0;  // left: not begun yet
    Index begun_ = 0, last_position_ = 0, computed_ = 0;
    // Addresses.
    bool is_placing_ = false, has_place_for_all_ = false, is_placed_ = false;
    std::vector<AddressMap> addresses_;  // by scratchpad
    std::vector<BusyBytes> busy_;
    std::vector<Index> placed_first_, wanted_from_, placed_from_;  // of stays: steps
    std::vector<double> weights_;
};

struct SearchOptions {
    std::uint64_t seed = 0;
    Room room;
    std::int64_t most_evaluations = 0;
    double hottest = 0;  // cycles by which worse is taken at first, about
    double coldest = 0;  // and at last
    Cycles enough = 0;   // ends there
};

// Changes an order bit by bit (one operator, or some in a row, to another place) and keeps what ends no later, or by
// simulated annealing somewhat later. The same seed does the same.
class OrderSearch {
public:
    explicit OrderSearch(Problem problem);

    // Begins at an order that fits; the best is `order`. Returns how many orders were evaluated.
    std::int64_t run(std::vector<Index> order, const SearchOptions& options, const StopToken& stop);

    const std::vector<Index>& order() const { return best_; }
    // Where the search ended; it may be worse.
    const std::vector<Index>& last() const { return last_; }

private:
    bool move(std::vector<Index>& order);
    Index earliest(const std::vector<Index>& order, Index from, Index stop);
    Index latest(const std::vector<Index>& order, Index from, Index stop);

    Problem problem_;
    Evaluator evaluator_;
    std::vector<std::vector<Index>> successors_;
    std::vector<Index> position_, best_, last_;
    Cycles best_latency_ = never;
    std::mt19937_64 random_;
};

}  // namespace onchip::latency
