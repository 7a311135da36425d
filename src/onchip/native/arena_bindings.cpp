// `ArenaSearch`, `ArenaRepair` and `JoinedBlocks` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "arena.hpp"
#include "arena_joined.hpp"
#include "arena_repair.hpp"
#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_arena(nb::module_& module) {
    using namespace arena;
    nb::class_<Block>(
        module, "ArenaBlock",
        "A buffer alive in the sections `first` to `stop - 1`, for so many steps; `size` is padded, `used` is not.\n"
        "\n"
        "`fixed` is its only offset, or -1; only `place` knows fixed blocks.")
        .def(
            "__init__",
            [](Block* place, Index first, Index stop, Units size, Units used, Units steps, Units fixed) {
                new (place) Block{first, stop, size, used, steps, fixed};
            },
            nb::kw_only(), "first"_a, "stop"_a, "size"_a, "used"_a, "steps"_a, "fixed"_a = none)
        .def_ro("first", &Block::first)
        .def_ro("stop", &Block::stop)
        .def_ro("size", &Block::size)
        .def_ro("used", &Block::used)
        .def_ro("steps", &Block::steps)
        .def_ro("fixed", &Block::fixed);
    nb::class_<JoinedBlocks>(
        module, "JoinedBlocks",
        "Blocks joined in twos without waste: of equal lives upon each other, of equal sizes right after each other.\n"
        "\n"
        "Ends early if asked to stop. Raises ValueError, naming the entry, for what no block can be.")
        .def(nb::init<std::vector<Block>, const StopToken&>(), "blocks"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("left", &JoinedBlocks::left, "Return what is no part of another block.")
        .def("offsets", &JoinedBlocks::offsets, "offsets_left"_a,
             "Return the offsets by block as given, from those of what is left; raises ValueError for another number.");
    nb::class_<ArenaSearch>(module, "ArenaSearch",
                            "Packs blocks as low as it can, and keeps the best packing; proves nothing.")
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
            "order"_a, nb::kw_only(), "in_smallest_gap"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
            "Place one after another, in the lowest or the smallest gap; False if asked to stop before the last.")
        .def("fill_skylines", &ArenaSearch::fill_skylines, "rounds"_a, "target"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Fill so many skylines more, or until the arena is at most the target.")
        .def("offer", &ArenaSearch::offer, "offsets"_a,
             "Keep a packing found elsewhere if it is lower; raises ValueError where there is not an offset for each.")
        .def_prop_ro("arena", &ArenaSearch::arena, "The least arena so far; 2^60 while there is none.")
        .def_prop_ro("offsets", &ArenaSearch::offsets, "By block, of the least arena so far.");
    nb::class_<ArenaRepair>(
        module, "ArenaRepair",
        "Lowers a packing: puts what ends too high in again, where it pushes out what weighs least; proves nothing.\n"
        "\n"
        "Raises ValueError for what no block can be, and where there is not an offset for each.")
        .def(
            "__init__",
            [](ArenaRepair* place, std::vector<Block> blocks, const std::vector<Units>& offsets, std::uint64_t seed) {
                new (place) ArenaRepair(std::move(blocks), offsets, seed);
            },
            "blocks"_a, "offsets"_a, "seed"_a)
        .def("lower", &ArenaRepair::lower, "looks"_a, "target"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Look at so many blocks beside others, or until the arena is at most the target.")
        .def("offer", &ArenaRepair::offer, "offsets"_a,
             "Go on from a packing found elsewhere if it is lower; raises ValueError where there is not one for each.")
        .def_prop_ro("arena", &ArenaRepair::arena, "The least arena so far.")
        .def_prop_ro("offsets", &ArenaRepair::offsets, "By block, of the least arena so far.");
}

}  // namespace onchip
