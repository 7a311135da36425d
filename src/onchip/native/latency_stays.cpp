// Residencies for one order, by a rule: the tensor with the latest next use is evicted first.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "latency.hpp"

namespace onchip::latency {

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

}  // namespace onchip::latency
