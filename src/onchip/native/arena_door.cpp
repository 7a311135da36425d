// `ArenaSearch`, `ArenaRepair` and `JoinedBlocks` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "arena.hpp"
#include "arena_joined.hpp"
#include "arena_repair.hpp"
#include "doors.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_arena(nb::module_& module) {
    using namespace arena;
    nb::class_<Block>(module, "ArenaBlock")
        .def(
            "__init__",
            [](Block* place, Index first, Index stop, Units size, Units used, Units steps) {
                new (place) Block{first, stop, size, used, steps};
            },
            nb::kw_only(), "first"_a, "stop"_a, "size"_a, "used"_a, "steps"_a)
        .def_ro("first", &Block::first)
        .def_ro("stop", &Block::stop)
        .def_ro("size", &Block::size)
        .def_ro("used", &Block::used)
        .def_ro("steps", &Block::steps);
    nb::class_<JoinedBlocks>(module, "JoinedBlocks")
        .def(nb::init<std::vector<Block>, const StopToken&>(), "blocks"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("left", &JoinedBlocks::left)
        .def("offsets", &JoinedBlocks::offsets, "offsets_left"_a);
    nb::class_<ArenaSearch>(module, "ArenaSearch")
        .def(
            "__init__",
            [](ArenaSearch* place, std::vector<Block> blocks, std::uint64_t seed) {
                new (place) ArenaSearch(std::move(blocks), seed);
            },
            "blocks"_a, "seed"_a)
        .def(
            "place",
            [](ArenaSearch& search, const std::vector<Index>& order, bool in_smallest_gap, const StopToken& stop) {
                return search.place(order, in_smallest_gap ? Gap::smallest : Gap::lowest, stop);
            },
            "order"_a, nb::kw_only(), "in_smallest_gap"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("fill_skylines", &ArenaSearch::fill_skylines, "rounds"_a, "target"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("offer", &ArenaSearch::offer, "offsets"_a)
        .def_prop_ro("arena", &ArenaSearch::arena)
        .def_prop_ro("offsets", &ArenaSearch::offsets);
    nb::class_<ArenaRepair>(module, "ArenaRepair")
        .def(
            "__init__",
            [](ArenaRepair* place, std::vector<Block> blocks, const std::vector<Units>& offsets, std::uint64_t seed) {
                new (place) ArenaRepair(std::move(blocks), offsets, seed);
            },
            "blocks"_a, "offsets"_a, "seed"_a)
        .def("lower", &ArenaRepair::lower, "looks"_a, "target"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("offer", &ArenaRepair::offer, "offsets"_a)
        .def_prop_ro("arena", &ArenaRepair::arena)
        .def_prop_ro("offsets", &ArenaRepair::offsets);
}

}  // namespace onchip
