// `stays::Search` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "doors.hpp"
#include "stays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_stays(nb::module_& module) {
    using namespace stays;
    nb::class_<Gap>(module, "StayGap")
        .def(
            "__init__",
            [](Gap* place, Index tensor, Index start, Index stop, Units units, Cost load_cost, Cost store_cost) {
                new (place) Gap{tensor, start, stop, units, load_cost, store_cost};
            },
            nb::kw_only(), "tensor"_a, "start"_a, "stop"_a, "units"_a, "load_cost"_a, "store_cost"_a);
    nb::class_<Search>(module, "StaySearch")
        .def(
            "__init__",
            [](Search* place, std::vector<Gap> gaps, std::vector<Units> left_units) {
                new (place) Search(std::move(gaps), std::move(left_units));
            },
            "gaps"_a, "left_units"_a)
        .def("run", &Search::run, "most_states"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("cost", &Search::cost)
        .def_prop_ro("stays", &Search::stays);
}

}  // namespace onchip
