// Python bindings of packing: `PackingAttempt`, `pack_buffers`, and packings of many buffers.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "arena.hpp"
#include "bindings.hpp"
#include "packing.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using Steps = std::pair<packing::Step, packing::Step>;

void add_tasks(nb::module_& module) {
    using namespace packing;
    nb::class_<Request>(
        module, "PackingRequest",
        "A buffer live over [start, stop) except in its gaps, with its alignment and fixed offset (-1:\n"
        "none), in bytes.")
        .def(
            "__init__",
            [](Request* place, Step start, Step stop, Bytes size, Bytes alignment, Bytes fixed,
               const std::vector<Steps>& gaps) {
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
           std::int64_t repairs, const StopToken& stop, const nb::typed<nb::callable, void(Bytes, Bytes)>& progress) {
            const nb::gil_scoped_release released;
            return solve(Task{std::move(buffers), capacity}, Effort{minimize, most_nodes, seed, repairs}, stop,
                         [&](Bytes arena, Bytes lower_bound, std::int64_t) {
                             const nb::gil_scoped_acquire acquired;
                             progress(arena, lower_bound);
                         });
        },
        "buffers"_a, "capacity"_a, nb::kw_only(), "minimize"_a, "most_nodes"_a, "seed"_a, "repairs"_a, "stop"_a,
        "progress"_a,
        "Pack buffers of any alignment, fixed offset and gaps.\n"
        "\n"
        "Ends early, with the best packing so far, after `most_nodes` decisions or if `stop` is asked. `repairs`\n"
        "are rounds of local search before the exact search. `progress` is called with each better arena (-1:\n"
        "none) and bound. Raises ValueError, with the buffer, if a value is invalid.");
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
    module.def(
        "place_in_order",
        [](const std::vector<Request>& buffers, const std::vector<Index>& order, bool in_smallest_gap) {
            Task{buffers, 0}.check();
            std::vector<Index> sorted(order);
            std::sort(sorted.begin(), sorted.end());
            for (std::size_t at = 0; at < std::max(sorted.size(), buffers.size()); ++at) {
                if (at >= sorted.size() || sorted[at] != static_cast<Index>(at)) {
                    throw std::invalid_argument("the order does not name every buffer once");
                }
            }
            Lifetimes lifetimes(buffers);
            Placer placer(buffers, lifetimes);
            placer.place(order, most_units, in_smallest_gap ? Placer::Gap::smallest : Placer::Gap::lowest);
            return placer.offsets;
        },
        "buffers"_a, "order"_a, nb::kw_only(), "in_smallest_gap"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Return the offsets in bytes of one buffer after another in the lowest or the smallest gap, fixed ones first.\n"
        "\n"
        "Raises ValueError, with the buffer, if a value is invalid or `order` does not name every buffer once.");
    module.def(
        "least_arena",
        [](std::vector<Request> buffers) {
            const Task task{std::move(buffers), 0};
            task.check();
            return std::pair{least_arena(task), fixed_overlap(task)};
        },
        "buffers"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Return a lower bound on the arena in bytes, and whether fixed buffers overlap.\n"
        "\n"
        "The bound is the most bytes alive at a step, all padded but one, and the end of each fixed buffer.\n"
        "Raises ValueError, with the buffer, if a value is invalid.");
}

void add_attempts(nb::module_& module) {
    using namespace packing;
    nb::enum_<Finding>(module, "PackingFinding", "Result of a search so far.")
        .value("PACKED", Finding::packed)
        .value("UNPACKABLE", Finding::unpackable)
        .value("OPEN", Finding::open);
    nb::class_<Attempt>(
        module, "PackingAttempt",
        "Attempt at one capacity that goes on with each call.\n"
        "\n"
        "Lists all pairs of buffers that live together. Raises ValueError, with the buffer, if a value\n"
        "is invalid.")
        .def(
            "__init__",
            [](Attempt* place, std::vector<Request> buffers, Bytes capacity, std::uint64_t seed) {
                new (place) Attempt(Task{std::move(buffers), capacity}, seed);
            },
            "buffers"_a, "capacity"_a, nb::kw_only(), "seed"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("go_on", &Attempt::go_on, "nodes"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Try bounds and best fit at first, then search for `nodes` decisions, or until `stop` is asked.\n"
             "\n"
             "While the search is open, short stretches of steps are tried, too.")
        .def("search", &Attempt::search, "nodes"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Go on with the exact search alone.")
        .def(
            "unpackable_stretches",
            [](Attempt& attempt, const StopToken& stop) {
                std::vector<Steps> found;
                for (const Interval& one : attempt.unpackable_stretches(stop)) found.emplace_back(one.start, one.stop);
                return found;
            },
            "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
            "Return stretches of steps that do not pack, around the fullest steps, which lie apart.")
        .def_prop_ro("nodes", &Attempt::nodes, "Number of decisions so far.")
        .def_prop_ro("offsets", &Attempt::offsets, "Offset of each buffer in bytes once it packs, else none.")
        .def_prop_ro("core", &Attempt::core, "Buffers that cannot wait: they pack exactly if all do.")
        .def_prop_ro(
            "stretch", [](const Attempt& attempt) { return Steps{attempt.stretch().start, attempt.stretch().stop}; },
            "Steps that do not pack, once that is proven; else the narrowest that stay open, or all steps.");
}

void add_lives(nb::module_& module) {
    using namespace arena;
    nb::class_<Lives>(module, "BufferLives",
                      "Buffers as columns: half-open lifetimes in steps, and sizes in bytes.\n"
                      "\n"
                      "Its methods raise ValueError, with the entry, if a value is invalid.")
        .def(nb::init<std::vector<std::int64_t>, std::vector<std::int64_t>, std::vector<Units>, Units>(), nb::kw_only(),
             "starts"_a, "stops"_a, "sizes"_a, "alignment"_a)
        .def(
            "sweep", [](const Lives& lives, Units most) { return sweep_within(blocks_of(lives), most); }, "most"_a,
            nb::call_guard<nb::gil_scoped_release>(),
            "Return an offset for each buffer: the smallest free range when it begins, or -1.\n"
            "\n"
            "A buffer that would end above `most` bytes gets -1. Takes n log n time and cannot be stopped.")
        .def(
            "fill",
            [](const Lives& lives, const std::vector<Index>& order, std::vector<Units> offsets, Units most,
               const StopToken& stop) { return fill_within(blocks_of(lives), order, std::move(offsets), most, stop); },
            "order"_a, "offsets"_a, "most"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
            "Return the offsets with more buffers placed: each in its turn at the lowest free offset, or -1.\n"
            "\n"
            "A buffer gets -1 if it would end above `most` bytes, or if `stop` is asked before its turn.\n"
            "Raises ValueError if there is not one offset for each buffer or `order` names no buffer.");
}

}  // namespace

void add_packing(nb::module_& module) {
    add_tasks(module);
    add_attempts(module);
    add_lives(module);
}

}  // namespace onchip
