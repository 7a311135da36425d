// Plans with addresses that are improved window by window, and the Python bindings of both beam searches.

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

#include "bindings.hpp"
#include "layouts.hpp"
#include "words.hpp"

namespace onchip::layouts {

// The plan: its construction, its cost, and its update after a window has been planned again.

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

// A window of a plan as a separate problem.

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

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

// Python bindings of `OrderBeam` and `PlacedPlan`.

void add_layouts(nb::module_& module) {
    using namespace layouts;
    nb::class_<Tensor>(module, "LayoutTensor",
                       "A tensor and its transfer costs; `store_cost` is 0 if DRAM has a copy whenever it could leave.")
        .def(nb::init<Bytes, Cost, Cost>(), nb::kw_only(), "size_bytes"_a, "load_cost"_a, "store_cost"_a);
    nb::class_<Stay>(module, "LayoutStay", "Residency of a tensor at one offset over the steps `start` to `stop - 1`.")
        .def(nb::init<Index, Index, Index, Bytes>(), nb::kw_only(), "tensor"_a, "start"_a, "stop"_a, "offset_bytes"_a)
        .def_ro("tensor", &Stay::tensor)
        .def_ro("start", &Stay::start)
        .def_ro("stop", &Stay::stop)
        .def_ro("offset_bytes", &Stay::offset);
    nb::class_<Operator>(module, "LayoutOperator",
                         "An operator with the numbers of its tensors and of earlier operators, without repetition.\n"
                         "\n"
                         "`released` are the operands that need not stay until their next use.")
        .def(nb::init<std::vector<Index>, std::vector<Index>, std::vector<Index>, std::vector<Index>>(), nb::kw_only(),
             "reads"_a, "writes"_a, "predecessors"_a, "released"_a = std::vector<Index>());
    nb::class_<OrderBeam>(
        module, "OrderBeam",
        "Beam search for an order, its residencies and their addresses at once.\n"
        "\n"
        "All layouts in the beam have executed the same number of operators. `pins_bytes` is the only legal\n"
        "offset of each tensor, or -1. Raises ValueError, with the entry, if a size, a cost, a pin, a\n"
        "tensor or an operator is invalid, or if the operands of an operator do not fit.")
        .def(
            "__init__",
            [](OrderBeam* place, std::vector<Tensor> tensors, std::vector<Bytes> pins, std::vector<Operator> operators,
               Bytes capacity, Bytes alignment) {
                new (place) OrderBeam(
                    OrderProblem{std::move(tensors), std::move(pins), std::move(operators), capacity, alignment});
            },
            "tensors"_a, "pins_bytes"_a, "operators"_a, nb::kw_only(), "capacity_bytes"_a, "alignment_bytes"_a)
        .def(
            "run",
            [](OrderBeam& beam, Index width, Cost upper_bound, Index ahead, Index soon, std::uint64_t seed,
               const StopToken& stop) { return beam.run({width, upper_bound, ahead, soon, seed}, stop); },
            "width"_a, nb::kw_only(), "upper_bound"_a, "ahead"_a, "soon"_a, "seed"_a, "stop"_a,
            nb::call_guard<nb::gil_scoped_release>(),
            "Restart with at most `width` layouts, for a plan that costs less than `upper_bound`.\n"
            "\n"
            "No operator runs `ahead` (at most 64) or more numbers beyond the first that has not run. A tensor\n"
            "whose next use is at least `soon` numbers away counts as evicted before it. `seed` breaks ties.\n"
            "Returns False if no plan was found.")
        .def_prop_ro("cost", &OrderBeam::cost, "Non-compulsory transfer cost of the last plan found.")
        .def_prop_ro("order", &OrderBeam::order, "Operators of that plan in execution order.")
        .def_prop_ro("stays", &OrderBeam::stays, "Residencies with offsets of that plan.");
    nb::class_<WindowChoice>(module, "WindowChoice",
                             "The steps `begin` to `stop - 1` of a plan, with options for the `OrderBeam`.")
        .def(nb::init<Index, Index, Index, std::uint64_t>(), nb::kw_only(), "begin"_a, "stop"_a, "soon"_a, "seed"_a);
    nb::class_<PlacedPlan>(
        module, "PlacedPlan",
        "A plan with addresses that is improved window by window.\n"
        "\n"
        "Tensors that cross the ends of a window keep their offsets. Raises ValueError, with the entry, if\n"
        "a size, a cost, a tensor or an operator is invalid, if the operands of an operator do not fit, if\n"
        "`order` does not name each operator once, or if a use lies in no stay.")
        .def(
            "__init__",
            [](PlacedPlan* place, std::vector<Tensor> tensors, std::vector<Operator> operators,
               std::vector<Index> order, const std::vector<Stay>& stays, Bytes capacity, Bytes alignment) {
                std::vector<Bytes> pins(tensors.size(), anywhere);
                new (place) PlacedPlan(
                    OrderProblem{std::move(tensors), std::move(pins), std::move(operators), capacity, alignment},
                    std::move(order), stays);
            },
            "tensors"_a, "operators"_a, "order"_a, "stays"_a, nb::kw_only(), "capacity_bytes"_a, "alignment_bytes"_a)
        .def("plan_anew", &PlacedPlan::plan_anew, "windows"_a, "width"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Plan each window again with a beam of at most `width` layouts, one window after the other.\n"
             "\n"
             "A result that costs no more replaces the steps of the window. Returns False if it was stopped.")
        .def_prop_ro("cost", &PlacedPlan::cost, "Non-compulsory transfer cost of the plan.")
        .def_prop_ro("order", &PlacedPlan::order, "Operators in execution order.")
        .def_prop_ro("stays", &PlacedPlan::stays,
                     "Residencies with offsets, by first step; each is as short as its uses allow.");
}

}  // namespace onchip
