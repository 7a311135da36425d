// Start times of the operators and transfers of an order: loads in the order of the steps that wait for them, into all
// free room.

#include <algorithm>

#include "latency.hpp"

namespace onchip::latency {

void Evaluator::fill_room() {
    room_used_.assign(most_bytes_.size(), std::vector<Bytes>(order_->size() + 1, 0));
    loads_.clear();
    pending_stores_.clear();
    for (std::size_t number = 0; number < timing_.stays.size(); ++number) {
        const Stay& stay = timing_.stays[number];
        const Tensor& tensor = problem_.tensors[stay.tensor];
        room_used_[tensor.memory][stay.start] += tensor.bytes;
        room_used_[tensor.memory][stay.stop] -= tensor.bytes;
        if (stay.is_loaded) loads_.push_back(static_cast<Index>(number));
        if (!stay.is_loaded) stay_now_[stay.tensor] = static_cast<Index>(number);
        if (stay.is_stored) pending_stores_.push_back(static_cast<Index>(number));
    }
    for (auto& used : room_used_) {
        for (std::size_t step = 1; step < used.size(); ++step) used[step] += used[step - 1];
    }
    computing_left_ = first_channel_left_ = 0;
    for (const Index of : *order_) computing_left_ += problem_.operators[of].cycles;
    for (const Stay& stay : timing_.stays) {
        const Tensor& tensor = problem_.tensors[stay.tensor];
        if (stay.is_loaded) first_channel_left_ += tensor.load_cycles;
        if (stay.is_stored && problem_.machine.has_one_channel) first_channel_left_ += tensor.store_cycles;
    }
}

// Returns true if the remaining work cannot end in time, even without gaps.
bool Evaluator::is_too_late() const {
    const Cycles computed = timing_.ends.empty() ? 0 : timing_.ends.back();
    return std::max(computed + computing_left_, channel_free_[0] + first_channel_left_) > latest_;
}

// Returns false if a load has no place even when it is needed, or if the end is too late.
bool Evaluator::time() {
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
    for (BusyBytes& one : busy_) one.clear();
    for (std::size_t at = 0; at < loads_.size(); ++at) {
        compute_until(timing_.stays[loads_[at]].start);
        if (!place_load(at) || is_too_late()) return false;
    }
    compute_until(static_cast<Index>(order_->size()));
    store_all([](Index) { return true; });
    timing_.latency = timing_.ends.empty() ? 0 : timing_.ends.back();
    for (const Transfer& transfer : timing_.transfers) {
        timing_.latency = std::max(timing_.latency, transfer.stop);
        timing_.transfer_cycles += transfer.stop - transfer.start;
    }
    return true;
}

// Starts, one by one, the pending stores that satisfy the test.
template <typename Test>
void Evaluator::store_all(Test has_to_go) {
    while (true) {
        const auto written = pending_and_written();
        const auto found = std::find_if(written.begin(), written.end(), has_to_go);
        if (found == written.end()) return;
        store(*found);
    }
}

// Times all steps before `step`; their loads have been started.
void Evaluator::compute_until(Index step) {
    for (; computed_ < step; ++computed_) {
        const Operator& one = problem_.operators[(*order_)[computed_]];
        Cycles start = computed_ ? timing_.ends[computed_ - 1] : 0;
        for (const Index tensor : one.reads) start = std::max(start, arrived_[tensor]);
        start = is_placing_ ? std::max(start, outputs_free_at(computed_)) : room_free_at(computed_, start);
        timing_.ends.push_back(start + one.cycles);
        computing_left_ -= one.cycles;
        for (const Index tensor : one.writes) arrived_[tensor] = start + one.cycles;
        for (const auto* operands : {&one.reads, &one.writes}) {
            for (const Index tensor : *operands) use(tensor, start + one.cycles);
        }
    }
}

// Marks the bytes of a tensor as in use until `end`.
void Evaluator::use(Index tensor, Cycles end) {
    const Tensor& one = problem_.tensors[tensor];
    if (is_placing_) busy_[one.memory].use(timing_.offsets[stay_now_[tensor]], one.bytes, end);
}

// Returns the cycle at which the places of a step's outputs are free. Pending stores there are started first.
Cycles Evaluator::outputs_free_at(Index step) {
    Cycles free_at = 0;
    for (const Index tensor : problem_.operators[(*order_)[step]].writes) {
        const Bytes offset = timing_.offsets[stay_now_[tensor]], bytes = problem_.tensors[tensor].bytes;
        const Index memory = problem_.tensors[tensor].memory;
        store_all([&](Index number) {
            const Stay& stay = timing_.stays[number];
            const Bytes start = timing_.offsets[number];
            const bool is_there = start < offset + bytes && offset < start + problem_.tensors[stay.tensor].bytes;
            return memory_of(number) == memory && stay.stop <= step && is_there;
        });
        free_at = std::max(free_at, busy_[memory].until(offset, bytes));
    }
    return free_at;
}

// Returns the cycle at which a step's operator has room in bytes, for any addresses. Tensors in a store or waiting for
// one stay if there is room for both; otherwise the operator waits for them.
Cycles Evaluator::room_free_at(Index step, Cycles start) {
    if (problem_.operators[(*order_)[step]].writes.empty()) return start;
    store_all([&](Index number) {
        return timing_.stays[number].stop <= step && !wait(number, step, ahead_bytes_[memory_of(number)]);
    });
    std::erase_if(storing_, [&](const Transfer& one) { return one.stop <= start; });
    // The store that ends last keeps its room: of the others only the last is awaited.
    for (auto one = storing_.rbegin(); one != storing_.rend(); ++one) {
        if (one->stop <= start || timing_.stays[one->stay].stop > step) continue;
        if (!wait(one->stay, step, ahead_bytes_[memory_of(one->stay)])) start = one->stop;
    }
    return start;
}

// A transfer is set up on its queue, then has the channel exclusively.
Evaluator::Turn Evaluator::turn(Cycles ready, Cycles cycles, bool is_store) const {
    const Machine& machine = problem_.machine;
    const Cycles channel_free = channel_free_[machine.has_one_channel ? 0 : is_store];
    const Cycles start = std::max({ready, queue_free_[begun_ % machine.queues], channel_free - machine.setup_cycles});
    return {start, start + machine.setup_cycles + cycles};
}

// Returns the first step from which the load's room is free until it is needed, after the tensor's previous stay;
// `none` if it has no address. An address suffices if it is free when the queue is.
Index Evaluator::earliest_position(Index number) {
    const Stay& stay = timing_.stays[number];
    const Tensor& tensor = problem_.tensors[stay.tensor];
    const Bytes most = ahead_bytes_[tensor.memory] - tensor.bytes;
    Index first = std::max(stay.before == none ? 0 : timing_.stays[stay.before].stop, last_position_);
    if (is_placed_) return std::max(first, placed_from_[number]);
    if (is_placing_) {
        const Turn soonest = turn(stored_[stored_as(stay.tensor)], tensor.load_cycles, false);
        const Index wanted = first < stay.start ? position_at(soonest.start, first, stay.start) : stay.start;
        const FoundAddress found = addresses_[tensor.memory].earliest(tensor.bytes, wanted, stay.start, stay.stop);
        if (found.offset < 0) return none;
        timing_.offsets[number] = found.offset;
        first = found.position;
    }
    Index position = stay.start;
    while (position > first && room_used_[tensor.memory][position - 1] <= most) --position;
    return position;
}

// Returns the cycle at which the room of a load with this earliest position is free.
Cycles Evaluator::room_at(Index number, Index earliest) const {
    const Tensor& tensor = problem_.tensors[timing_.stays[number].tensor];
    if (is_placing_) return busy_[tensor.memory].until(timing_.offsets[number], tensor.bytes);
    return earliest > 0 ? timing_.ends[earliest - 1] : 0;
}

// Returns true if a stay may continue until that step: the tensor does not return before, and its bytes are unused.
bool Evaluator::stays_on(Index number, Index stop) const {
    const Stay& stay = timing_.stays[number];
    if (stay.after != none && stop > timing_.stays[stay.after].start) return false;
    const Bytes bytes = problem_.tensors[stay.tensor].bytes;
    const AddressMap& addresses = addresses_[memory_of(number)];
    return !is_placing_ || bytes == 0 || addresses.is_free({timing_.offsets[number], bytes, stay.stop, stop});
}

void Evaluator::keep_until(Index number, Index stop) {
    Stay& stay = timing_.stays[number];
    const Index memory = memory_of(number);
    if (is_placing_) addresses_[memory].extend(timing_.offsets[number], stay.start, stay.stop, stop);
    for (; stay.stop < stop; ++stay.stop) room_used_[memory][stay.stop] += problem_.tensors[stay.tensor].bytes;
}

// Returns the position in [first, last] of a transfer that starts in that cycle: after all operators that have ended.
Index Evaluator::position_at(Cycles cycle, Index first, Index last) const {
    const auto begin = timing_.ends.begin();
    return static_cast<Index>(std::upper_bound(begin + first, begin + last, cycle) - begin);
}

// Returns false if the load has no address.
bool Evaluator::place_load(std::size_t at) {
    const Index number = loads_[at];
    Stay& stay = timing_.stays[number];
    const Tensor& tensor = problem_.tensors[stay.tensor];
    AddressMap& addresses = addresses_[tensor.memory];
    if (is_placing_ && has_place_for_all_) addresses.remove(timing_.offsets[number], stay.start, stay.stop);
    for (Cycles ready = stored_[stored_as(stay.tensor)];;) {
        const Index earliest = earliest_position(number);
        if (earliest == none) return false;
        const Turn load = turn(std::max(room_at(number, earliest), ready), tensor.load_cycles, false);
        const Index position = position_at(load.start, earliest, stay.start);
        const Cycles others_stored = stored_before(position, load.start, tensor.memory);
        if (others_stored > load.start) {
            ready = others_stored;
            continue;
        }
        const Index pending = store_before(at, load, position);
        if (pending != none) {
            store(pending);
            ready = std::max(ready, stored_[stored_as(stay.tensor)]);
            continue;
        }
        // A tensor that waits for its store may have taken the place.
        if (is_placing_ && !is_placed_ &&
            !addresses.is_free({timing_.offsets[number], tensor.bytes, position, stay.stop}))
            continue;
        begin(number, false, position, load);
        arrived_[stay.tensor] = load.stop;
        for (Index step = position; step < stay.start; ++step) room_used_[tensor.memory][step] += tensor.bytes;
        stay.start = position;
        stay_now_[stay.tensor] = number;
        use(stay.tensor, load.stop);
        if (is_placed_) addresses.remove(timing_.offsets[number], placed_from_[number], stay.stop);
        if (is_placing_) addresses.put({timing_.offsets[number], tensor.bytes, stay.start, stay.stop});
        return true;
    }
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
