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
        if (!stay.is_loaded) stay_now_[stay.tensor] = static_cast<Index>(number);
        if (stay.is_stored) pending_stores_.push_back(static_cast<Index>(number));
    }
    for (std::size_t step = 1; step < room_used_.size(); ++step) room_used_[step] += room_used_[step - 1];
    computing_left_ = first_channel_left_ = 0;
    for (const Index of : *order_) computing_left_ += problem_.operators[of].cycles;
    for (const Stay& stay : timing_.stays) {
        const Tensor& tensor = problem_.tensors[stay.tensor];
        if (stay.is_loaded) first_channel_left_ += tensor.load_cycles;
        if (stay.is_stored && problem_.machine.has_one_channel) first_channel_left_ += tensor.store_cycles;
    }
}

// Whether all that is left cannot be done in time, even one thing right after the other.
bool Evaluator::is_too_late() const {
    const Cycles computed = timing_.ends.empty() ? 0 : timing_.ends.back();
    return std::max(computed + computing_left_, channel_free_[0] + first_channel_left_) > latest_;
}

// False where some load has no place, not even when it is needed, or where all ends too late.
bool Evaluator::time(Bytes ahead_bytes) {
    fill_room();
    std::fill(arrived_.begin(), arrived_.end(), 0);
    std::fill(stored_.begin(), stored_.end(), 0);
    queue_free_.assign(problem_.machine.queues, 0);
    channel_free_[0] = channel_free_[1] = 0;
    begun_ = last_position_ = computed_ = 0;
    timing_.transfers.clear();
    timing_.ends.clear();
    timing_.transfer_cycles = 0;
    storing_.clear();
    busy_.clear();
    for (std::size_t at = 0; at < loads_.size(); ++at) {
        compute_until(timing_.stays[loads_[at]].start, ahead_bytes);
        if (!place_load(at, ahead_bytes) || is_too_late()) return false;
    }
    compute_until(static_cast<Index>(order_->size()), ahead_bytes);
    store_all([](Index) { return true; });
    timing_.latency = timing_.ends.empty() ? 0 : timing_.ends.back();
    for (const Transfer& transfer : timing_.transfers) {
        timing_.latency = std::max(timing_.latency, transfer.stop);
        timing_.transfer_cycles += transfer.stop - transfer.start;
    }
    return true;
}

// What waits for its store and has to go, one after another.
template <typename Test>
void Evaluator::store_all(Test has_to_go) {
    while (true) {
        const auto found = std::find_if(pending_stores_.begin(), pending_stores_.end(), has_to_go);
        if (found == pending_stores_.end()) return;
        store(*found);
    }
}

// All steps before it; their loads have been begun.
void Evaluator::compute_until(Index step, Bytes ahead_bytes) {
    for (; computed_ < step; ++computed_) {
        const Operator& one = problem_.operators[(*order_)[computed_]];
        Cycles start = computed_ ? timing_.ends[computed_ - 1] : 0;
        for (const Index tensor : one.reads) start = std::max(start, arrived_[tensor]);
        start = is_placing_ ? std::max(start, outputs_free_at(computed_)) : room_free_at(computed_, start, ahead_bytes);
        timing_.ends.push_back(start + one.cycles);
        computing_left_ -= one.cycles;
        for (const Index tensor : one.writes) arrived_[tensor] = start + one.cycles;
        for (const auto* operands : {&one.reads, &one.writes}) {
            for (const Index tensor : *operands) use(tensor, start + one.cycles);
        }
    }
}

// The bytes where a tensor lies are in use until then.
void Evaluator::use(Index tensor, Cycles end) {
    if (is_placing_) busy_.use(timing_.offsets[stay_now_[tensor]], problem_.tensors[tensor].bytes, end);
}

