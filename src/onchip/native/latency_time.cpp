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

// What is written lies where it is for as long as it stays, each as low as can be: the largest first, or what stays
// longest. Loads may have such a place, too, until they find a better one. False where some has none.
bool Evaluator::place_first(const Room& room, const std::vector<Bytes>& offsets) {
    is_placing_ = room.placing != Placing::none;
    has_place_for_all_ = room.has_place_for_all;
    timing_.offsets.clear();
    if (!is_placing_) return true;
    timing_.offsets.assign(timing_.stays.size(), 0);
    addresses_.clear(problem_.machine.addressed_bytes, Placing::lowest);
    placed_first_.clear();
    for (std::size_t number = 0; number < timing_.stays.size(); ++number) {
        const Stay& stay = timing_.stays[number];
        if (!offsets.empty()) {
            timing_.offsets[number] = offsets.at(number);
            addresses_.put({offsets[number], problem_.tensors[stay.tensor].bytes, stay.start, stay.stop});
        } else if (has_place_for_all_ || !stay.is_loaded) {
            placed_first_.push_back(static_cast<Index>(number));
        }
    }
    const auto weight = [&](Index number) -> Bytes {
        const Stay& stay = timing_.stays[number];
        return room.is_longest_first ? stay.stop - stay.start : problem_.tensors[stay.tensor].bytes;
    };
    std::stable_sort(placed_first_.begin(), placed_first_.end(),
                     [&](Index one, Index other) { return weight(one) > weight(other); });
    for (const Index number : placed_first_) {
        if (!place_as_low_as_can_be(number)) return false;
    }
    addresses_.choose(room.placing);
    return true;
}

bool Evaluator::place_as_low_as_can_be(Index number) {
    const Stay& stay = timing_.stays[number];
    const Bytes bytes = problem_.tensors[stay.tensor].bytes;
    const FoundAddress found = addresses_.earliest(bytes, stay.start, stay.start, stay.stop);
    timing_.offsets[number] = found.offset;
    addresses_.put({found.offset, bytes, stay.start, stay.stop});
    return found.offset >= 0;
}

// False where some load has no place, not even when it is needed.
bool Evaluator::time(Bytes ahead_bytes) {
    fill_room();
    std::fill(arrived_.begin(), arrived_.end(), 0);
    std::fill(stored_.begin(), stored_.end(), 0);
    queue_free_.assign(problem_.machine.queues, 0);
    channel_free_[0] = channel_free_[1] = 0;
    begun_ = last_position_ = computed_ = 0;
    for (std::size_t at = 0; at < loads_.size(); ++at) {
        compute_until(timing_.stays[loads_[at]].start);
        if (!place_load(at, ahead_bytes)) return false;
    }
    compute_until(static_cast<Index>(order_->size()));
    while (!pending_stores_.empty()) store(0);
    hold_what_is_stored(ahead_bytes);
    timing_.latency = timing_.ends.empty() ? 0 : timing_.ends.back();
    for (const Transfer& transfer : timing_.transfers) {
        timing_.latency = std::max(timing_.latency, transfer.stop);
        timing_.transfer_cycles += transfer.stop - transfer.start;
    }
    return true;
}

// Where there is room, the bytes of what is being stored are nobody else's until it is: else these would wait.
void Evaluator::hold_what_is_stored(Bytes ahead_bytes) {
    const Index steps = static_cast<Index>(order_->size());
    for (const Transfer& transfer : timing_.transfers) {
        if (!transfer.is_store) continue;
        const Stay& stay = timing_.stays[transfer.stay];
        const Bytes most = ahead_bytes - problem_.tensors[stay.tensor].bytes;
        while (stay.stop < steps && room_used_[stay.stop] <= most && stays_on(transfer.stay, stay.stop + 1)) {
            const Cycles begins = timing_.ends[stay.stop] - problem_.operators[(*order_)[stay.stop]].cycles;
            if (begins >= transfer.stop) break;
            keep_until(transfer.stay, stay.stop + 1);
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

// The first step from which on there is room until it is needed, and not before it last left; `none` where it has no
// address. Of addresses one will do that is free when the queue is.
Index Evaluator::earliest_position(Index number, Bytes ahead_bytes) {
    const Stay& stay = timing_.stays[number];
    const Tensor& tensor = problem_.tensors[stay.tensor];
    const Bytes most = ahead_bytes - tensor.bytes;
    Index first = std::max(stay.before == none ? 0 : timing_.stays[stay.before].stop, last_position_);
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
    while (true) {
        const Index earliest = earliest_position(number, ahead_bytes);
        if (earliest == none) return false;
        const Cycles room_at = earliest > 0 ? timing_.ends[earliest - 1] : 0;
        const Turn load = turn(std::max(room_at, stored_[stay.tensor]), tensor.load_cycles, false);
        const Index position = position_at(load.start, earliest, stay.start);
        const Index pending = store_before(stay.tensor, load, position, ahead_bytes - tensor.bytes - next);
        if (pending != none) {
            store(pending);
            continue;
        }
        // What waits for its store may have taken the place.
        if (is_placing_ && !addresses_.is_free({timing_.offsets[number], tensor.bytes, position, stay.stop})) continue;
        begin(number, false, position, load);
        arrived_[stay.tensor] = load.stop;
        for (Index step = position; step < stay.start; ++step) room_used_[step] += tensor.bytes;
        stay.start = position;
        if (is_placing_) addresses_.put({timing_.offsets[number], tensor.bytes, stay.start, stay.stop});
        return true;
    }
}

// A store that has to go before a load of that turn and position: it is the tensor's own, or its room is needed, or it
// ends while the load waits.
Index Evaluator::store_before(Index tensor, const Turn& load, Index position, Bytes most_bytes) {
    for (std::size_t at = 0; at < pending_stores_.size(); ++at) {
        const Stay& stay = timing_.stays[pending_stores_[at]];
        if (stay.tensor == tensor) return static_cast<Index>(at);
        if (stay.stop <= position && !wait(pending_stores_[at], position, most_bytes)) return static_cast<Index>(at);
        if (producer_step_[stay.tensor] >= computed_) continue;
        const Cycles produced = timing_.ends[producer_step_[stay.tensor]];
        const Turn one = turn(produced, problem_.tensors[stay.tensor].store_cycles, true);
        if (one.stop <= load.start && producer_step_[stay.tensor] < position) return static_cast<Index>(at);
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
