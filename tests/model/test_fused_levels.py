"""Memories of operands, caches and weights, and the transfers between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.errors import AcceleratorError, InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.window import Window
from onchip.model.accounting.conventions import DEFINES, Conventions
from onchip.model.group.cost import StackCost, TileTypeCost, _freed_bits, stack_cost
from onchip.model.group.levels import peak_bits
from onchip.model.group.tiles import stack_tile
from onchip.ops.fusable import AxisName, FeatureMap, Stack, back_calculation, tiled_axis
from support.fused import Noting, fitting, level, machine, small_machine, with_capacity
from support.stacks import ONE, addition, chain, convolution, fsrcnn, random_stack

WINDOW = Window(3, 1, 1, 1)
LOCAL, GLOBAL = "activation_local_buffer", "activation_global_buffer"


def cost(
    stack: Stack, accelerator: Accelerator, columns: int, rows: int, mode: str, conventions: Conventions | None = None
) -> StackCost:
    tiling = Tiling(columns, rows, OverlapMode(mode))
    return stack_cost(stack, accelerator, tiling, fitting, conventions or Conventions())


def levels(one: TileTypeCost) -> list[tuple[str, str]]:
    return [(layer.levels.input, layer.levels.output) for layer in one.layers]


def test_a_tile_of_the_paper_lies_where_its_figures_9_and_10_say() -> None:
    """FSRCNN in recomputed tiles of 60 x 72: L6 of the last type has its input in the local and its output in the
    global buffer, L6 of the previous type has both in the local one; only the first tile has its weights in DRAM.
    """
    first, *others = cost(fsrcnn(), load_accelerator("meta-prototype-df"), 60, 72, "recompute", DEFINES).placed
    small, full = sorted(others, key=lambda one: one.rows)
    assert levels(full)[6] == (LOCAL, GLOBAL)
    assert levels(full)[7][1] == levels(small)[7][1] == DRAM
    assert {layer.levels.weight for layer in first.layers} == {DRAM}
    assert {layer.levels.weight for one in others for layer in one.layers} == {"weight_local_buffer"}
    assert (first.times, small.times, full.times) == (1, 15, 112)


@pytest.mark.parametrize(
    ("columns", "mode", "types", "macs"),
    [
        (4, "fully-cached", 9, 8_362_594_208),
        (4, "h-cached", 6, 8_687_604_544),
        (4, "recompute", 3, 15_579_079_680),
        (60, "fully-cached", 9, 8_362_594_208),
        (60, "h-cached", 6, 8_687_604_544),
        (60, "recompute", 3, 9_120_123_904),
    ],
)
def test_tile_types_and_multiplications_are_those_of_defines(columns: int, mode: str, types: int, macs: int) -> None:
    found = cost(fsrcnn(), load_accelerator("meta-prototype-df"), columns, 72, mode, DEFINES)
    assert (found.tile_types, found.sums.macs) == (types, macs)


@pytest.mark.parametrize(("columns", "millions"), [(4, 3.47), (60, 26.38)])
def test_copies_are_those_of_defines(columns: int, millions: float) -> None:
    """DeFiNES counts a memory once per copy that passes it; copies through the global buffer are the stack's input."""
    found = cost(fsrcnn(), load_accelerator("meta-prototype-df"), columns, 72, "fully-cached", DEFINES).sums
    loaded = found.accesses_of(DRAM, EnergyCause.COPY)
    assert loaded == 974 * 554
    assert round((found.accesses_of(GLOBAL, EnergyCause.COPY) - loaded) / 1e6, 2) == millions
    assert round(found.accesses_of(LOCAL, EnergyCause.COPY) / 1e6, 2) == millions


def test_an_input_has_the_lowest_room_and_its_output_what_is_left() -> None:
    """Input and output have 8 x 8 pixels: 64 bytes each."""
    expected = {128: ("local", "local"), 127: ("local", "global"), 63: ("global", "global")}
    for capacity, where in expected.items():
        accelerator = with_capacity(small_machine(), "local", capacity)
        (one,) = cost(chain(8, ONE, ONE), accelerator, 8, 8, "recompute").placed
        assert levels(one)[0] == where


def test_the_last_output_leaves_to_dram() -> None:
    (one,) = cost(chain(8, ONE, ONE), small_machine(), 8, 8, "recompute").placed
    assert levels(one)[-1] == ("local", DRAM)