// When nobody uses the places of what the operator of a step writes. What waits for its store there is stored first.
Cycles Evaluator::outputs_free_at(Index step) {
    Cycles free_at = 0;
    for (const Index tensor : problem_.operators[(*order_)[step]].writes) {
        const Bytes offset = timing_.offsets[stay_now_[tensor]], bytes = problem_.tensors[tensor].bytes;
        store_all([&](Index number) {
            const Stay& stay = timing_.stays[number];
            const Bytes start = timing_.offsets[number];
            const bool is_there = start < offset + bytes && offset < start + problem_.tensors[stay.tensor].bytes;
            return stay.stop <= step && is_there;
        });
        free_at = std::max(free_at, busy_.until(offset, bytes));
    }
    return free_at;
}

// When there is room for the operator of a step, wherever everything lies: what is being stored, or still has to be,
// stays where it is while there is room for it beside, else it is waited for.
Cycles Evaluator::room_free_at(Index step, Cycles start, Bytes ahead_bytes) {
    if (problem_.operators[(*order_)[step]].writes.empty()) return start;
    store_all([&](Index number) { return timing_.stays[number].stop <= step && !wait(number, step, ahead_bytes); });
    std::erase_if(storing_, [&](const Transfer& one) { return one.stop <= start; });
    for (const Transfer& one : storing_) {
        if (one.stop <= start || timing_.stays[one.stay].stop > step) continue;
        if (!wait(one.stay, step, ahead_bytes)) start = one.stop;
    }
    return start;
}

// When what left before a position has been stored, if a transfer that begins then may take its bytes.
Cycles Evaluator::stored_before(Index position, Cycles start) const {
    for (const Transfer& one : storing_) {
        if (timing_.stays[one.stay].stop <= position) start = std::max(start, one.stop);
    }
    return start;
}

// A transfer is set up on its queue, and then has the channel to itself.
Evaluator::Turn Evaluator::turn(Cycles ready, Cycles cycles, bool is_store) const {
    const Machine& machine = problem_.machine;
    const Cycles channel_free = channel_free_[machine.has_one_channel ? 0 : is_store];
    const Cycles start = std::max({ready, queue_free_[begun_ % machine.queues], channel_free - machine.setup_cycles});
    return {start, start + machine.setup_cycles + cycles};
}

// The first step from which on there is room until it is needed, and not before it last left; `none` where it has no
// address. Of addresses one will do that is free when the queue is.
Index Evaluator::earliest_position(Index number, Bytes ahead_bytes) {
    const Stay& stay = timing_.stays[number];
    const Tensor& tensor = problem_.tensors[stay.tensor];
    const Bytes most = ahead_bytes - tensor.bytes;
    Index first = std::max(stay.before == none ? 0 : timing_.stays[stay.before].stop, last_position_);
    if (is_placed_) return std::max(first, placed_from_[number]);
    if (is_placing_) {
        const Turn soonest = turn(stored_[stay.tensor], tensor.load_cycles, false);
        const Index wanted = first < stay.start ? position_at(soonest.start, first, stay.start) : stay.start;
        const FoundAddress found = addresses_.earliest(tensor.bytes, wanted, stay.start, stay.stop);
        if (found.offset < 0) return none;
        timing_.offsets[number] = found.offset;
        first = found.position;
    }
    Index position = stay.start;
    while (position > first && room_used_[position - 1] <= most) --position;
    return position;
}

// When the room of a load that stands there at the earliest is free.
Cycles Evaluator::room_at(Index number, Index earliest) const {
    if (is_placing_) return busy_.until(timing_.offsets[number], problem_.tensors[timing_.stays[number].tensor].bytes);
    return earliest > 0 ? timing_.ends[earliest - 1] : 0;
}

// Whether a stay may go on until that step: the tensor does not come back before, and nobody else has its bytes.
bool Evaluator::stays_on(Index number, Index stop) const {
    const Stay& stay = timing_.stays[number];
    if (stay.after != none && stop > timing_.stays[stay.after].start) return false;
    const Bytes bytes = problem_.tensors[stay.tensor].bytes;
    return !is_placing_ || bytes == 0 || addresses_.is_free({timing_.offsets[number], bytes, stay.stop, stop});
}

void Evaluator::keep_until(Index number, Index stop) {
    Stay& stay = timing_.stays[number];
    if (is_placing_) addresses_.extend(timing_.offsets[number], stay.start, stay.stop, stop);
    for (; stay.stop < stop; ++stay.stop) room_used_[stay.stop] += problem_.tensors[stay.tensor].bytes;
}

