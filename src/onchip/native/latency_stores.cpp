// Times of stores: when the queues are idle, or when their room or bytes are needed.

#include <algorithm>

#include "latency.hpp"

namespace onchip::latency {

// Returns the cycle at which the stores of stays that ended before a position are complete, for a transfer into their
// bytes.
Cycles Evaluator::stored_before(Index position, Cycles start, Index memory) const {
    for (const Transfer& one : storing_) {
        const bool is_there = memory_of(one.stay) == memory && timing_.stays[one.stay].stop <= position;
        if (is_there) start = std::max(start, one.stop);
    }
    return start;
}

// Returns the pending stores whose tensors have been written; they are in the order of their producers.
std::span<const Index> Evaluator::pending_and_written() const {
    const auto is_written = [&](Index number) { return producer_step_[timing_.stays[number].tensor] < computed_; };
    return {pending_stores_.begin(), std::partition_point(pending_stores_.begin(), pending_stores_.end(), is_written)};
}

// Returns a store that must precede a load with this turn and position: it stores the load's own tensor, it ends while
// the load waits, or this load or the next one needs its room. Stores during a wait free their room early.
Index Evaluator::store_before(std::size_t at, const Turn& load, Index position) {
    const Index tensor = timing_.stays[loads_[at]].tensor;
    const auto written = pending_and_written();
    for (const Index number : written) {
        const Stay& stay = timing_.stays[number];
        if (stay.tensor == stored_as(tensor)) return number;
        if (producer_step_[stay.tensor] < position && turn_of_store(number).stop <= load.start) return number;
    }
    for (const Index number : written) {
        Bytes most_bytes = ahead_bytes_[memory_of(number)];
        for (std::size_t next = at; next < std::min(at + 2, loads_.size()); ++next) {
            const Tensor& one = problem_.tensors[timing_.stays[loads_[next]].tensor];
            if (one.memory == memory_of(number)) most_bytes -= one.bytes;
        }
        if (timing_.stays[number].stop <= position && !wait(number, position, most_bytes)) return number;
    }
    return none;
}

// Keeps a tensor that waits for its store over that step, if room remains; loads take precedence.
bool Evaluator::wait(Index number, Index step, Bytes most_bytes) {
    const Stay& stay = timing_.stays[number];
    const Bytes bytes = problem_.tensors[stay.tensor].bytes;
    for (Index one = stay.stop; one <= step; ++one) {
        if (room_used_[memory_of(number)][one] + bytes > most_bytes) return false;
    }
    if (!stays_on(number, step + 1)) return false;
    keep_until(number, step + 1);
    return true;
}

// Starts a store. Before it come the stores that must precede it in program order, and those that end before it could
// start.
void Evaluator::store(Index number) {
    const Index tensor = timing_.stays[number].tensor, position = producer_step_[tensor] + 1;
    const Turn own = turn_of_store(number);
    const auto goes_before = [&](Index other) {
        if (other == number) return false;
        const Stay& stay = timing_.stays[other];
        if (stay.stop < position) return true;
        if (producer_step_[stay.tensor] >= position) return false;
        const Turn one = turn_of_store(other);
        return one.start < own.start && one.stop <= own.start;
    };
    const auto written = pending_and_written();
    const auto other = std::find_if(written.begin(), written.end(), goes_before);
    if (other != written.end()) {
        store(*other);
        return store(number);
    }
    std::erase(pending_stores_, number);
    begin(number, true, std::max(last_position_, position), own);
    stored_[tensor] = own.stop;
    if (!is_placing_) storing_.push_back(timing_.transfers.back());
    use(tensor, own.stop);
}

// Requires that the tensor has been written.
Evaluator::Turn Evaluator::turn_of_store(Index number) const {
    const Index tensor = timing_.stays[number].tensor;
    return turn(timing_.ends[producer_step_[tensor]], problem_.tensors[tensor].store_cycles, true);
}

}  // namespace onchip::latency
