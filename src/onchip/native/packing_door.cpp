// `PackingSearch` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "doors.hpp"
#include "packing.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_packing(nb::module_& module) {
    using namespace packing;
    nb::enum_<Outcome>(module, "PackingOutcome")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped);
    nb::class_<Buffer>(module, "PackingBuffer")
        .def(
            "__init__",
            [](Buffer* place, Index first, Index stop, Units size, Units last, Index twin,
               std::vector<Index> neighbours) {
                new (place) Buffer{first, stop, size, last, twin, std::move(neighbours)};
            },
            nb::kw_only(), "first"_a, "stop"_a, "size"_a, "last"_a, "twin"_a, "neighbours"_a)
        .def_ro("first", &Buffer::first)
        .def_ro("stop", &Buffer::stop)
        .def_ro("size", &Buffer::size)
        .def_ro("last", &Buffer::last);
    nb::class_<Search>(module, "PackingSearch")
        .def(
            "__init__",
            [](Search* place, std::vector<Buffer> buffers, std::vector<Units> limits) {
                new (place) Search(Problem{std::move(buffers), std::move(limits)});
            },
            "buffers"_a, "limits"_a)
        .def("run", &Search::run, "rank"_a, "most_nodes"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("nodes", &Search::nodes)
        .def_prop_ro("offsets", &Search::offsets)
        .def_prop_ro("hardest_section", &Search::hardest_section);
}

}  // namespace onchip
