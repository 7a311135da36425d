// Python bindings of `stays::Search`.

#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "stays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_stays(nb::module_& module) {
    using namespace stays;
    nb::class_<Gap>(module, "StayGap",
                    "A stretch of the steps `start` to `stop - 1` in which a tensor is idle.\n"
                    "\n"
                    "The tensor stays, or it leaves: then its load is paid, and its store if it has not left in an\n"
                    "earlier gap. All gaps of a tensor have the same units and costs.")
        .def(
            "__init__",
            [](Gap* place, Index tensor, Index start, Index stop, Units units, Cost load_cost, Cost store_cost) {
                new (place) Gap{tensor, start, stop, units, load_cost, store_cost};
            },
            nb::kw_only(), "tensor"_a, "start"_a, "stop"_a, "units"_a, "load_cost"_a, "store_cost"_a);
    nb::class_<Search>(
        module, "StaySearch",
        "Dynamic program that chooses the gaps in which tensors stay, for one order at least cost.\n"
        "\n"
        "`left_units` is the room of each step for idle tensors. Raises ValueError, with the entry, if a\n"
        "gap is empty or ends after the last step, or if units or costs are negative or too large.")
        .def(
            "__init__",
            [](Search* place, std::vector<Gap> gaps, std::vector<Units> left_units) {
                new (place) Search(std::move(gaps), std::move(left_units));
            },
            "gaps"_a, "left_units"_a)
        .def("run", &Search::run, "most_states"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Run the search and return True if it is complete.\n"
             "\n"
             "Returns False if there are more than `most_states` states, if more than 64 gaps or tensors must be\n"
             "told apart at once, or if `stop` is asked.")
        .def_prop_ro("cost", &Search::cost, "Least cost of leaving, after a complete run.")
        .def_prop_ro("stays", &Search::stays, "True for each gap in which the tensor stays, at that cost.");
}

}  // namespace onchip
