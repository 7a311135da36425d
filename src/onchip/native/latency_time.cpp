// When each operator and each transfer of an order begins: loads by the step that waits for them, into all free room.

#include <algorithm>

#include "latency.hpp"

namespace onchip::latency {

void Evaluator::fill_room() {
    room_used_.assign(order_->size() + 1, 0);
    loads_.clear();
    pending_stores_.clear();
    for (std::size_t number = 0; number < timing_.stays.size(); ++number) {
        const Stay& stay = timing_.stays[number];
        const Bytes bytes = problem_.tensors[stay.tensor].bytes;
        room_used_[stay.start] += bytes;
        room_used_[stay.stop] -= bytes;
        if (stay.is_loaded) loads_.push_back(static_cast<Index>(number));
        if (stay.is_stored) pending_stores_.push_back(static_cast<Index>(number));
    }
    for (std::size_t step = 1; step < room_used_.size(); ++step) room_used_[step] += room_used_[step - 1];
}

void Evaluator::time(Bytes ahead_bytes) {
    fill_room();
    std::fill(arrived_.begin(), arrived_.end(), 0);
    std::fill(stored_.begin(), stored_.end(), 0);
    queue_free_.assign(problem_.machine.queues, 0);
    channel_free_[0] = channel_free_[1] = 0;
    begun_ = last_position_ = computed_ = 0;
    for (std::size_t at = 0; at < loads_.size(); ++at) {
        compute_until(timing_.stays[loads_[at]].start);
        place_load(at, ahead_bytes);
    }
    compute_until(static_cast<Index>(order_->size()));
    while (!pending_stores_.empty()) store(0);
    hold_what_is_stored(ahead_bytes);
    timing_.latency = timing_.ends.empty() ? 0 : timing_.ends.back();
    for (const Transfer& transfer : timing_.transfers) {
        timing_.latency = std::max(timing_.latency, transfer.stop);
        timing_.transfer_cycles += transfer.stop - transfer.start;
    }
}

// Where there is room, the bytes of what is being stored are nobody else's until it is: else these would wait.
void Evaluator::hold_what_is_stored(Bytes ahead_bytes) {
    const Index steps = static_cast<Index>(order_->size());
    for (const Transfer& transfer : timing_.transfers) {
        if (!transfer.is_store) continue;
        Stay& stay = timing_.stays[transfer.stay];
        const Bytes most = ahead_bytes - problem_.tensors[stay.tensor].bytes;
        while (stay.stop < steps && room_used_[stay.stop] <= most) {
            const Cycles begins = timing_.ends[stay.stop] - problem_.operators[(*order_)[stay.stop]].cycles;
            if (begins >= transfer.stop) break;
            room_used_[stay.stop++] += problem_.tensors[stay.tensor].bytes;
        }
    }
}

// All steps before it; their loads have been begun.
void Evaluator::compute_until(Index step) {
    for (; computed_ < step; ++computed_) {
        const Operator& one = problem_.operators[(*order_)[computed_]];
        Cycles start = computed_ ? timing_.ends[computed_ - 1] : 0;
        for (const Index tensor : one.reads) start = std::max(start, arrived_[tensor]);
        timing_.ends.push_back(start + one.cycles);
        for (const Index tensor : one.writes) arrived_[tensor] = start + one.cycles;
    }
}

// A transfer is set up on its queue, and then has the channel to itself.
Evaluator::Turn Evaluator::turn(Cycles ready, Cycles cycles, bool is_store) const {
    const Machine& machine = problem_.machine;
    const Cycles channel_free = channel_free_[machine.has_one_channel ? 0 : is_store];
    const Cycles start = std::max({ready, queue_free_[begun_ % machine.queues], channel_free - machine.setup_cycles});
    return {start, start + machine.setup_cycles + cycles};
}

// The first step from which on there is room until it is needed, and not before it last left.
Index Evaluator::earliest_position(const Stay& stay, Bytes ahead_bytes) const {
    const Bytes most = ahead_bytes - problem_.tensors[stay.tensor].bytes;
    const Index first = std::max(stay.earliest, last_position_);
    Index position = stay.start;
    while (position > first && room_used_[position - 1] <= most) --position;
    return position;
}

// Where a transfer that begins in that cycle stands: after all operators that have ended, in [first, last].
Index Evaluator::position_at(Cycles cycle, Index first, Index last) const {
    const auto begin = timing_.ends.begin();
    return static_cast<Index>(std::upper_bound(begin + first, begin + last, cycle) - begin);
}

void Evaluator::place_load(std::size_t at, Bytes ahead_bytes) {
    const Index number = loads_[at];
    Stay& stay = timing_.stays[number];
    const Tensor& tensor = problem_.tensors[stay.tensor];
    const Bytes next = at + 1 < loads_.size() ? problem_.tensors[timing_.stays[loads_[at + 1]].tensor].bytes : 0;
    while (true) {
        const Index earliest = earliest_position(stay, ahead_bytes);
        const Cycles room_at = earliest > 0 ? timing_.ends[earliest - 1] : 0;
        const Turn load = turn(std::max(room_at, stored_[stay.tensor]), tensor.load_cycles, false);
        const Index position = position_at(load.start, earliest, stay.start);
        const Index pending = store_before(load, position, ahead_bytes - tensor.bytes - next);
        if (pending != none) {
            store(pending);
            continue;
        }
        begin(number, false, position, load);
        arrived_[stay.tensor] = load.stop;
        for (Index step = position; step < stay.start; ++step) room_used_[step] += tensor.bytes;
        stay.start = position;
        return;
    }
}

// A store that has to go before a load of that turn and position: its room is needed, or it ends while the load waits.
Index Evaluator::store_before(const Turn& load, Index position, Bytes most_bytes) {
    for (std::size_t at = 0; at < pending_stores_.size(); ++at) {
        Stay& stay = timing_.stays[pending_stores_[at]];
        if (stay.stop <= position && !wait(stay, position, most_bytes)) return static_cast<Index>(at);
        if (producer_step_[stay.tensor] >= computed_) continue;
        const Cycles produced = timing_.ends[producer_step_[stay.tensor]];
        const Turn one = turn(produced, problem_.tensors[stay.tensor].store_cycles, true);
        if (one.stop <= load.start && producer_step_[stay.tensor] < position) return static_cast<Index>(at);
    }
    return none;
}

// Keeps what waits for its store over that step, if there is room enough also then; the loads come first.
bool Evaluator::wait(Stay& stay, Index step, Bytes most_bytes) {
    const Bytes bytes = problem_.tensors[stay.tensor].bytes;
    for (Index one = stay.stop; one <= step; ++one) {
        if (room_used_[one] + bytes > most_bytes) return false;
    }
    for (; stay.stop <= step; ++stay.stop) room_used_[stay.stop] += bytes;
    return true;
}

void Evaluator::store(Index pending) {
    const Index number = pending_stores_[pending];
    pending_stores_.erase(pending_stores_.begin() + pending);
    const Index tensor = timing_.stays[number].tensor;
    const Turn one = turn(timing_.ends[producer_step_[tensor]], problem_.tensors[tensor].store_cycles, true);
    begin(number, true, std::max(last_position_, producer_step_[tensor] + 1), one);
    stored_[tensor] = one.stop;
}

void Evaluator::begin(Index stay, bool is_store, Index position, const Turn& turn) {
    timing_.transfers.push_back({stay, is_store, position, turn.start, turn.stop});
    queue_free_[begun_ % problem_.machine.queues] = turn.stop;
    channel_free_[problem_.machine.has_one_channel ? 0 : is_store] = turn.stop;
    ++begun_;
    last_position_ = position;
}

}  // namespace onchip::latency
