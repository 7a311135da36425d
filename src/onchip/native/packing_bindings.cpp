// Python bindings of `PackingSearch` and `pack_buffers`.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "packing.hpp"
#include "packing_task.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using Gaps = std::vector<std::pair<packing::Step, packing::Step>>;

void add_tasks(nb::module_& module) {
    using namespace packing;
    nb::class_<Request>(
        module, "PackingRequest",
        "A buffer live over [start, stop) except in its gaps, with its alignment and fixed offset (-1:\n"
        "none), in bytes.")
        .def(
            "__init__",
            [](Request* place, Step start, Step stop, Bytes size, Bytes alignment, Bytes fixed, const Gaps& gaps) {
                new (place) Request{start, stop, size, alignment, fixed, {}};
                for (const auto& [begin, end] : gaps) place->gaps.push_back({begin, end});
            },
            nb::kw_only(), "start"_a, "stop"_a, "size"_a, "alignment"_a, "fixed"_a, "gaps"_a);
    nb::enum_<Verdict>(module, "PackingVerdict", "Result of `pack_buffers`.")
        .value("OPTIMAL", Verdict::optimal)
        .value("FEASIBLE", Verdict::feasible)
        .value("INFEASIBLE", Verdict::infeasible)
        .value("UNKNOWN", Verdict::unknown);
    nb::class_<Answer>(module, "PackingAnswer", "Offsets in bytes, the arena (-1: none), and its proven lower bound.")
        .def_ro("verdict", &Answer::verdict)
        .def_ro("offsets", &Answer::offsets)
        .def_ro("arena", &Answer::arena)
        .def_ro("lower_bound", &Answer::lower_bound)
        .def_ro("nodes", &Answer::nodes);
    module.def(
        "pack_buffers",
        [](std::vector<Request> buffers, Bytes capacity, bool minimize, std::int64_t most_nodes, std::uint64_t seed,
           const StopToken& stop) {
            return solve(Task{std::move(buffers), capacity}, Effort{minimize, most_nodes, seed}, stop, {});
        },
        "buffers"_a, "capacity"_a, nb::kw_only(), "minimize"_a, "most_nodes"_a, "seed"_a, "stop"_a,
        nb::call_guard<nb::gil_scoped_release>(),
        "Pack buffers of any alignment, fixed offset and gaps.\n"
        "\n"
        "Ends early, with the best packing so far, after `most_nodes` decisions or if `stop` is asked. Raises\n"
        "ValueError, with the buffer, if a value is invalid.");
    module.def(
        "packing_conflict",
        [](std::vector<Request> buffers, Bytes capacity, std::int64_t most_nodes, std::uint64_t seed,
           const StopToken& stop) {
            const Conflict found =
                conflict_of(Task{std::move(buffers), capacity}, Effort{false, most_nodes, seed}, stop);
            return std::pair{found.buffers, found.is_irreducible};
        },
        "buffers"_a, "capacity"_a, nb::kw_only(), "most_nodes"_a, "seed"_a, "stop"_a,
        nb::call_guard<nb::gil_scoped_release>(),
        "Shrink buffers that do not fit to a set that does not fit, and say whether every proper subset fits.\n"
        "\n"
        "Each test takes at most `most_nodes` decisions. Raises ValueError if a value is invalid.");
}

}  // namespace

void add_packing(nb::module_& module) {
    using namespace packing;
    add_tasks(module);
    nb::enum_<Outcome>(module, "PackingOutcome",
                       "Reason why a run ended.\n"
                       "\n"
                       "EXHAUSTED: no packing keeps the limits. STOPPED: the nodes are spent, or it was asked to stop.")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped);
    nb::class_<Buffer>(
        module, "PackingBuffer",
        "A buffer alive in the sections `first` to `stop - 1`.\n"
        "\n"
        "A section is a maximal set of buffers that are alive at once. Sizes and offsets are in units of\n"
        "which every size is a multiple. `last` is the highest legal offset. `twin` is a buffer with the\n"
        "same lifetime and size that is placed first, or -1. `neighbours` are the buffers that share a\n"
        "section with it. `fixed` is the only legal offset, or -1.")
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
    nb::class_<Search>(module, "PackingSearch",
                       "Exact search for offsets that keep the limit of each section; it learns from run to run.\n"
                       "\n"
                       "Raises ValueError, with the entry, if a buffer is invalid.")
        .def(
            "__init__",
            [](Search* place, std::vector<Buffer> buffers, std::vector<Units> limits) {
                new (place) Search(Problem{std::move(buffers), std::move(limits)});
            },
            "buffers"_a, "limits"_a)
        .def("run", &Search::run, "rank"_a, "most_nodes"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Restart the search; buffers of low rank are tried first.\n"
             "\n"
             "Stops after `most_nodes` decisions or if `stop` is asked. Raises ValueError if there is not one\n"
             "rank for each buffer.")
        .def_prop_ro("nodes", &Search::nodes, "Number of decisions in the last run.")
        .def_prop_ro("offsets", &Search::offsets,
                     "Offset of each buffer in units; a packing if the last run found one.")
        .def_prop_ro("hardest_section", &Search::hardest_section,
                     "Section with the most failures over all runs; the first of several.");
}

}  // namespace onchip
