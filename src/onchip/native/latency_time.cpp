// The timing of an order: residencies, transfers and addresses.

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "latency.hpp"

namespace onchip::latency {

// The choice of addresses: the free range that is available earliest.

void AddressMap::clear(Bytes capacity_bytes, Placing placing) {
    capacity_bytes_ = capacity_bytes;
    placing_ = placing;
    all_.clear();
}

void AddressMap::put(const Rectangle& one) {
    if (one.bytes == 0) return;
    const auto later = [](const Rectangle& first, const Rectangle& second) { return first.stop > second.stop; };
    all_.insert(std::upper_bound(all_.begin(), all_.end(), one, later), one);
}

Rectangle AddressMap::remove(Bytes offset, Index start, Index stop) {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Rectangle& one) {
        return one.offset == offset && one.start == start && one.stop == stop;
    });
    if (found == all_.end()) return {};
    const Rectangle removed = *found;
    all_.erase(found);
    return removed;
}

void AddressMap::extend(Bytes offset, Index start, Index stop, Index new_stop) {
    put({offset, remove(offset, start, stop).bytes, start, new_stop});
}

bool AddressMap::is_free(const Rectangle& one) const {
    return std::none_of(all_.begin(), all_.end(), [&](const Rectangle& other) {
        return other.start < one.stop && one.start < other.stop && other.offset < one.offset + one.bytes &&
               one.offset < other.offset + other.bytes;
    });
}

FoundAddress AddressMap::earliest(Bytes bytes, Index wanted, Index needed, Index stop) {
    best_ = {};
    if (bytes > capacity_bytes_) return best_;
    if (bytes == 0) return {0, wanted};
    paint(wanted, needed, stop);
    look(bytes, wanted, needed, true);
    look(bytes, wanted, needed, false);
    return best_;
}

// Starts with the latest stop, so that each range of bytes is painted once.
void AddressMap::paint(Index wanted, Index needed, Index stop) {
    beside_.clear();
    edges_.assign({0, capacity_bytes_});
    for (const Rectangle& one : all_) {
        if (one.stop <= wanted) break;
        if (stop <= one.start) continue;
        beside_.push_back(one);
        edges_.push_back(one.offset);
        edges_.push_back(one.offset + one.bytes);
    }
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    free_from_.assign(edges_.size(), 0);
    next_.resize(edges_.size());
    std::iota(next_.begin(), next_.end(), 0);
    const auto unpainted = [this](std::size_t at) {
        while (next_[at] != static_cast<Index>(at)) at = static_cast<std::size_t>(next_[at] = next_[next_[at]]);
        return at;
    };
    for (const Rectangle& one : beside_) {
        const auto edge = std::lower_bound(edges_.begin(), edges_.end(), one.offset);
        const Bytes end = one.offset + one.bytes;
        for (std::size_t at = unpainted(edge - edges_.begin()); edges_[at] < end; at = unpainted(at)) {
            free_from_[at] = std::min(one.stop, needed + 1);
            next_[at] = static_cast<Index>(at) + 1;
        }
    }
}

// Considers each range of `bytes` bytes directly above, or directly below, an edge.
void AddressMap::look(Bytes bytes, Index wanted, Index needed, bool is_above) {
    latest_.clear();  // candidates for the latest range of a later window
    std::size_t first = 0, last = 0, oldest = 0;
    for (std::size_t edge = 0; edge < edges_.size(); ++edge) {
        const Bytes offset = is_above ? edges_[edge] : edges_[edge] - bytes;
        if (offset < 0) continue;
        if (offset + bytes > capacity_bytes_) return;
        while (edges_[first + 1] <= offset) ++first;
        for (; edges_[last] < offset + bytes; ++last) {
            while (latest_.size() > oldest && free_from_[latest_.back()] <= free_from_[last]) latest_.pop_back();
            latest_.push_back(last);
        }
        while (latest_[oldest] < first) ++oldest;
        const Index position = std::max(wanted, free_from_[latest_[oldest]]);
        if (position > needed) continue;
        const bool is_better = placing_ == Placing::highest ? offset > best_.offset : offset < best_.offset;
        if (best_.offset < 0 || position < best_.position || (position == best_.position && is_better)) {
            best_ = {offset, position};
        }
    }
}

std::vector<BusyBytes::Range>::const_iterator BusyBytes::at(Bytes offset) const {
    const auto starts_later = [](Bytes one, const Range& range) { return one < range.offset; };
    return std::upper_bound(all_.begin(), all_.end(), offset, starts_later) - 1;
}

Cycles BusyBytes::until(Bytes offset, Bytes bytes) const {
    Cycles latest = 0;
    if (bytes == 0) return latest;
    for (auto range = at(offset); range != all_.end() && range->offset < offset + bytes; ++range) {
        latest = std::max(latest, range->until);
    }
    return latest;
}

