// Python bindings of `OrderBeam` and `PlacedPlan`.

#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "layout_orders.hpp"
#include "placed_plan.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_layouts(nb::module_& module) {
    using namespace layouts;
    nb::class_<Tensor>(module, "LayoutTensor",
                       "A tensor and its transfer costs; `store_cost` is 0 if DRAM has a copy whenever it could leave.")
        .def(
            "__init__", [](Tensor* place, Bytes size, Cost load, Cost store) { new (place) Tensor{size, load, store}; },
            nb::kw_only(), "size_bytes"_a, "load_cost"_a, "store_cost"_a);
    nb::class_<Stay>(module, "LayoutStay", "Residency of a tensor at one offset over the steps `start` to `stop - 1`.")
        .def(
            "__init__",
            [](Stay* place, Index tensor, Index start, Index stop, Bytes offset) {
                new (place) Stay{tensor, start, stop, offset};
            },
            nb::kw_only(), "tensor"_a, "start"_a, "stop"_a, "offset_bytes"_a)
        .def_ro("tensor", &Stay::tensor)
        .def_ro("start", &Stay::start)
        .def_ro("stop", &Stay::stop)
        .def_ro("offset_bytes", &Stay::offset);
    nb::class_<Operator>(module, "LayoutOperator",
                         "An operator with the numbers of its tensors and of earlier operators, without repetition.\n"
                         "\n"
                         "`released` are the operands that need not stay until their next use.")
        .def(
            "__init__",
            [](Operator* place, std::vector<Index> reads, std::vector<Index> writes, std::vector<Index> predecessors,
               std::vector<Index> released) {
                new (place) Operator{std::move(reads), std::move(writes), std::move(predecessors), std::move(released)};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a, "released"_a = std::vector<Index>());
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
        .def(
            "__init__",
            [](WindowChoice* place, Index begin, Index stop, Index soon, std::uint64_t seed) {
                new (place) WindowChoice{begin, stop, soon, seed};
            },
            nb::kw_only(), "begin"_a, "stop"_a, "soon"_a, "seed"_a);
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
