// A window of a plan as a separate problem.

#include <algorithm>
#include <utility>

#include "placed_plan.hpp"

namespace onchip::layouts {

// Returns false if a tensor would have two places: it crosses both ends and was reloaded between them.
bool PlacedPlan::state(Window& window) {
    const Index begin = window.choice.begin, stop = window.choice.stop;
    for (Index step = begin; step < stop; ++step) number_[order_[step]] = step - begin + 1;
    bool has_one_place = true;
    for (Index tensor : tensors_of(window.choice)) has_one_place = add_tensor(window, tensor) && has_one_place;
    if (has_one_place) add_operators(window);
    return has_one_place;
}

// Returns the tensors that its steps use or that stay through it, ascending.
std::vector<Index> PlacedPlan::tensors_of(const WindowChoice& choice) const {
    std::vector<Index> tensors = across_;
    for (Index step = choice.begin; step < choice.stop; ++step) {
        const Operator& runs = problem_.operators[order_[step]];
        tensors.insert(tensors.end(), runs.reads.begin(), runs.reads.end());
        tensors.insert(tensors.end(), runs.writes.begin(), runs.writes.end());
    }
    std::ranges::sort(tensors);
    tensors.erase(std::ranges::unique(tensors).begin(), tensors.end());
    return tensors;
}

bool PlacedPlan::add_tensor(Window& window, Index tensor) const {
    const auto& uses = uses_[tensor];
    const auto first_from = [&](Index step) {
        const auto is_before = [&](const PlacedUse& use) { return step_of_[use.runs] < step; };
        return static_cast<Index>(std::ranges::partition_point(uses, is_before) - uses.begin());
    };
    WindowTensor one{tensor, first_from(window.choice.begin), first_from(window.choice.stop)};
    const Index last = static_cast<Index>(uses.size()) - 1;
    one.comes = one.first > 0 && uses[one.first - 1].stays;
    one.goes = one.stop <= last && uses[one.stop - 1].stays;
    for (Index use = 0; use < last; ++use) {
        const bool is_inside = one.first - (one.comes ? 1 : 0) <= use && use < one.stop - (one.goes ? 0 : 1);
        if (!is_inside && !uses[use].stays) one.is_stored = true;
    }
    if (one.comes) one.pin = uses[one.first - 1].offset;
    if (one.goes) one.pin = uses[one.stop].offset;
    const bool has_one_place = !one.comes || one.pin == uses[one.first - 1].offset;
    window.cost += cost_within(one);
    window.tensors.push_back(one);
    return has_one_place;
}

Cost PlacedPlan::cost_within(const WindowTensor& one) const {
    Cost missing = 0;
    for (Index use = one.comes ? one.first - 1 : one.first; use < one.stop - (one.goes ? 0 : 1); ++use) {
        missing += uses_[one.tensor][use].stays ? 0 : 1;
    }
    const Tensor& tensor = problem_.tensors[one.tensor];
    const bool is_stored = missing > 0 && !one.is_stored;
    return missing * tensor.load + (is_stored ? tensor.store : 0);
}

void PlacedPlan::add_operators(Window& window) {
    const Index begin = window.choice.begin, count = window.choice.stop - begin;
    OrderProblem& problem = window.problem;
    problem.capacity = problem_.capacity;
    problem.alignment = problem_.alignment;
    Operator first, last;
    for (Index number = 0; number < static_cast<Index>(window.tensors.size()); ++number) {
        const WindowTensor& one = window.tensors[number];
        const Tensor& tensor = problem_.tensors[one.tensor];
        problem.tensors.push_back({tensor.size, tensor.load, one.is_stored ? 0 : tensor.store});
        problem.pins.push_back(one.pin);
        if (one.comes) first.writes.push_back(number);
        if (one.goes) last.reads.push_back(number);
    }
    const auto numbers_of = [&](const std::vector<Index>& tensors) {
        std::vector<Index> numbers;
        for (Index tensor : tensors) {
            const auto one = std::ranges::lower_bound(window.tensors, tensor, {}, &WindowTensor::tensor);
            numbers.push_back(static_cast<Index>(one - window.tensors.begin()));
        }
        return numbers;
    };
    problem.operators.push_back(std::move(first));
    for (Index step = begin; step < window.choice.stop; ++step) {
        const Operator& runs = problem_.operators[order_[step]];
        Operator& one = problem.operators.emplace_back(Operator{numbers_of(runs.reads), numbers_of(runs.writes), {0}});
        for (Index before : runs.predecessors) {
            const Index place = step_of_[before];
            if (begin <= place) one.predecessors.push_back(place - begin + 1);
        }
    }
    if (last.reads.empty()) return;
    for (Index number = 0; number <= count; ++number) last.predecessors.push_back(number);
    problem.operators.push_back(std::move(last));
}

}  // namespace onchip::layouts