def test_what_finds_no_mapping_moves_up_its_output_first_then_its_input() -> None:
    stack = chain(4, ONE, ONE)
    noting = Noting(refusals=3)
    stack_cost(stack, small_machine(), Tiling(4, 4, OverlapMode.RECOMPUTE), noting)
    homes = [(one.home(Operand.INPUT), one.home(Operand.OUTPUT)) for one in noting.asked]
    assert homes[:4] == [("local", "local"), ("local", "global"), ("global", "local"), ("global", "global")]


def test_where_no_mapping_fits_the_layer_is_named() -> None:
    with pytest.raises(AcceleratorError, match="layer 'm1': no mapping of a tile fits"):
        stack_cost(chain(4, ONE), small_machine(), Tiling(4, 4, OverlapMode.RECOMPUTE), Noting(refusals=1000))


def test_an_output_that_is_read_elsewhere_is_copied_there() -> None:
    """A map of 64 bytes and its input exceed the local buffer: the map goes to the global one, and fits as an input."""
    found = cost(chain(8, ONE, ONE, ONE), with_capacity(small_machine(), "local", 127), 8, 8, "recompute").sums
    assert found.accesses["global", "input", EnergyCause.COPY] == 64 + 64 + 2 * 64
    assert found.accesses[DRAM, "input", EnergyCause.COPY] == 64


def test_without_skipping_levels_data_stay_in_the_largest_memory() -> None:
    (one,) = cost(chain(8, ONE, ONE), small_machine(), 8, 8, "recompute", Conventions(levels_are_skipped=False)).placed
    assert levels(one) == [("global", "global"), ("global", DRAM)]


def test_neighbours_share_the_higher_level_of_their_caches() -> None:
    """Tiles have 4 columns: the first of a row also computes the halo, and needs more for that than a later one with
    all caches. Its neighbour therefore finds the column cache in the global buffer, others in the local one.
    """
    wide = convolution(FeatureMap("in", 1, 16, 16), "wide", ONE, ONE, 8)
    narrow = convolution(wide.output, "narrow", ONE, ONE, 1)
    stack = Stack((FeatureMap("in", 1, 16, 16),), (wide, narrow, convolution(narrow.output, "out", WINDOW, WINDOW, 1)))
    later = _peak(stack, first=False) + 2 * 16
    assert later < _peak(stack, first=True)
    accelerator = small_machine(later, 4096)
    found = cost(stack, accelerator, 4, 16, "h-cached").placed
    assert [(one.caches.columns_from, one.caches.columns_to, one.times) for one in found] == [
        (None, "global", 1),
        ("global", "local", 1),
        ("local", "local", 1),
        ("local", None, 1),
    ]
    as_defines = Conventions(cache_levels_are_the_next_tiles=True)
    found = cost(stack, accelerator, 4, 16, "h-cached", as_defines).placed
    assert {one.caches.columns_from for one in found} == {None, "local"}


def _peak(stack: Stack, *, first: bool) -> int:
    rows = tiled_axis(stack, AxisName.ROWS, 16, cached=False).classes[0]
    axis = tiled_axis(stack, AxisName.COLUMNS, 4, cached=True)
    columns = axis.classes[axis.order[0 if first else 1]]
    return peak_bits(stack_tile(stack, rows, columns, padding_is_stored=False), {}) // 8


def test_caches_of_rows_span_the_width_of_the_map() -> None:
    found = cost(chain(16, WINDOW), small_machine(), 4, 4, "fully-cached")
    assert dict(found.row_cache_bits) == {"m0": 2 * 16 * 8, "m1": 0}
    assert dict(found.column_cache_bits) == {"m0": 2 * 6 * 8, "m1": 0}


def test_rows_for_later_tiles_are_written_once_and_read_once() -> None:
    """Two maps have 2 rows at each of three borders; the input is loaded through the global buffer and kept there."""
    found = cost(chain(16, WINDOW, WINDOW), small_machine(local=200, shared=1 << 16), 16, 4, "fully-cached")
    assert {one.caches.rows_to for one in found.placed} == {"global", None}
    sums, pixels, loaded = found.sums.accesses, 3 * 2 * 16, 16 * 16
    assert sums["local", "output", EnergyCause.COPY] == sums["global", "output", EnergyCause.COPY] == pixels
    assert sums["global", "input", EnergyCause.COPY] == 2 * loaded + pixels + 2 * pixels


def test_weights_lie_beside_features_where_these_leave_room() -> None:
    """The shared buffer holds 64 bytes of features twice, and 2 weights."""
    shared = machine(level("local", 1000), level("global", 10_000, pj=4.0))
    homes = {}
    for capacity in (130, 129):
        found = cost(chain(8, ONE, ONE), with_capacity(shared, "local", capacity), 8, 4, "recompute")
        homes[capacity] = {layer.levels.weight for one in found.placed[1:] for layer in one.layers}
    assert homes[130] == {"local"}
    tight = cost(chain(8, ONE, ONE), with_capacity(shared, "local", 65), 8, 4, "recompute")
    assert {layer.levels.weight for one in tight.placed[1:] for layer in one.layers} == {"global"}


