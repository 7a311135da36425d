// Addresses of stays during timing: disjoint rectangles of bytes by steps, and the cycle until which each byte is in
// use.
//
// Written tensors are placed first. Then each load takes the address at which it can start earliest, so that no load
// waits for fragmented room. See docs/latency.md.

#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "stop.hpp"

namespace onchip::latency {

using Index = std::int32_t;
using Bytes = std::int64_t;
using Cycles = std::int64_t;

// When stays get addresses: never; during timing, with ties broken by the lowest or highest offset; or after timing in
// bytes.
enum class Placing : std::uint8_t { none, lowest, highest, afterwards };

struct Rectangle {
    Bytes offset = 0;
    Bytes bytes = 0;
    Index start = 0;  // half-open steps
    Index stop = 0;
};

struct FoundAddress {
    Bytes offset = -1;   // negative: not found
    Index position = 0;  // first step from which it is free
};

class AddressMap {
public:
    void clear(Bytes capacity_bytes, Placing placing);

    // Sets the rule for later placements.
    void choose(Placing placing) { placing_ = placing; }

    void put(const Rectangle& one);
    // Removes the rectangle with this lowest corner and these steps, and returns it; an empty one if not found.
    Rectangle remove(Bytes offset, Index start, Index stop);
    void extend(Bytes offset, Index start, Index stop, Index new_stop);

    bool is_free(const Rectangle& one) const;

    // Finds an address for `bytes` bytes over [needed, stop), free from `wanted` on or as early as possible after it.
    FoundAddress earliest(Bytes bytes, Index wanted, Index needed, Index stop);

private:
    void paint(Index wanted, Index needed, Index stop);
    void look(Bytes bytes, Index wanted, Index needed, bool is_above);

    Bytes capacity_bytes_ = 0;
    Placing placing_ = Placing::none;
    std::vector<Rectangle> all_;  // latest stop first
    // The rectangles that overlap the requested steps, and their edges in order, with 0 and the capacity.
    std::vector<Rectangle> beside_;
    std::vector<Bytes> edges_;
    // By range between two edges: the step from which it is free, and the next unpainted range.
    std::vector<Index> free_from_, next_;
    std::vector<std::size_t> latest_;
    FoundAddress best_;
};

// The cycle until which each byte is in use. Ranges are used in program order.
class BusyBytes {
public:
    void clear() { all_.assign(1, {0, 0}); }

    // Returns the cycle from which none of these bytes is in use.
    Cycles until(Bytes offset, Bytes bytes) const;
    // Marks these bytes as used until the given cycle, or until their latest use so far.
    void use(Bytes offset, Bytes bytes, Cycles until);

private:
    struct Range {
        Bytes offset = 0;  // up to the offset of the next range
        Cycles until = 0;
    };

    std::vector<Range>::const_iterator at(Bytes offset) const;

    std::vector<Range> all_ = {{0, 0}};
};

// Timing of an order of operators: residencies, start times of transfers, and orders with lower latency.
//
// docs/latency.md explains the decisions. Nothing here is a proof: bounds are in `bounds/latency/latency_bounds.py`.
//
// Terms. Operators, tensors and scratchpads are numbered from 0; step s is position s of an order. A tensor is in one
// scratchpad: a tensor needed in several has a copy in each, and the copies are loaded from the store of the original.
// A stay is a residency over the half-open range of steps [start, stop); it begins with the operator that writes the
// tensor, or with a load. A transfer of position p is between the operators of the steps p - 1 and p in the program.
// Transfers start in one sequence, in turn on the queues. Room is counted in bytes and addresses are found later, or
// each stay gets its address while it is timed. With addresses the latency is that of the program. In bytes it is an
// upper bound for any addresses: bytes are free when the store that reads them has ended.

inline constexpr Index none = -1;
inline constexpr Cycles never = std::int64_t{1} << 60;

// Throws std::invalid_argument: entry `number` of the kind `what` is invalid in the owner (a problem or a network).
[[noreturn]] inline void refuse(const char* what, std::size_t number, const char* owner) {
    throw std::invalid_argument(std::string(what) + " " + std::to_string(number) + " is none of a " + owner);
}

// Cycles without set-up.
struct Tensor {
    Bytes bytes = 0;
    Cycles load_cycles = 0;
    Cycles store_cycles = 0;
    bool is_in_dram = false;  // from the start, or once its original is stored
    bool is_output = false;   // stored once
    Index memory = 0;         // its scratchpad
    Index same_as = none;     // the original whose store brings it to DRAM
};

// The lists are disjoint and without duplicates.
struct Operator {
    Cycles cycles = 0;
    std::vector<Index> reads;
    std::vector<Index> writes;
    std::vector<Index> predecessors;
};

struct Scratchpad {
    Bytes capacity_bytes = 0;
    Bytes addressed_bytes = 0;  // addressable part of the capacity
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