// Where a transfer that begins in that cycle stands: after all operators that have ended, in [first, last].
Index Evaluator::position_at(Cycles cycle, Index first, Index last) const {
    const auto begin = timing_.ends.begin();
    return static_cast<Index>(std::upper_bound(begin + first, begin + last, cycle) - begin);
}

// False where it has no address.
bool Evaluator::place_load(std::size_t at, Bytes ahead_bytes) {
    const Index number = loads_[at];
    Stay& stay = timing_.stays[number];
    const Tensor& tensor = problem_.tensors[stay.tensor];
    if (is_placing_ && has_place_for_all_) addresses_.remove(timing_.offsets[number], stay.start, stay.stop);
    const Bytes next = at + 1 < loads_.size() ? problem_.tensors[timing_.stays[loads_[at + 1]].tensor].bytes : 0;
    for (Cycles ready = stored_[stay.tensor];;) {
        const Index earliest = earliest_position(number, ahead_bytes);
        if (earliest == none) return false;
        const Turn load = turn(std::max(room_at(number, earliest), ready), tensor.load_cycles, false);
        const Index position = position_at(load.start, earliest, stay.start);
        const Cycles others_stored = stored_before(position, load.start);
        if (others_stored > load.start) {
            ready = others_stored;
            continue;
        }
        const Index pending = store_before(stay.tensor, load, position, ahead_bytes - tensor.bytes - next);
        if (pending != none) {
            store(pending);
            ready = std::max(ready, stored_[stay.tensor]);
            continue;
        }
        // What waits for its store may have taken the place.
        if (is_placing_ && !is_placed_ &&
            !addresses_.is_free({timing_.offsets[number], tensor.bytes, position, stay.stop}))
            continue;
        begin(number, false, position, load);
        arrived_[stay.tensor] = load.stop;
        for (Index step = position; step < stay.start; ++step) room_used_[step] += tensor.bytes;
        stay.start = position;
        stay_now_[stay.tensor] = number;
        use(stay.tensor, load.stop);
        if (is_placed_) addresses_.remove(timing_.offsets[number], placed_from_[number], stay.stop);
        if (is_placing_) addresses_.put({timing_.offsets[number], tensor.bytes, stay.start, stay.stop});
        return true;
    }
}

// A store that has to go before a load of that turn and position: it is the tensor's own, or its room is needed, or it
// ends while the load waits.
Index Evaluator::store_before(Index tensor, const Turn& load, Index position, Bytes most_bytes) {
    for (const Index number : pending_stores_) {
        const Stay& stay = timing_.stays[number];
        if (stay.tensor == tensor) return number;
        if (stay.stop <= position && !wait(number, position, most_bytes)) return number;
        if (producer_step_[stay.tensor] >= computed_) continue;
        if (turn_of_store(number).stop <= load.start && producer_step_[stay.tensor] < position) return number;
    }
    return none;
}

// Keeps what waits for its store over that step, if there is room enough also then; the loads come first.
bool Evaluator::wait(Index number, Index step, Bytes most_bytes) {
    const Stay& stay = timing_.stays[number];
    const Bytes bytes = problem_.tensors[stay.tensor].bytes;
    for (Index one = stay.stop; one <= step; ++one) {
        if (room_used_[one] + bytes > most_bytes) return false;
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
    const auto other = std::find_if(pending_stores_.begin(), pending_stores_.end(), goes_before);
    if (other != pending_stores_.end()) {
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

void Evaluator::begin(Index stay, bool is_store, Index position, const Turn& turn) {
    timing_.transfers.push_back({stay, is_store, position, turn.start, turn.stop});
    queue_free_[begun_ % problem_.machine.queues] = turn.stop;
    const Index channel = problem_.machine.has_one_channel ? 0 : is_store;
    channel_free_[channel] = turn.stop;
    if (channel == 0) first_channel_left_ -= turn.stop - turn.start - problem_.machine.setup_cycles;
    ++begun_;
    last_position_ = position;
}

}  // namespace onchip::latency
