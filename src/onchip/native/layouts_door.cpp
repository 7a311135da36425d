// `LayoutBeam` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "doors.hpp"
#include "layout_orders.hpp"
#include "placed_plan.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_layouts(nb::module_& module) {
    using namespace layouts;
    nb::class_<Tensor>(module, "LayoutTensor")
        .def(
            "__init__", [](Tensor* place, Bytes size, Cost load, Cost store) { new (place) Tensor{size, load, store}; },
            nb::kw_only(), "size_bytes"_a, "load_cost"_a, "store_cost"_a);
    nb::class_<Use>(module, "LayoutUse")
        .def(
            "__init__",
            [](Use* place, Index tensor, bool is_written, bool is_wanted, bool is_last) {
                new (place) Use{tensor, is_written, is_wanted, is_last, none};
            },
            nb::kw_only(), "tensor"_a, "is_written"_a, "is_wanted"_a, "is_last"_a);
    nb::class_<Stay>(module, "LayoutStay")
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
    nb::class_<Beam>(module, "LayoutBeam")
        .def(
            "__init__",
            [](Beam* place, std::vector<Tensor> tensors, std::vector<std::vector<Use>> steps, Bytes capacity,
               Bytes alignment) {
                new (place) Beam(Problem{std::move(tensors), std::move(steps), capacity, alignment});
            },
            "tensors"_a, "steps"_a, nb::kw_only(), "capacity_bytes"_a, "alignment_bytes"_a)
        .def("run", &Beam::run, "width"_a, "seed"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("cost", &Beam::cost)
        .def_prop_ro("stays", &Beam::stays);
    nb::class_<Operator>(module, "LayoutOperator")
        .def(
            "__init__",
            [](Operator* place, std::vector<Index> reads, std::vector<Index> writes, std::vector<Index> predecessors) {
                new (place) Operator{std::move(reads), std::move(writes), std::move(predecessors)};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a);
    nb::class_<OrderBeam>(module, "OrderBeam")
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
            nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("cost", &OrderBeam::cost)
        .def_prop_ro("order", &OrderBeam::order)
        .def_prop_ro("stays", &OrderBeam::stays);
    nb::class_<WindowChoice>(module, "WindowChoice")
        .def(
            "__init__",
            [](WindowChoice* place, Index begin, Index stop, Index soon, std::uint64_t seed) {
                new (place) WindowChoice{begin, stop, soon, seed};
            },
            nb::kw_only(), "begin"_a, "stop"_a, "soon"_a, "seed"_a);
    nb::class_<PlacedPlan>(module, "PlacedPlan")
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
             nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("cost", &PlacedPlan::cost)
        .def_prop_ro("order", &PlacedPlan::order)
        .def_prop_ro("stays", &PlacedPlan::stays);
}

}  // namespace onchip