void BusyBytes::use(Bytes offset, Bytes bytes, Cycles until) {
    if (bytes == 0) return;
    until = std::max(until, this->until(offset, bytes));
    const auto last = all_.begin() + (at(offset + bytes) - all_.begin());
    const Cycles behind = last->until;
    const bool ends_there = last->offset == offset + bytes;
    auto first = all_.begin() + (at(offset) - all_.begin());
    if (first->offset < offset) ++first;
    const auto after = last + (ends_there ? 0 : 1);
    const auto place = all_.erase(first, std::max(first, after));
    const Range added[2] = {{offset, until}, {offset + bytes, behind}};
    all_.insert(place, added, added + (ends_there ? 1 : 2));
}

// Residencies for one order, by a rule: the tensor with the latest next use is evicted first.

namespace {

bool are_numbers(const std::vector<Index>& numbers, std::size_t count) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](Index one) { return one >= 0 && static_cast<std::size_t>(one) < count; });
}

}  // namespace

void Problem::check() const {
    for (std::size_t number = 0; number < tensors.size(); ++number) {
        const Tensor& tensor = tensors[number];
        const bool is_bad = tensor.bytes < 0 || tensor.load_cycles < 0 || tensor.store_cycles < 0;
        const bool has_numbers = are_numbers({tensor.memory}, machine.scratchpads.size()) &&
                                 (tensor.same_as == none || are_numbers({tensor.same_as}, tensors.size()));
        if (is_bad || !has_numbers ||
            std::max({tensor.bytes, tensor.load_cycles, tensor.store_cycles}) > never / 1024) {
            refuse("tensor", number, "problem");
        }
    }
    for (std::size_t number = 0; number < operators.size(); ++number) {
        const Operator& one = operators[number];
        const bool has_numbers = are_numbers(one.reads, tensors.size()) && are_numbers(one.writes, tensors.size()) &&
                                 are_numbers(one.predecessors, operators.size());
        if (!has_numbers || one.cycles < 0 || one.cycles > never / 1024) refuse("operator", number, "problem");
    }
    const auto has_none = [](const Scratchpad& one) { return one.capacity_bytes < 0; };
    if (std::any_of(machine.scratchpads.begin(), machine.scratchpads.end(), has_none) || machine.queues < 1 ||
        machine.setup_cycles < 0) {
        throw std::invalid_argument("a machine has capacities, queues and a set-up of at least 0, 1 and 0");
    }
}

Evaluator::Evaluator(const Problem& problem) : problem_(problem) {
    const std::size_t tensors = problem.tensors.size(), operators = problem.operators.size();
    first_use_.resize(operators + 1);
    for (auto* one :
         {&upcoming_, &place_in_resident_, &stay_of_, &last_use_, &last_stay_, &producer_step_, &stay_now_}) {
        one->resize(tensors);
    }
    is_in_dram_.resize(tensors);
    is_in_step_.assign(tensors, 0);
    arrived_.resize(tensors);
    stored_.resize(tensors);
    addresses_.resize(problem.machine.scratchpads.size());
    busy_.resize(addresses_.size());
}

const Timing& Evaluator::evaluate(const std::vector<Index>& order, const Room& room, const std::vector<Bytes>& first,
                                  Cycles latest, const StopToken* stop) {
    order_ = &order;
    latest_ = latest;
    timing_.stays.clear();
    timing_.latency = never;
    is_placed_ = false;
    set_room(room);
    timing_.fits = decide_stays();
    if (timing_.fits && room.placing == Placing::afterwards) {
        place_afterwards(room, stop);
    } else {
        timing_.fits = timing_.fits && place_first(room, first) && time();
    }
    if (!timing_.fits) timing_.latency = never;
    return timing_;
}

void Evaluator::set_room(const Room& room) {
    keeps_anything_ = room.share > 0;
    most_bytes_.clear();
    ahead_bytes_.clear();
    for (const Scratchpad& one : problem_.machine.scratchpads) {
        const double bytes = static_cast<double>(one.capacity_bytes);
        most_bytes_.push_back(room.share > 0 ? static_cast<Bytes>(bytes * room.share) : one.capacity_bytes);
        ahead_bytes_.push_back(static_cast<Bytes>(bytes * room.ahead_share));
    }
}

// Backwards, so that each use links to the next one.
void Evaluator::link_uses() {
    const Index steps = static_cast<Index>(order_->size());
    Index uses = 0;
    for (Index step = 0; step < steps; ++step) {
        const Operator& one = problem_.operators[(*order_)[step]];
        first_use_[step] = uses;
        uses += static_cast<Index>(one.reads.size() + one.writes.size());
    }
    first_use_[steps] = uses;
    next_use_.resize(uses);
    std::fill(upcoming_.begin(), upcoming_.end(), none);
    for (Index step = steps; step-- > 0;) {
        const Operator& one = problem_.operators[(*order_)[step]];
        Index use = first_use_[step];
        for (const auto* operands : {&one.reads, &one.writes}) {
            for (const Index tensor : *operands) {
                next_use_[use++] = upcoming_[tensor];
                upcoming_[tensor] = step;
            }
        }
    }
}

