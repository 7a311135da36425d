// `stays::Search` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "stays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_stays(nb::module_& module) {
    using namespace stays;
    nb::class_<Gap>(
        module, "StayGap",
        "A tensor is idle in the steps `start` to `stop - 1`: it stays, or its load is paid and, once, its store.\n"
        "\n"
        "The gaps of one tensor have its units and its costs.")
        .def(
            "__init__",
            [](Gap* place, Index tensor, Index start, Index stop, Units units, Cost load_cost, Cost store_cost) {
                new (place) Gap{tensor, start, stop, units, load_cost, store_cost};
            },
            nb::kw_only(), "tensor"_a, "start"_a, "stop"_a, "units"_a, "load_cost"_a, "store_cost"_a);
    nb::class_<Search>(module, "StaySearch",
                       "What stays at least cost, of one order; raises ValueError for gaps that are none.\n"
                       "\n"
                       "`left_units` are those that each step has for what is idle.")
        .def(
            "__init__",
            [](Search* place, std::vector<Gap> gaps, std::vector<Units> left_units) {
                new (place) Search(std::move(gaps), std::move(left_units));
            },
            "gaps"_a, "left_units"_a)
        .def("run", &Search::run, "most_states"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Whether all states were seen; not if there are too many, too much stays at once, or it is asked to stop.")
        .def_prop_ro("cost", &Search::cost, "What leaving costs at least; once all states were seen.")
        .def_prop_ro("stays", &Search::stays, "Of each gap whether it stays, at that cost.");
}

}  // namespace onchip
