// `LayoutBeam` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "doors.hpp"
#include "layouts.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_layouts(nb::module_& module) {
    using namespace layouts;
    nb::class_<Tensor>(module, "LayoutTensor")
        .def(
            "__init__",
            [](Tensor* place, Bytes size, Cost load, Cost store, Bytes pin) {
                new (place) Tensor{size, load, store, pin};
            },
            nb::kw_only(), "size_bytes"_a, "load_cost"_a, "store_cost"_a, "pin_bytes"_a = anywhere);
    nb::class_<Use>(module, "LayoutUse")
        .def(
            "__init__",
            [](Use* place, Index tensor, bool is_written, bool is_wanted, bool is_last) {
                new (place) Use{tensor, is_written, is_wanted, is_last, none};
            },
            nb::kw_only(), "tensor"_a, "is_written"_a, "is_wanted"_a, "is_last"_a);
    nb::class_<Stay>(module, "LayoutStay")
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
}

}  // namespace onchip
