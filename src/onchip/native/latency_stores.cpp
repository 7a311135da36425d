// When what has to be stored goes to DRAM: where the queues are idle, or when its room or its bytes are needed.

#include <algorithm>

#include "latency.hpp"

namespace onchip::latency {

// When what left before a position has been stored, if a transfer that begins then may take its bytes.
Cycles Evaluator::stored_before(Index position, Cycles start, Index memory) const {
    for (const Transfer& one : storing_) {
        const bool is_there = memory_of(one.stay) == memory && timing_.stays[one.stay].stop <= position;
        if (is_there) start = std::max(start, one.stop);
    }
    return start;
}

// What waits for its store and has been written by now: pending stores stand in the order of the steps that write.
std::span<const Index> Evaluator::pending_and_written() const {
    const auto is_written = [&](Index number) { return producer_step_[timing_.stays[number].tensor] < computed_; };
    return {pending_stores_.begin(), std::partition_point(pending_stores_.begin(), pending_stores_.end(), is_written)};
}

// A store that has to go before a load of that turn and position: it is the tensor's own, or it ends while the load
// waits, or its room is needed, by the load or the next one. What can be stored meanwhile keeps its room no longer.
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

// Keeps what waits for its store over that step, if there is room enough also then; the loads come first.
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

// Before it goes what has to be stored before it could be after it, and what is stored before it could begin.
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

// What waits for its store has been written.
Evaluator::Turn Evaluator::turn_of_store(Index number) const {
    const Index tensor = timing_.stays[number].tensor;
    return turn(timing_.ends[producer_step_[tensor]], problem_.tensors[tensor].store_cycles, true);
}

}  // namespace onchip::latency
