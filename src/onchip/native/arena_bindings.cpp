// Python bindings of `ArenaSearch`, `ArenaRepair` and `JoinedBlocks`.

#include <nanobind/stl/bind_vector.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "arena.hpp"
#include "arena_joined.hpp"
#include "arena_repair.hpp"
#include "bindings.hpp"

// Opaque to avoid a copy: Python reads single blocks of a million, at most.
NB_MAKE_OPAQUE(std::vector<onchip::arena::Block>)

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_arena(nb::module_& module) {
    using namespace arena;
    nb::class_<Block>(
        module, "ArenaBlock",
        "A buffer alive in the sections `first` to `stop - 1`, for a number of steps.\n"
        "\n"
        "A section is a maximal set of buffers that are alive at once. `size` is padded to the alignment,\n"
        "`used` is not; both are in bytes. `fixed` is the only legal offset, or -1. Only\n"
        "`ArenaSearch.place` and `ArenaSearch.offer` support fixed blocks.")
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
    nb::bind_vector<std::vector<Block>>(module, "ArenaBlocks",
                                        "Sequence of ArenaBlock; a list of blocks converts to it.");
    module.def("sweep_within", &sweep_within, "blocks"_a, "most"_a, nb::call_guard<nb::gil_scoped_release>(),
               "Return an offset for each block: the smallest free range, in order of the first sections, or -1.\n"
               "\n"
               "A block that would end above `most` bytes gets -1. Takes n log n time and cannot be stopped.");
    module.def("fill_within", &fill_within, "blocks"_a, "order"_a, "offsets"_a, "most"_a, "stop"_a,
               nb::call_guard<nb::gil_scoped_release>(),
               "Return the offsets with more blocks placed: each in its turn at the lowest free offset, or -1.\n"
               "\n"
               "A block gets -1 if it would end above `most` bytes, or if `stop` is asked before its turn.\n"
               "Raises ValueError if there is not one offset for each block or `order` names no block.");
    nb::class_<Lives>(
        module, "BufferLives",
        "Buffers as columns: half-open lifetimes in steps, sizes in bytes, fixed offsets in bytes (-1: none).")
        .def(
            "__init__",
            [](Lives* place, std::vector<std::int64_t> starts, std::vector<std::int64_t> stops,
               std::vector<Units> sizes, std::vector<Units> fixed, Units alignment) {
                new (place) Lives{std::move(starts), std::move(stops), std::move(sizes), std::move(fixed), alignment};
            },
            nb::kw_only(), "starts"_a, "stops"_a, "sizes"_a, "fixed"_a, "alignment"_a)
        .def("blocks", &blocks_of, nb::call_guard<nb::gil_scoped_release>(),
             "Return the blocks, with lifetimes in sections and sizes padded to the alignment.\n"
             "\n"
             "Raises ValueError if the columns differ in length.")
        .def("most_live", &most_live, nb::call_guard<nb::gil_scoped_release>(),
             "Return a lower bound on the arena in bytes: the most that live at one step, all padded but one.\n"
             "\n"
             "The one left unpadded has the most padding. Raises ValueError if the columns differ in length.");
    nb::class_<JoinedBlocks>(
        module, "JoinedBlocks",
        "Blocks merged in pairs without wasted space, until no pair is left to merge.\n"
        "\n"
        "Blocks with equal lifetimes are stacked; blocks of equal size whose lifetimes are adjacent share\n"
        "an offset. A packing of the merged blocks gives a packing of all blocks. Stops early if `stop` is\n"
        "asked. Raises ValueError, with the entry, if a block is invalid.")
        .def(nb::init<std::vector<Block>, const StopToken&>(), "blocks"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("left", &JoinedBlocks::left, "Return the blocks that are not part of another block.")
        .def("offsets", &JoinedBlocks::offsets, "offsets_left"_a,
             "Return the offsets of the given blocks in bytes, from the offsets of the blocks in `left`.\n"
             "\n"
             "Raises ValueError if the number of offsets differs from the number of blocks in `left`.");
    nb::class_<ArenaSearch>(
        module, "ArenaSearch",
        "Heuristic packing search that keeps the packing with the lowest arena; it proves nothing.\n"
        "\n"
        "Raises ValueError, with the entry, if a block is invalid.")
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
            "Place the blocks in the given order, fixed blocks first, and keep the packing if it is the best.\n"
            "\n"
            "Each block goes to the lowest or to the smallest gap in which it fits. Returns False if `stop` is\n"
            "asked before the last block. Raises ValueError if `order` does not name every block once.")
        .def("sweep", &ArenaSearch::sweep, nb::call_guard<nb::gil_scoped_release>(),
             "Place each block, in order of its first section, in the smallest free range above all fixed blocks.\n"
             "\n"
             "Keeps the packing if its arena is the lowest. Takes n log n time and cannot be stopped.")
        .def("fill_skylines", &ArenaSearch::fill_skylines, "rounds"_a, "target"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Build `rounds` more skyline packings; end early if the arena is at most `target` bytes.")
        .def("offer", &ArenaSearch::offer, "offsets"_a,
             "Keep a packing from another source if its arena is lower.\n"
             "\n"
             "Raises ValueError if there is not one offset for each block.")
        .def_prop_ro("arena", &ArenaSearch::arena,
                     "Lowest arena found so far in bytes, or 2^60 before the first packing.")
        .def_prop_ro("offsets", &ArenaSearch::offsets,
                     "Offset of each block in bytes, in the packing with the lowest arena.");
    nb::class_<ArenaRepair>(
        module, "ArenaRepair",
        "Local search that lowers the arena of a packing; it proves nothing.\n"
        "\n"
        "It removes the blocks that end too high and inserts them again, where they displace the blocks of\n"
        "least weight. The given packing is not checked. Raises ValueError if a block is invalid or if\n"
        "there is not one offset for each block.")
        .def(
            "__init__",
            [](ArenaRepair* place, std::vector<Block> blocks, const std::vector<Units>& offsets, std::uint64_t seed) {
                new (place) ArenaRepair(std::move(blocks), offsets, seed);
            },
            "blocks"_a, "offsets"_a, "seed"_a)
        .def("lower", &ArenaRepair::lower, "looks"_a, "target"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Run until `looks` neighbouring blocks have been inspected or the arena is at most `target` bytes.")
        .def("offer", &ArenaRepair::offer, "offsets"_a,
             "Continue from a packing of another source if its arena is lower.\n"
             "\n"
             "Raises ValueError if there is not one offset for each block.")
        .def_prop_ro("arena", &ArenaRepair::arena, "Lowest arena found so far in bytes.")
        .def_prop_ro("offsets", &ArenaRepair::offsets,
                     "Offset of each block in bytes, in the packing with the lowest arena.");
}

}  // namespace onchip