def test_weights_that_fit_nowhere_come_from_dram_for_every_tile() -> None:
    accelerator = with_capacity(small_machine(), "weights", 8)
    found = cost(chain(8, WINDOW, WINDOW), accelerator, 8, 4, "recompute")
    assert {layer.levels.weight for one in found.placed for layer in one.layers} == {DRAM}


@pytest.mark.parametrize(
    ("capacity", "together", "expected"),
    [(14, False, ["weights", "weights", DRAM]), (13, False, ["weights", DRAM, DRAM]), (14, True, [DRAM, DRAM, DRAM])],
)
def test_of_weights_that_do_not_all_fit_the_largest_stay(capacity: int, together: bool, expected: list[str]) -> None:
    """The layers have 9, 4 and 4 bytes of weights; a byte must stay free for the streamed weights."""
    accelerator = with_capacity(small_machine(), "weights", capacity)
    stack = chain(8, WINDOW, Window(2, 1, 1, 0), Window(2, 1, 1, 0))
    found = cost(stack, accelerator, 6, 3, "recompute", Conventions(weights_lie_together=together))
    for one in found.placed:
        assert [layer.levels.weight for layer in one.layers] == ([DRAM] * 3 if one.is_first_tile else expected)


def test_weights_that_stay_leave_less_room_to_others() -> None:
    stack = chain(8, WINDOW, Window(2, 1, 1, 0), Window(2, 1, 1, 0))
    noting = Noting()
    accelerator = with_capacity(small_machine(), "weights", 14)
    stack_cost(stack, accelerator, Tiling(6, 3, OverlapMode.RECOMPUTE), noting)
    rooms = [one.usable_bits("weights") // 8 for one in noting.asked]
    assert rooms[:3] == [14 - 4, 14 - 9, 1]


@pytest.mark.parametrize(("mode", "caches"), [("h-cached", 12), ("fully-cached", 12 + 32 - 4)])
def test_caches_and_weights_lie_beside_features_where_there_is_room(mode: str, caches: int) -> None:
    """A tile of 4 x 4 reads 6 x 6; the column cache has 2 columns of 6, the row cache 2 rows of 16, 2 x 2 in both.

    Nine weights are placed last.
    """
    stack, needed = chain(16, WINDOW), 36 + 16 + caches
    for capacity, expected in ((needed + 9, ("local", "local")), (needed + 8, ("local", "global"))):
        accelerator = machine(level("local", capacity), level("global", 10_000, pj=4.0))
        assert _inner_caches_and_weights(cost(stack, accelerator, 4, 4, mode), mode) == expected
    for capacity, place in ((needed, "local"), (needed - 1, "global")):
        found = cost(stack, small_machine(capacity, 10_000), 4, 4, mode)
        assert _inner_caches_and_weights(found, mode)[0] == place


def _inner_caches_and_weights(found: StackCost, mode: str) -> tuple[str | None, str | None]:
    one = next(one for one in found.placed if one.times == 4)
    return one.caches.rows_to if mode == "fully-cached" else one.caches.columns_to, one.layers[0].levels.weight


def test_all_caches_are_there_in_every_tile_but_the_first_of_a_row() -> None:
    """Three channels of 6 x 16 pixels come in, one of 4 x 16 leaves, and 2 columns of each of four maps are cached."""
    source = FeatureMap("in", 3, 16, 16)
    first = convolution(source, "first", WINDOW, WINDOW, 1)
    stack = Stack((source,), (first, convolution(first.output, "second", WINDOW, WINDOW, 1)))
    needed = 16 * (3 * 6 + 4 + 4 * 2)
    for capacity, place in ((needed, "local"), (needed - 1, "global")):
        found = cost(stack, small_machine(capacity, 4096), 4, 16, "h-cached").placed
        assert {one.caches.columns_to for one in found if one.caches.columns_from} - {None} == {place}


def test_a_tile_with_more_to_keep_than_its_neighbour_decides_for_both() -> None:
    """The first tile has one column, and with the halo three of the first map; the others read six."""
    alone = 16 * (2 + 1 + 2)
    found = cost(chain(16, WINDOW), small_machine(alone, 4096), 5, 16, "h-cached").placed
    assert {one.caches.columns_to for one in found if one.is_first_tile} == {"global"}


def test_as_defines_sizes_them_caches_of_columns_are_lower_where_rows_are_recomputed() -> None:
    """The first map caches 2 x 8 pixels, or 2 x 6 of them; the second 2 x 6; a tile needs 6 x 8 and 4 x 6."""
    for sized, place in ((False, "global"), (True, "local")):
        conventions = Conventions(caches_are_sized_as_fully_cached=sized)
        found = cost(chain(16, WINDOW, WINDOW), small_machine(98, 4096), 4, 4, "h-cached", conventions).placed
        inner = next(one for one in found if one.times == 4)
        assert inner.caches.columns_to == place


def test_what_is_alive_counts_maps_that_wait() -> None:
    """`two` runs while 64 bytes wait, 128 come in and 64 leave."""
    source = FeatureMap("in", 1, 8, 8)
    one = convolution(source, "one", ONE, ONE, 2)
    two = convolution(one.output, "two", ONE, ONE, 1)
    assert _alive(Stack((source,), (one, two, addition(two.output, source, "sum"))), {}) == 64 + 128 + 64


def test_a_cache_is_alive_from_when_its_map_has_been_made() -> None:
    stack = chain(8, ONE, ONE)
    assert _alive(stack, {"m1": 80}) == 64 + 64 + 10
    assert _alive(stack, {"m2": 80}) == 64 + 64


def _alive(stack: Stack, caches: Mapping[str, int]) -> int:
    rows, columns = (tiled_axis(stack, axis, 8, cached=False).classes[0] for axis in AxisName)
    return peak_bits(stack_tile(stack, rows, columns, padding_is_stored=False), caches) // 8


ROWS_AND_COLUMNS = 3 * 2 * 16 + 3 * 2 * 16 - 9 * 4
"""Three borders along each axis have two rows or columns of 16 pixels, with the 2 x 2 at their crossings counted once.
"""


def test_what_goes_to_both_caches_is_written_once() -> None:
    found = cost(chain(16, WINDOW, WINDOW), small_machine(62, 4096), 4, 4, "fully-cached")
    assert {layer.levels.output for one in found.placed for layer in one.layers} == {"local", DRAM}
    assert found.sums.accesses["local", "output", EnergyCause.COPY] == ROWS_AND_COLUMNS


def test_the_input_is_written_to_a_cache_unless_all_of_it_lies_there() -> None:
    """DeFiNES writes it for free, so the cost has no such term."""
    stack, tiling = chain(16, WINDOW, WINDOW), Tiling(4, 4, OverlapMode.FULLY_CACHED)
    from_dram, from_global, free = (
        stack_cost(stack, small_machine(62, 4096), tiling, fitting, conventions, homes).sums
        for conventions, homes in (
            (Conventions(), {}),
            (Conventions(), {"m0": "global"}),
            (Conventions(stack_inputs_are_cached_for_free=True), {}),
        )
    )
    key = "local", "input", EnergyCause.COPY
    assert from_dram.accesses[key] - from_global.accesses[key] == ROWS_AND_COLUMNS
    assert from_dram.accesses[key] - free.accesses[key] == ROWS_AND_COLUMNS


def test_what_comes_from_outside_stays_below_where_the_input_lies() -> None:
    """The memory has room for 20 new pixels but not for the 25 to 36 that a layer reads: only cached pixels move up.

    The first tile loads 25 into the global buffer at once; 2 x 5 rows and 2 x 3 columns of them are cached.
    """
    found = cost(chain(16, WINDOW), small_machine(24, 4096), 4, 4, "fully-cached")
    assert {one.layers[0].levels.input for one in found.placed} == {"global"}
    assert found.sums.accesses["local", "input", EnergyCause.COPY] == 16 * 16 - 25 + ROWS_AND_COLUMNS - 16


def test_an_input_that_stays_on_the_chip_is_read_there() -> None:
    tiling = Tiling(8, 8, OverlapMode.RECOMPUTE)
    found = stack_cost(chain(8, ONE), small_machine(64), tiling, Noting(), input_homes={"m0": "local"})
    assert levels(found.placed[0]) == [("local", DRAM)]


def test_a_map_that_waits_for_a_later_layer_takes_room() -> None:
    source = FeatureMap("in", 1, 8, 8)
    one = convolution(source, "one", ONE, ONE, 1)
    two = convolution(one.output, "two", ONE, ONE, 1)
    stack = Stack((source,), (one, two, addition(two.output, one.output, "sum")))
    accelerator = with_capacity(small_machine(), "local", 128)
    assert _second_output(stack, accelerator, Conventions()) == "local"
    skipping = Stack((source,), (one, two, addition(two.output, source, "sum")))
    assert _second_output(skipping, accelerator, Conventions()) == "global"
    assert _second_output(skipping, accelerator, Conventions(waiting_maps_take_room=False)) == "local"


def _second_output(stack: Stack, accelerator: Accelerator, conventions: Conventions) -> str:
    return cost(stack, accelerator, 8, 8, "recompute", conventions).placed[0].layers[1].levels.output


def test_an_additions_second_operand_lies_with_the_first() -> None:
    source = FeatureMap("in", 1, 4, 4)
    through = convolution(source, "through", WINDOW, WINDOW, 1)
    stack = Stack((source,), (through, addition(through.output, source, "sum")))
    noting = Noting()
    stack_cost(stack, small_machine(), Tiling(4, 4, OverlapMode.RECOMPUTE), noting)
    problem = noting.asked[-1]
    assert problem.layer.g == 16
    assert {one.memory.name for one in problem.levels} == {"local", "global"}
    assert all(Operand.WEIGHT in one.memory.holds for one in problem.levels)
    assert problem.home(Operand.WEIGHT) == problem.home(Operand.INPUT) == "local"


def test_maps_that_stay_take_room_but_not_twice_that_of_their_own_tiles() -> None:
    stack, tiling = chain(8, ONE, ONE), Tiling(8, 8, OverlapMode.RECOMPUTE)
    rooms = {}
    for home, output in ((DRAM, DRAM), ("global", DRAM), (DRAM, "global")):
        noting = Noting()
        stack_cost(stack, small_machine(32), tiling, noting, input_homes={"m0": home}, output_home=output)
        rooms[home, output] = [one.usable_bits("global") // 8 for one in noting.asked]
    assert rooms == {(DRAM, DRAM): [1024, 1024], ("global", DRAM): [1024, 960], (DRAM, "global"): [960, 1024]}


def test_maps_that_stay_leave_less_room_to_choose() -> None:
    tiling = Tiling(8, 8, OverlapMode.RECOMPUTE)
    for capacity_bytes, output in ((128, "local"), (127, "global")):
        machine = small_machine(capacity_bytes)
        found = stack_cost(chain(8, ONE, ONE), machine, tiling, Noting(), input_homes={"m0": "local"})
        assert levels(found.placed[0])[0] == ("local", output)


def test_a_home_that_cannot_hold_a_map_is_refused() -> None:
    tiling = Tiling(8, 8, OverlapMode.RECOMPUTE)
    with pytest.raises(AcceleratorError, match="home of 'm1': 'weights' is no single memory that holds output; expec"):
        stack_cost(chain(8, ONE), small_machine(), tiling, fitting, output_home="weights")


def test_a_machine_without_a_level_for_an_operand_is_refused() -> None:
    bare = replace(machine(level("features", 64, Operand.INPUT, Operand.OUTPUT)), name="bare")
    with pytest.raises(AcceleratorError, match="accelerator 'bare': no memory on the chip holds weight"):
        stack_cost(chain(8, ONE), bare, Tiling(8, 8, OverlapMode.RECOMPUTE), fitting)


@pytest.mark.parametrize("seed", range(60))
def test_a_map_frees_the_bytes_that_no_later_strip_needs(seed: int) -> None:
    """Bytes of both maps are counted row by row here; the tile that needs most decides."""
    random = Random(seed)
    stack = random_stack(seed)
    (source,), output = stack.inputs[:1], stack.output
    strip = random.randint(1, output.rows)
    tiling = Tiling(output.columns, strip, OverlapMode.RECOMPUTE)
    try:
        found = _freed_bits(stack, tiling, {source.name: LOCAL}, LOCAL, frozenset({source.name}))
        tiles = back_calculation(stack, AxisName.ROWS, strip, cached=False).maps
    except InputError:
        return
    needed, made = tiles[source.name].needed, tiles[output.name].computed
    most = 0
    for tile in range(len(made.stops)):
        rows_needed = {row for at in range(tile, len(made.stops)) for row in range(needed.starts[at], needed.stops[at])}
        rows_made = made.stops[tile]
        gap = max(source.rows - min(rows_needed, default=source.rows), 0) if rows_needed else 0
        most = max(most, gap * (source.size_bits // source.rows) + rows_made * (output.size_bits // output.rows))
    whole = source.rows * (source.size_bits // source.rows) + output.rows * (output.size_bits // output.rows)
    assert whole - most == found[LOCAL] or found[LOCAL] == 0 <= most - whole
    assert not _freed_bits(stack, tiling, {source.name: LOCAL}, LOCAL, frozenset())
    assert not _freed_bits(stack, tiling, {source.name: LOCAL}, DRAM, frozenset({source.name}))
