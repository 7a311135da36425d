// Addresses of stays: of written tensors before loads are timed, or of all stays after they have been timed in bytes.

#include <algorithm>

#include "latency.hpp"

namespace onchip::latency {

namespace {

constexpr double heavier = 1.5;

}  // namespace

// Places written tensors for their whole stay, each as low as possible, in order of decreasing size or lifetime. Loads
// may get such a place too, until they find a better one. Returns false if a stay finds no place.
bool Evaluator::place_first(const Room& room, const std::vector<Bytes>& offsets) {
    is_placing_ = room.placing != Placing::none;
    has_place_for_all_ = room.has_place_for_all;
    timing_.offsets.clear();
    if (!is_placing_) return true;
    timing_.offsets.assign(timing_.stays.size(), 0);
    clear_addresses();
    placed_first_.clear();
    for (std::size_t number = 0; number < timing_.stays.size(); ++number) {
        const Stay& stay = timing_.stays[number];
        if (!offsets.empty()) {
            timing_.offsets[number] = offsets.at(number);
            const Tensor& tensor = problem_.tensors[stay.tensor];
            addresses_[tensor.memory].put({offsets[number], tensor.bytes, stay.start, stay.stop});
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
    for (AddressMap& one : addresses_) one.choose(room.placing);
    return true;
}

void Evaluator::clear_addresses() {
    for (std::size_t memory = 0; memory < addresses_.size(); ++memory) {
        addresses_[memory].clear(problem_.machine.scratchpads[memory].addressed_bytes, Placing::lowest);
    }
}

bool Evaluator::place_as_low_as_can_be(Index number) {
    const Stay& stay = timing_.stays[number];
    const Bytes bytes = problem_.tensors[stay.tensor].bytes;
    AddressMap& addresses = addresses_[memory_of(number)];
    const FoundAddress found = addresses.earliest(bytes, stay.start, stay.start, stay.stop);
    timing_.offsets[number] = found.offset;
    addresses.put({found.offset, bytes, stay.start, stay.stop});
    return found.offset >= 0;
}

// Times the order in bytes, then with addresses: places stays by decreasing weight, each where it can start as early as
// in bytes, or as soon after as possible. Stays without a place, or with a late one, get more weight in the next round;
// keeps the best round.
void Evaluator::place_afterwards(const Room& room, const StopToken* stop) {
    const std::vector<Stay> stays = timing_.stays;
    is_placing_ = has_place_for_all_ = false;
    timing_.offsets.assign(stays.size(), 0);
    timing_.fits = time();
    if (!timing_.fits) return;
    const Cycles in_bytes = timing_.latency;
    wanted_from_.clear();
    weights_.clear();
    for (const Stay& stay : timing_.stays) {
        const double steps = room.is_longest_first ? stay.stop - stay.start : 1;
        wanted_from_.push_back(stay.start);
        weights_.push_back(steps * static_cast<double>(problem_.tensors[stay.tensor].bytes));
    }
    Timing best;
    for (Index round = 0; round < room.rounds && best.latency > in_bytes; ++round) {
        if (stop != nullptr && stop->is_asked()) break;
        const Index failed = place_all(stays);
        if (failed == none && time_as_placed(stays) && timing_.latency < best.latency) {
            best = timing_;
            best.fits = true;
        }
        if (!is_heavier_when_late(failed, stays)) break;
    }
    timing_ = best;
}

// Returns the first stay without a place, or none; placed stays are free from `placed_from_` on.
Index Evaluator::place_all(const std::vector<Stay>& stays) {
    placed_first_.resize(stays.size());
    for (std::size_t number = 0; number < stays.size(); ++number) placed_first_[number] = static_cast<Index>(number);
    std::stable_sort(placed_first_.begin(), placed_first_.end(),
                     [&](Index one, Index other) { return weights_[one] > weights_[other]; });
    placed_from_.assign(stays.size(), 0);
    timing_.offsets.assign(stays.size(), 0);
    clear_addresses();
    for (const Index number : placed_first_) {
        const Stay& stay = stays[number];
        const Bytes bytes = problem_.tensors[stay.tensor].bytes;
        AddressMap& addresses = addresses_[problem_.tensors[stay.tensor].memory];
        const FoundAddress found = addresses.earliest(bytes, wanted_from_[number], stay.start, stay.stop);
        if (found.offset < 0) return number;
        timing_.offsets[number] = found.offset;
        placed_from_[number] = found.position;
        addresses.put({found.offset, bytes, found.position, stay.stop});
    }
    return none;
}

bool Evaluator::time_as_placed(const std::vector<Stay>& stays) {
    timing_.stays = stays;
    is_placing_ = is_placed_ = true;
    const bool is_in_time = time();
    is_placing_ = is_placed_ = false;
    return is_in_time;
}

// Raises the weight of stays without a place or with a late one. Returns true if such stays existed.
bool Evaluator::is_heavier_when_late(Index failed, const std::vector<Stay>& stays) {
    if (failed != none) {
        weights_[failed] = heavier * *std::max_element(weights_.begin(), weights_.end());
        return true;
    }
    bool is_any_late = false;
    for (std::size_t number = 0; number < stays.size(); ++number) {
        if (placed_from_[number] <= wanted_from_[number]) continue;
        weights_[number] *= heavier;
        is_any_late = true;
    }
    return is_any_late;
}

}  // namespace onchip::latency
