// `PackingSearch` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "packing.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_packing(nb::module_& module) {
    using namespace packing;
    nb::enum_<Outcome>(module, "PackingOutcome", "Why a run of the packing search ended.")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped);
    nb::class_<Buffer>(module, "PackingBuffer",
                       "A buffer in units, alive in the sections `first` to `stop - 1`.\n"
                       "\n"
                       "`last` is its highest legal offset, `twin` one with the same life and size that is placed "
                       "before it, or -1. Its\n"
                       "neighbours live in one of its sections at least. `fixed` is its only legal offset, or -1.")
        .def(
            "__init__",
            [](Buffer* place, Index first, Index stop, Units size, Units last, Index twin,
               std::vector<Index> neighbours,
               Units fixed) { new (place) Buffer{first, stop, size, last, fixed, twin, std::move(neighbours)}; },
            nb::kw_only(), "first"_a, "stop"_a, "size"_a, "last"_a, "twin"_a, "neighbours"_a, "fixed"_a = none)
        .def_ro("first", &Buffer::first)
        .def_ro("stop", &Buffer::stop)
        .def_ro("size", &Buffer::size)
        .def_ro("last", &Buffer::last)
        .def_ro("fixed", &Buffer::fixed);
    nb::class_<Search>(
        module, "PackingSearch",
        "Packs buffers, or proves that no section's limit is kept by any packing; keeps what it learns between runs.")
        .def(
            "__init__",
            [](Search* place, std::vector<Buffer> buffers, std::vector<Units> limits) {
                new (place) Search(Problem{std::move(buffers), std::move(limits)});
            },
            "buffers"_a, "limits"_a)
        .def("run", &Search::run, "rank"_a, "most_nodes"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Begin anew, trying buffers of low rank first.")
        .def_prop_ro("nodes", &Search::nodes, "Decisions of the last run.")
        .def_prop_ro("offsets", &Search::offsets, "By buffer, in units; of a packing if the last run found one.")
        .def_prop_ro("hardest_section", &Search::hardest_section,
                     "The section that was most to blame in all runs, the first of equals.");
}

}  // namespace onchip
