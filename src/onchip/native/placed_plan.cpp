// The plan: its construction, its cost, and its update after a window has been planned again.

#include "placed_plan.hpp"

#include <algorithm>
#include <utility>

#include "words.hpp"

namespace onchip::layouts {

PlacedPlan::PlacedPlan(OrderProblem problem, std::vector<Index> order, const std::vector<Stay>& stays)
    : problem_(std::move(problem)),
      order_(std::move(order)),
      step_of_(problem_.operators.size(), none),
      uses_(problem_.tensors.size()),
      number_(problem_.operators.size(), none) {
    problem_.check();
    require(order_.size() == problem_.operators.size(), "the order has not all operators", order_.size());
    for (std::size_t step = 0; step < order_.size(); ++step) {
        const Index runs = order_[step];
        const bool is_known = 0 <= runs && runs < static_cast<Index>(order_.size());
        require(is_known && step_of_[runs] == none, "an operator is unknown, or stands in the order twice", step);
        step_of_[runs] = static_cast<Index>(step);
        for (Index tensor : problem_.operators[runs].reads) uses_[tensor].push_back({runs, false, anywhere});
        for (Index tensor : problem_.operators[runs].writes) uses_[tensor].push_back({runs, false, anywhere});
    }
    for (std::size_t at = 0; at < stays.size(); ++at) {
        const Stay& one = stays[at];
        require(0 <= one.tensor && one.tensor < static_cast<Index>(uses_.size()), "a tensor is unknown", at);
        PlacedUse* before = nullptr;
        for (PlacedUse& use : uses_[one.tensor]) {
            if (step_of_[use.runs] < one.start || step_of_[use.runs] >= one.stop) continue;
            use.offset = one.offset;
            if (before != nullptr) before->stays = true;
            before = &use;
        }
    }
    for (std::size_t tensor = 0; tensor < uses_.size(); ++tensor) {
        for (const PlacedUse& use : uses_[tensor]) require(use.offset != anywhere, "a tensor lies nowhere", tensor);
    }
}

bool PlacedPlan::plan_anew(const std::vector<WindowChoice>& windows, Index width, const StopToken& stop) {
    for (WindowChoice choice : windows) {
        choice.stop = std::min(choice.stop, static_cast<Index>(order_.size()));
        if (choice.begin >= 0 && choice.begin < choice.stop) plan_one_anew(choice, width, stop);
        if (stop.is_asked()) return false;
    }
    return true;
}

void PlacedPlan::plan_one_anew(const WindowChoice& choice, Index width, const StopToken& stop) {
    move_to(choice.begin);
    Window window{choice, {}, {}, 0};
    if (!state(window)) return;
    OrderBeam beam(std::move(window.problem));
    const OrderOptions options{width, window.cost + 1, most_ahead, choice.soon, choice.seed};
    if (beam.run(options, stop)) follow(window, beam);
}

// Finds the tensors that stay between this step and the previous one.
void PlacedPlan::move_to(Index begin) {
    if (begin < reached_) {
        reached_ = 0;
        across_.clear();
    }
    for (; reached_ < begin; ++reached_) {
        const Operator& runs = problem_.operators[order_[reached_]];
        for (const auto* operands : {&runs.reads, &runs.writes}) {
            for (Index tensor : *operands) {
                const auto place = std::ranges::lower_bound(across_, tensor);
                const bool is_there = place != across_.end() && *place == tensor;
                const auto use = std::ranges::find(uses_[tensor], order_[reached_], &PlacedUse::runs);
                if (use->stays && !is_there) across_.insert(place, tensor);
                if (!use->stays && is_there) across_.erase(place);
            }
        }
    }
}

void PlacedPlan::follow(const Window& window, const OrderBeam& found) {
    const Index begin = window.choice.begin, count = window.choice.stop - begin;
    std::vector<Index> operators(order_.begin() + begin, order_.begin() + window.choice.stop);
    std::vector<Index> step_within(found.order().size());
    Index step = begin;
    for (Index at = 0; at < static_cast<Index>(found.order().size()); ++at) {
        const Index number = found.order()[at];
        step_within[number] = at;
        if (number < 1 || number > count) continue;
        order_[step] = operators[number - 1];
        step_of_[order_[step]] = step;
        ++step;
    }
    const auto at_step = [&](const PlacedUse& use) { return step_of_[use.runs]; };
    for (const WindowTensor& one : window.tensors) {
        auto& uses = uses_[one.tensor];
        std::sort(uses.begin() + one.first, uses.begin() + one.stop,
                  [&](const PlacedUse& use, const PlacedUse& other) { return at_step(use) < at_step(other); });
        for (Index use = one.comes ? one.first - 1 : one.first; use < one.stop; ++use) uses[use].stays = false;
    }
    for (const Stay& stay : found.stays()) {
        const WindowTensor& one = window.tensors[stay.tensor];
        auto& uses = uses_[one.tensor];
        Index before = none;
        for (Index use = one.comes ? one.first - 1 : one.first; use < one.stop + (one.goes ? 1 : 0); ++use) {
            const bool is_within = one.first <= use && use < one.stop;
            const Index runs = is_within ? number_[uses[use].runs] : use < one.first ? 0 : count + 1;
            if (step_within[runs] < stay.start || step_within[runs] >= stay.stop) continue;
            if (is_within) uses[use].offset = stay.offset;
            if (before != none) uses[before].stays = true;
            before = use;
        }
    }
    std::erase_if(across_, [&](Index tensor) {
        const auto one = std::ranges::lower_bound(window.tensors, tensor, {}, &WindowTensor::tensor);
        return !uses_[tensor][one->first - 1].stays;
    });
}

Cost PlacedPlan::cost() const {
    Cost cost = 0;
    for (Index tensor = 0; tensor < static_cast<Index>(uses_.size()); ++tensor) cost += cost_of(tensor);
    return cost;
}

Cost PlacedPlan::cost_of(Index tensor) const {
    Cost missing = 0;
    for (std::size_t use = 1; use < uses_[tensor].size(); ++use) missing += uses_[tensor][use - 1].stays ? 0 : 1;
    const Tensor& one = problem_.tensors[tensor];
    return missing * one.load + (missing > 0 ? one.store : 0);
}

std::vector<Stay> PlacedPlan::stays() const {
    std::vector<Stay> found;
    for (Index tensor = 0; tensor < static_cast<Index>(uses_.size()); ++tensor) {
        Index start = none;
        for (const PlacedUse& use : uses_[tensor]) {
            const Index step = step_of_[use.runs];
            if (start == none) start = step;
            if (use.stays) continue;
            found.push_back({tensor, start, step + 1, use.offset});
            start = none;
        }
    }
    std::ranges::stable_sort(found, {}, &Stay::start);
    return found;
}

}  // namespace onchip::layouts
