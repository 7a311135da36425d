// `LayoutBeam` for Python.

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
                       "A tensor; storing it costs 0 if DRAM has a copy whenever it could leave.")
        .def(
            "__init__", [](Tensor* place, Bytes size, Cost load, Cost store) { new (place) Tensor{size, load, store}; },
            nb::kw_only(), "size_bytes"_a, "load_cost"_a, "store_cost"_a);
    nb::class_<Use>(module, "LayoutUse", "An operand of one operator; what is wanted should stay until its next use.")
        .def(
            "__init__",
            [](Use* place, Index tensor, bool is_written, bool is_wanted, bool is_last) {
                new (place) Use{tensor, is_written, is_wanted, is_last, none};
            },
            nb::kw_only(), "tensor"_a, "is_written"_a, "is_wanted"_a, "is_last"_a);
    nb::class_<Stay>(module, "LayoutStay", "One tensor at one address over the half-open range of steps [start, stop).")
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
    nb::class_<Beam>(
        module, "LayoutBeam",
        "Gives the residencies of one order addresses, the cheapest found; `steps` lists the uses of each step.\n"
        "\n"
        "Raises ValueError where a size, a cost or a tensor is none, or an operator's operands do not fit.")
        .def(
            "__init__",
            [](Beam* place, std::vector<Tensor> tensors, std::vector<std::vector<Use>> steps, Bytes capacity,
               Bytes alignment) {
                new (place) Beam(Problem{std::move(tensors), std::move(steps), capacity, alignment});
            },
            "tensors"_a, "steps"_a, nb::kw_only(), "capacity_bytes"_a, "alignment_bytes"_a)
        .def("run", &Beam::run, "width"_a, "seed"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Begin anew with so many layouts at most; False if it was stopped.")
        .def_prop_ro("cost", &Beam::cost, "What the last run that was not stopped pays beyond the compulsory.")
        .def_prop_ro("stays", &Beam::stays, "What lies where, of that run.");
    nb::class_<Operator>(module, "LayoutOperator",
                         "An operator: tensors and earlier operators by their numbers, each number once.")
        .def(
            "__init__",
            [](Operator* place, std::vector<Index> reads, std::vector<Index> writes, std::vector<Index> predecessors) {
                new (place) Operator{std::move(reads), std::move(writes), std::move(predecessors)};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a);
    nb::class_<OrderBeam>(
        module, "OrderBeam",
        "Looks for an order, residencies and addresses at once, among layouts that have run as many operators each.\n"
        "\n"
        "`pins_bytes` has by tensor the only offset where it may lie, or -1. Raises ValueError where a size, a cost, a "
        "pin, a\n"
        "tensor or an operator is none, or an operator's operands do not fit.")
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
            "Begin anew with so many layouts at most, for a plan below the upper bound; False if none was found.\n"
            "\n"
            "No operator runs `ahead` (at most 64) numbers or more beyond the first that has not run. What is read "
            "again\n"
            "`soon` numbers later, or after that, counts as leaving before.")
        .def_prop_ro("cost", &OrderBeam::cost, "What the last plan found pays beyond the compulsory.")
        .def_prop_ro("order", &OrderBeam::order, "The order of that plan.")
        .def_prop_ro("stays", &OrderBeam::stays, "What lies where, of that plan.");
    nb::class_<WindowChoice>(module, "WindowChoice",
                             "The steps [begin, stop) of a plan, and what an `OrderBeam` is told to plan them anew.")
        .def(
            "__init__",
            [](WindowChoice* place, Index begin, Index stop, Index soon, std::uint64_t seed) {
                new (place) WindowChoice{begin, stop, soon, seed};
            },
            nb::kw_only(), "begin"_a, "stop"_a, "soon"_a, "seed"_a);
    nb::class_<PlacedPlan>(module, "PlacedPlan",
                           "An order, what stays and where it lies, of which windows are planned anew; what crosses "
                           "their ends stays there.\n"
                           "\n"
                           "Raises ValueError where a size, a cost, a tensor or an operator is none, an operator's "
                           "operands do not fit, the\n"
                           "order has not each of them once, or a use is in no stay.")
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
             "Plan each window anew, one after the other, among so many layouts; False if it was stopped.\n"
             "\n"
             "What costs no more takes the place of what there was.")
        .def_prop_ro("cost", &PlacedPlan::cost, "What the plan pays beyond the compulsory.")
        .def_prop_ro("order", &PlacedPlan::order, "The order as it is now.")
        .def_prop_ro("stays", &PlacedPlan::stays,
                     "What lies where now, by its first step, each residency as short as its uses allow.");
}

}  // namespace onchip