    // Throws std::invalid_argument, with the entry, if the problem is invalid.
    void check() const;
};

struct Stay {
    Index tensor = none;
    Index start = 0;
    Index stop = 0;
    bool is_loaded = false;
    bool is_stored = false;
    Index before = none;  // number of the previous stay of the tensor
    Index after = none;
};

struct Transfer {
    Index stay = none;
    bool is_store = false;
    Index position = 0;
    Cycles start = 0;
    Cycles stop = 0;
};

// The timing of an order. If an operator does not fit, no other field is valid.
struct Timing {
    bool fits = false;
    Cycles latency = never;
    Cycles transfer_cycles = 0;
    std::vector<Stay> stays;
    std::vector<Transfer> transfers;  // in order of their start
    std::vector<Cycles> ends;         // by step: end of its operator
    std::vector<Bytes> offsets;       // by stay, if placed
};

// Limits on each scratchpad: the share that stays may fill, and the share for loads ahead of their step and tensors
// that wait for their store. With a share of 0 nothing stays from one step to the next, and operators have all room.
struct Room {
    double share = 1;
    double ahead_share = 1;
    Placing placing = Placing::none;
    bool is_longest_first = false;   // written tensors are placed by lifetime, else by size
    bool has_place_for_all = false;  // loads have a reserved address from the start, like written tensors
    Index rounds = 1;                // of Placing::afterwards: stays placed late come sooner in the next round
};

// Times one order by rules. Evictions: the tensor with the latest next use, weighted by bytes and cost of return.
// Loads: in the order of the steps that wait for them, into all free room. Stores: when the queues are idle, or when
// their room is needed.
class Evaluator {
public:
    // The problem must outlive the evaluator.
    explicit Evaluator(const Problem& problem);

    // The order has each operator once, after its predecessors. If stays are placed, an order without addresses does
    // not fit. `first` may give initial offsets of the stays as they are without loads ahead. Evaluation may stop once
    // the end is certainly after `latest`; the order does not fit then. Rounds of placement end after a stop request.
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

    // Uses, flat: by step its operands (reads, then writes) and the step of each operand's next use.
    std::vector<Index> first_use_, next_use_, upcoming_;
    // Residents while stays are decided.
    std::vector<Index> resident_, place_in_resident_, stay_of_, last_use_, last_stay_;
    std::vector<char> is_in_dram_, is_in_step_;
    bool keeps_anything_ = true;
    // By scratchpad.
    std::vector<Bytes> most_bytes_, ahead_bytes_, resident_bytes_;
    // Time.
    std::vector<std::vector<Bytes>> room_used_;  // by scratchpad and step
    std::vector<Cycles> arrived_, stored_, queue_free_;
    std::vector<Index> loads_, pending_stores_, producer_step_, stay_now_;
    std::vector<Transfer> storing_;  // stores in progress: their bytes are not free yet
    Cycles channel_free_[2] = {0, 0};
    Cycles latest_ = never, computing_left_ = 0, first_channel_left_ = 0;  // left: not started yet
    Index begun_ = 0, last_position_ = 0, computed_ = 0;
    // Addresses.
    bool is_placing_ = false, has_place_for_all_ = false, is_placed_ = false;
    std::vector<AddressMap> addresses_;  // by scratchpad
    std::vector<BusyBytes> busy_;
    std::vector<Index> placed_first_, wanted_from_, placed_from_;  // steps, by stay
    std::vector<double> weights_;
};

struct SearchOptions {
    std::uint64_t seed = 0;
    Room room;
    std::int64_t most_evaluations = 0;
    double hottest = 0;  // typical increase in cycles accepted at first
    double coldest = 0;  // and at the end
    Cycles enough = 0;   // target latency
};

// A local search on orders: moves one operator, or several in a row, and accepts orders that end no later, or by
// simulated annealing somewhat later. The same seed gives the same result.
class OrderSearch {
public:
    explicit OrderSearch(Problem problem);

    // Starts from an order that fits; the best one is `order`. Returns the number of orders evaluated.
    std::int64_t run(std::vector<Index> order, const SearchOptions& options, const StopToken& stop);

    const std::vector<Index>& order() const { return best_; }
    // The final order; it may be worse than the best.
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