bool Evaluator::decide_stays() {
    link_uses();
    resident_.clear();
    resident_bytes_.assign(most_bytes_.size(), 0);
    std::fill(stay_of_.begin(), stay_of_.end(), none);
    std::fill(last_stay_.begin(), last_stay_.end(), none);
    for (std::size_t tensor = 0; tensor < problem_.tensors.size(); ++tensor) {
        is_in_dram_[tensor] = problem_.tensors[tensor].is_in_dram;
    }
    const Index steps = static_cast<Index>(order_->size());
    for (Index step = 0; step < steps; ++step) {
        const Operator& one = problem_.operators[(*order_)[step]];
        Index use = first_use_[step];
        for (const auto* operands : {&one.reads, &one.writes}) {
            for (const Index tensor : *operands) {
                is_in_step_[tensor] = 1;
                if (stay_of_[tensor] == none) begin_stay(tensor, step);
                last_use_[tensor] = step;
                upcoming_[tensor] = next_use_[use++];
            }
        }
        for (const Index tensor : one.writes) {
            producer_step_[tensor] = step;
            timing_.stays[stay_of_[tensor]].is_loaded = false;
        }
        const bool has_room = make_room(step);
        for (const auto* operands : {&one.reads, &one.writes}) {
            for (const Index tensor : *operands) {
                is_in_step_[tensor] = 0;
                if (upcoming_[tensor] == none) {
                    end_stay(tensor, step + 1);
                } else if (!keeps_anything_) {
                    leave(tensor);
                }
            }
        }
        if (!has_room) return false;
    }
    return true;
}

void Evaluator::begin_stay(Index tensor, Index step) {
    const Index number = static_cast<Index>(timing_.stays.size()), before = last_stay_[tensor];
    const bool is_stored = before == none && problem_.tensors[tensor].is_output;
    stay_of_[tensor] = last_stay_[tensor] = number;
    if (before != none) timing_.stays[before].after = number;
    timing_.stays.push_back({tensor, step, step + 1, true, is_stored, before, none});
    place_in_resident_[tensor] = static_cast<Index>(resident_.size());
    resident_.push_back(tensor);
    resident_bytes_[problem_.tensors[tensor].memory] += problem_.tensors[tensor].bytes;
}

void Evaluator::end_stay(Index tensor, Index stop) {
    Stay& stay = timing_.stays[stay_of_[tensor]];
    stay.stop = stop;
    stay_of_[tensor] = none;
    const Index last = resident_.back();
    resident_[place_in_resident_[tensor]] = last;
    place_in_resident_[last] = place_in_resident_[tensor];
    resident_.pop_back();
    resident_bytes_[problem_.tensors[tensor].memory] -= problem_.tensors[tensor].bytes;
}

// Evicts tensors until the step fits; an evicted stay ends at its last use. Returns false if the operator does not fit.
bool Evaluator::make_room(Index step) {
    for (Index memory = 0; memory < static_cast<Index>(most_bytes_.size()); ++memory) {
        while (resident_bytes_[memory] > most_bytes_[memory]) {
            const Index leaving = least_wanted(step, memory);
            if (leaving == none) return false;
            leave(leaving);
        }
    }
    return true;
}

// Evicts a tensor that is used again.
void Evaluator::leave(Index tensor) {
    if (!is_in_dram_[tensor]) timing_.stays[stay_of_[tensor]].is_stored = true;
    is_in_dram_[tensor] = 1;
    end_stay(tensor, last_use_[tensor] + 1);
}

// Returns the tensor with the latest next use, weighted by the bytes needed and the cost of its return; `none` if all
// residents are operands.
Index Evaluator::least_wanted(Index step, Index memory) const {
    Index worst = none;
    double most = -1;
    for (const Index tensor : resident_) {
        const Tensor& one = problem_.tensors[tensor];
        if (is_in_step_[tensor] || one.memory != memory) continue;
        const bool has_copy = is_in_dram_[tensor] || one.is_output;
        const Cycles way_back = 1 + one.load_cycles + (has_copy ? 0 : one.store_cycles);
        const Bytes useful = std::min(one.bytes, resident_bytes_[memory] - most_bytes_[memory]);
        const double score =
            static_cast<double>(upcoming_[tensor] - step) * static_cast<double>(useful) / static_cast<double>(way_back);
        if (score > most || (score == most && tensor < worst)) most = score, worst = tensor;
    }
    return worst;
}

// Addresses of stays: of written tensors before loads are timed, or of all stays after they have been timed in bytes.

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

// Times of stores: when the queues are idle, or when their room or bytes are needed.

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

// Start times of the operators and transfers of an order: loads in the order of the steps that wait for them, into all
// free room.

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
