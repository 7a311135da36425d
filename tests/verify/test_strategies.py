"""The strategy verifier: tiles, memories of caches and weights, transfers and mappings, by hand and by the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.document import Claim
from onchip.answer.fused_network import FusedNetwork, MapInNetwork, NestInNetwork, ReadInNetwork, StreamedOperator
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.result import Status
from onchip.answer.stacks import LayerInNetwork, OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import EnergyCause, FusionStrategy, StrategyFigures
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Direction, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import Layer
from onchip.ir.window import Window
from onchip.model.accounting.accounting import INTERPRETER
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.cost import tile_prices_by
from onchip.model.group.levels import CacheLevels, TiledStack, placement
from onchip.model.group.machine import FusedMachine
from onchip.model.group.tiles import StackTile
from onchip.ops.fusable import AxisName, FusableLayer, FusableNetwork, Stack, TileClass, tiled_axis
from onchip.transform.groups.stacks import spans_of
from onchip.transform.groups.tile_graph import network_to_replay
from onchip.verify.rules import Rule
from onchip.verify.stack.caches import CachePlaces, RunningStack, TiledStackOnChip, most_alive_bits, running_stacks
from onchip.verify.stack.chip import ChipInUse, TilePrice, expense_of_moving, with_groups_along_all
from onchip.verify.stack.strips import (
    Axis1D,
    ComputedPart,
    LayerPart,
    PaddingAloneError,
    SeenPart,
    StackPart,
    Strip,
    stack_part,
    tiled_length,
)
from onchip.verify.stack.verifier import StrategySetting, replay_strategy
from onchip.verify.strategy import verify_strategy, verify_strategy_claim
from support.fused import level, machine
from support.fusion_strategies import choices_of, costed, random_strategy, small_case
from support.series import with_slow
from support.stacks import ONE, addition, chain, random_stack

SEEDS = (*range(150), 603, 908)
"""The seeds: in 603 and 908 the first tile of a row decides, as DeFiNES counts, whether weights find room."""
MODES = tuple(OverlapMode)


def running(stack: Stack, tiling: Tiling) -> RunningStack:
    network = network_to_replay(FusableNetwork("random", stack.inputs, stack.layers))
    names = tuple(layer.name for layer in stack.layers)
    (found,) = running_stacks(network, FusionStrategy((StackStrategy(names, tiling),)))
    return found


def of_strip(one: Strip) -> object:
    maps = {name: (each.needed, each.computed, each.kept, each.written) for name, each in one.maps.items()}
    return maps, [[(each.seen, each.cached, each.before, each.behind) for each in own] for own in one.reads]


def of_class(one: TileClass) -> object:
    maps = {name: (each.needed, each.computed, each.kept, each.written) for name, each in one.maps.items()}
    return maps, [[(each.seen, each.cached, each.zeros_before, each.zeros_after) for each in own] for own in one.reads]


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_along_an_axis_are_those_of_the_back_calculation(seed: int) -> None:
    random, stack = Random(seed), random_stack(seed)
    for axis in AxisName:
        tile, is_cached = random.randint(1, axis.pixels(stack.output)), random.random() < 0.7
        own = running(stack, Tiling(1, 1, OverlapMode.RECOMPUTE))
        along = Axis1D(own.layers, own.inputs, is_rows=axis is AxisName.ROWS)
        try:
            expected = tiled_axis(stack, axis, tile, cached=is_cached)
        except InputError:
            with pytest.raises(PaddingAloneError):
                tiled_length(along, tile, is_cached=is_cached)
            continue
        found = tiled_length(along, tile, is_cached=is_cached)
        assert [of_strip(one) for one in found.strips] == [of_class(one) for one in expected.classes]
        assert (found.order, found.kept, found.whole) == (expected.order, expected.kept, expected.whole)


def random_chip(random: Random) -> Accelerator:
    """Return a chip with features in one to three memories and weights in one or two, of any sizes."""
    features = Operand.INPUT, Operand.OUTPUT
    sizes = sorted(int(2 ** random.uniform(3, 13)) for _ in range(3))
    holds = [random.choice((features, features, tuple(Operand), (Operand.INPUT,), (Operand.OUTPUT,))) for _ in sizes]
    own = level("weights", int(2 ** random.uniform(1, 9)), Operand.WEIGHT)
    return machine(own, *(level(f"m{at}", size, *holds[at]) for at, size in enumerate(sizes)))


def of_part(one: StackPart) -> object:
    made = [(each.map.name, each.elements, each.to_columns, each.to_rows, each.to_both) for each in one.loaded]
    layers = []
    for layer in one.layers:
        own = layer.made
        seen = tuple((each.elements, each.new, each.from_columns, each.from_rows) for each in layer.seen)
        numbers = own.elements, own.to_columns, own.to_rows, own.to_both
        layers.append((layer.number, layer.nest, seen, numbers, layer.layer.is_addition, layer.seen_bits))
    return tuple(made), tuple(layers)


def of_tile(one: StackTile) -> object:
    made = [(each.map.name, each.computed, each.to_columns, each.to_rows, each.to_both) for each in one.inputs]
    layers = []
    for layer in one.layers:
        own = layer.made
        seen = tuple((each.all, each.new, each.from_columns, each.from_rows) for each in layer.seen)
        numbers = own.computed, own.to_columns, own.to_rows, own.to_both
        layers.append((layer.at, layer.layer, seen, numbers, layer.is_addition, layer.seen_bits))
    return tuple(made), tuple(layers)


def places(one: CachePlaces | CacheLevels) -> tuple[str | None, ...]:
    return one.columns_from, one.columns_to, one.rows_from, one.rows_to


@pytest.mark.parametrize("conventions", [OURS, DEFINES])
@pytest.mark.parametrize("seed", with_slow(SEEDS, lambda seed: seed < 150 and seed % 5))
def test_tiles_and_the_places_of_caches_and_weights_are_those_of_the_cost_model(
    seed: int, conventions: Conventions
) -> None:
    random, stack = Random(seed), random_stack(seed)
    output, mode = stack.output, random.choice(MODES[1:] * 3 + MODES[:1])
    tiling = Tiling(random.randint(1, output.columns), random.randint(1, output.rows), mode)
    try:
        rows = tiled_axis(stack, AxisName.ROWS, tiling.rows, cached=mode.caches_rows)
        columns = tiled_axis(stack, AxisName.COLUMNS, tiling.columns, cached=mode.caches_columns)
        measured = tiled_axis(stack, AxisName.ROWS, tiling.rows, cached=True) if conventions == DEFINES else rows
    except InputError:
        return
    for _ in range(12):
        accelerator = random_chip(random)
        taken = {level.memory.name: 8 * random.choice((0, 0, 7, 40)) for level in accelerator.levels}
        tiled = TiledStack(stack, mode, rows, columns, measured, conventions)
        expected = placement(tiled, FusedMachine(accelerator, taken_bits=taken))
        found = TiledStackOnChip(
            running(stack, tiling), ChipInUse(accelerator, taken), as_defines=conventions == DEFINES
        )
        assert found.weights() == expected.weights
        ours, theirs = Counter[object](), Counter[object]()
        for one in found.tiles():
            ours[of_part(one.part), places(one.caches), one.is_first] += one.times
        for other in expected.tiles:
            tile = of_tile(tiled.tile(other.rows, other.columns))
            theirs[tile, places(other.caches), other.is_first_tile] += other.times
        assert ours == theirs


STRATEGY_SEEDS = (*range(100), 120, 128, 285, 288, 1109)
"""The seeds: in 120 a map waits for a layer after the next, in 128 an output fits to the bit.

In 285 and 288 a map that lies whole on the chip may move no higher, in 1109 others fill a memory.
"""


def assert_same(found: StrategyFigures, expected: StrategyFigures) -> None:
    assert (found.macs, found.dram_bits, found.peak_bytes) == (expected.macs, expected.dram_bits, expected.peak_bytes)
    assert found.objective_value == expected.objective_value
    assert found.latency_cycles == pytest.approx(expected.latency_cycles, rel=1e-12)
    assert {place: energy for place, energy in found.energies_pj.items() if energy} == pytest.approx(
        {place: energy for place, energy in expected.energies_pj.items() if energy}, rel=1e-12
    )
    assert found.energy_pj == pytest.approx(expected.energy_pj, rel=1e-12)


@pytest.mark.parametrize("seed", with_slow(STRATEGY_SEEDS, lambda seed: seed < 100 and seed % 5))
@pytest.mark.parametrize("conventions", [OURS, DEFINES])
def test_a_strategy_costs_in_the_verifier_what_the_cost_model_says(seed: int, conventions: Conventions) -> None:
    one = random_strategy(seed, conventions)
    objective = tuple(FusionObjective)[seed % 4]
    replayed = one.replayed(objective=objective)
    assert replayed.violations == ()
    assert replayed.figures is not None
    assert replayed.priced == len(one.strategy.mappings)
    assert_same(replayed.figures, one.figures(objective))


BUFFER = level("buffer", 8)
BARE = Accelerator("bare", (BUFFER.memory,), (BUFFER,))
"""A chip that states neither units nor DRAM."""


@pytest.mark.parametrize(
    ("serves", "array", "is_single"),
    [
        (None, ComputeArray({"K": 2, "C": 2}), True),
        (("K", "C"), ComputeArray({"K": 2, "C": 2}), True),
        (("K",), ComputeArray({"K": 2, "C": 2}), False),
        (None, None, True),
        ((), None, True),
    ],
)
def test_an_operand_lies_whole_where_one_instance_serves_all_units(
    serves: tuple[str, ...] | None, array: ComputeArray | None, is_single: bool
) -> None:
    accelerator = replace(BARE, levels=(replace(BUFFER, serves=serves),), array=array)
    places = ChipInUse(accelerator, {}).places(Operand.INPUT)
    assert places == (("buffer", DRAM) if is_single else (DRAM,))


@pytest.mark.parametrize("memory", ["buffer", DRAM])
def test_an_access_may_have_no_price(memory: str) -> None:
    chip = ChipInUse(replace(BARE, levels=(replace(BUFFER, access=None),)), {})
    assert chip.access(memory) is None


def test_a_chip_without_dram_has_no_port_to_it() -> None:
    assert ChipInUse(BARE, {}).port(DRAM, Direction.READ, towards_macs=True) is None


def test_ports_of_which_none_has_a_direction_are_an_error() -> None:
    chip = ChipInUse(machine(level("buffer", 8, ports=(Port(Direction.READ, 64),))), {})
    assert chip.port("buffer", Direction.READ, towards_macs=True) == (0, Port(Direction.READ, 64))
    with pytest.raises(AcceleratorError, match="no port can write"):
        chip.port("buffer", Direction.WRITE, towards_macs=True)


def test_groups_run_along_every_dimension_that_there_is() -> None:
    assert with_groups_along_all(BARE) == BARE
    wider = with_groups_along_all(replace(BARE, array=ComputeArray({"K": 2})))
    assert wider.array is not None
    assert wider.array.unrolls == {"K": ("K", "G")}


def test_a_mapping_by_which_many_tiles_run_is_priced_once() -> None:
    case = small_case(ONE)
    asked: list[LayerMapping] = []
    prices = tile_prices_by(INTERPRETER)

    def noting(problem: LayerProblem, mapping: LayerMapping) -> TilePrice:
        asked.append(mapping)
        return prices(problem, mapping)

    setting = StrategySetting(network_to_replay(case.network), case.chip, "energy", as_defines=False)
    assert replay_strategy(setting, case.strategy, noting).violations == ()
    assert len(asked) == len(case.strategy.mappings)


def test_a_mapping_that_another_one_stands_before_is_named_with_that_one() -> None:
    case = small_case(ONE)
    first, *others = case.strategy.mappings
    found = case.with_mappings(first, *others, first).replayed().violations
    assert [(one.rule, one.subject, one.detail) for one in found] == [
        (
            Rule.MAPPING_UNUSED,
            f"mapping {len(others) + 1}",
            f"mapping 0 is of the same loop nest of {first.names[0]!r}, homes and room",
        )
    ]


def test_maps_in_dram_take_nothing_of_any_memory() -> None:
    """A map of 2 channels of 6 x 6 elements of 8 bits takes room only in its home, and none in DRAM."""
    case = small_case(ONE, ONE)
    first, second = (layer.name for layer in case.network.layers)
    tiling = Tiling(3, 3, OverlapMode.RECOMPUTE)
    for home, taken in (("dram", {}), ("shared", {"shared": 2 * 6 * 6 * 8})):
        stacks = StackStrategy((first,), tiling, home), StackStrategy((second,), tiling)
        found = running_stacks(network_to_replay(case.network), FusionStrategy(stacks))
        assert [one.taken_bits for one in found] == [taken, taken]


def test_groups_are_those_of_the_tile() -> None:
    """A tile of 2 x 2 in 2 channels of 4 x 4 pixels has 8 elements, and 4 of a broadcast map of one channel."""
    source, target = MapInNetwork("x", 2, 4, 4, 8), MapInNetwork("y", 2, 4, 4, 8)
    for nest, in_tile in ((Layer(n=2, g=16), Layer(n=2, g=4)), (Layer(g=32), Layer(g=8))):
        layer = NestInNetwork("a", replace(nest, has_weight=False), (ReadInNetwork("x", ONE, ONE),), target, 0)
        down, across = (
            tiled_length(Axis1D((layer,), (source,), is_rows), 2, is_cached=False).strips[0]
            for is_rows in (True, False)
        )
        (part,) = stack_part((layer,), (source,), down, across).layers
        assert part.nest == replace(in_tile, has_weight=False)


def test_pixels_that_the_next_tile_sees_in_part_are_kept() -> None:
    """Two output pixels in a row read each input pixel.

    Input pixel 1 stays on chip: the first tile ends with one of its readers, and the second tile begins with the other.
    """
    source, target = MapInNetwork("x", 2, 3, 3, 8), MapInNetwork("y", 2, 6, 6, 8)
    twice = replace(ONE, repeat=2)
    layer = NestInNetwork("a", Layer(n=2, g=36, has_weight=False), (ReadInNetwork("x", twice, twice),), target, 0)
    assert tiled_length(Axis1D((layer,), (source,), is_rows=True), 3, is_cached=True).kept["x"] == 1


def test_a_layer_takes_the_channels_that_it_reads() -> None:
    source, target = MapInNetwork("x", 4, 2, 2, 8), MapInNetwork("y", 1, 2, 2, 8)
    layer = NestInNetwork("a", Layer(g=4, has_weight=False), (ReadInNetwork("x", ONE, ONE, channels=1),), target, 0)
    down, across = (
        tiled_length(Axis1D((layer,), (source,), is_rows), 2, is_cached=False).strips[0] for is_rows in (True, False)
    )
    ((seen,),) = (part.seen for part in stack_part((layer,), (source,), down, across).layers)
    assert (seen.elements, seen.taken, seen.new) == (16, 4, 4)


def test_a_layer_that_runs_alone_keeps_the_nest_of_its_whole_output() -> None:
    source, target = MapInNetwork("x", 2, 2, 3, 8), MapInNetwork("y", 2, 2, 3, 8)
    nest = Layer(n=6, k=2, c=2)
    layer = NestInNetwork("a", nest, (ReadInNetwork("x", ONE, ONE),), target, 32, runs_alone=True)
    down, across = (
        tiled_length(Axis1D((layer,), (source,), is_rows), size, is_cached=False).strips[0]
        for is_rows, size in ((True, 2), (False, 3))
    )
    (part,) = stack_part((layer,), (source,), down, across).layers
    assert part.nest == nest


@pytest.mark.parametrize("is_stated", [True, False])
def test_the_energy_of_a_strategy_includes_that_of_operators_outside_of_its_stacks(is_stated: bool) -> None:
    case, prices = small_case(ONE), tile_prices_by(INTERPRETER)
    network, chip = network_to_replay(case.network), case.chip
    assert chip.dram is not None
    chip = chip if is_stated else replace(chip, dram=replace(chip.dram, access=None))
    moved = StreamedOperator("s", ((Operand.INPUT, 80), (Operand.OUTPUT, 80)))
    found = [
        replay_strategy(StrategySetting(one, chip, "latency", as_defines=False), case.strategy, prices).figures
        for one in (network, replace(network, moved=(moved,)))
    ]
    alone, together = (one for one in found if one is not None)
    expense = expense_of_moving(moved, chip)
    assert together.latency_cycles == alone.latency_cycles + expense.cycles
    assert (together.macs, together.dram_bits) == (alone.macs, alone.dram_bits + 160)
    if not is_stated:
        assert alone.energy_pj is None
        assert together.energy_pj is None
        with pytest.raises(ValueError, match="energy"):
            replay_strategy(StrategySetting(network, chip, "energy", as_defines=False), case.strategy, prices)
    else:
        assert alone.energy_pj is not None
        assert expense.energies_pj is not None
        assert together.energy_pj == pytest.approx(alone.energy_pj + sum(expense.energies_pj.values()))


def test_a_part_of_a_map_from_outside_comes_nearer_as_an_input() -> None:
    """Four tiles each write 9 elements to a memory of inputs alone, and read one to be added in a nearer memory."""
    features = Operand.INPUT, Operand.OUTPUT
    chip = machine(
        level("weights", 64, Operand.WEIGHT),
        level("near", 4, *features),
        level("inputs", 16, Operand.INPUT),
        level("shared", 4096, *features),
    )
    stack = chain(4, Window(3, 1, 1, 0))
    (source,), (layer,) = stack.inputs, stack.layers
    network = FusableNetwork("small", stack.inputs, (layer, addition(source, layer.output, "sum")))
    names = (layer.name, "sum")
    strategy = FusionStrategy((StackStrategy(names, Tiling(1, 1, OverlapMode.RECOMPUTE)),))
    found = costed(network, chip, list(choices_of(network, strategy, spans_of(network, [names])))).replayed()
    assert found.figures is not None
    written_pj, read_pj = 9 * 8 / 16 * 2.0, 8 / 16 * 1.0
    assert found.figures.energies_pj["inputs", EnergyCause.COPY] == 4 * (written_pj + read_pj)


FEATURES = Operand.INPUT, Operand.OUTPUT
SEEN_AND_MADE, BESIDE, BELOW, IN_BOTH = 13, 6, 8, 4


def with_weight_bits(layer: FusableLayer, all_weights: int, each: int = 8) -> FusableLayer:
    return replace(layer, layer=replace(layer.layer, weight_bits=each), weight_bits=all_weights)


def tiled(chip: ChipInUse, mode: OverlapMode, layers: tuple[FusableLayer, ...]) -> TiledStackOnChip:
    inputs = chain(4, ONE).inputs
    network: FusedNetwork = network_to_replay(FusableNetwork("small", inputs, layers))
    names = tuple(layer.name for layer in layers)
    (stack,) = running_stacks(network, FusionStrategy((StackStrategy(names, Tiling(2, 2, mode)),)))
    return TiledStackOnChip(stack, chip)


def three_by_three(chip: ChipInUse, mode: OverlapMode, weight_bits: int = 72) -> TiledStackOnChip:
    (layer,) = chain(4, Window(3, 1, 1, 1)).layers
    return tiled(chip, mode, (with_weight_bits(layer, weight_bits),))


def chip_of(near: int, shared: int, taken_bits: int = 0) -> ChipInUse:
    """Return a chip with two memories of features of the given bytes; the larger one may hold weights, too."""
    levels = level("weights", 1, Operand.WEIGHT), level("near", near, *FEATURES), level("shared", shared)
    return ChipInUse(machine(*levels), {"near": taken_bits})


@pytest.mark.parametrize(("taken_bits", "place"), [(0, "near"), (1, "shared")])
def test_columns_are_cached_where_all_that_is_alive_fits_to_the_bit(taken_bits: int, place: str) -> None:
    chip = chip_of(SEEN_AND_MADE + BESIDE, 100, taken_bits)
    found = three_by_three(chip, OverlapMode.H_CACHED)
    assert {one.caches.columns_to for one in found.tiles()} == {None, place}


@pytest.mark.parametrize(("taken_bits", "place"), [(0, "near"), (1, "shared")])
def test_rows_are_cached_beside_columns_without_what_is_in_both(taken_bits: int, place: str) -> None:
    chip = chip_of(SEEN_AND_MADE + BESIDE + BELOW - IN_BOTH, 100, taken_bits)
    found = list(three_by_three(chip, OverlapMode.FULLY_CACHED).tiles())
    assert {one.caches.rows_to for one in found} == {None, place}
    assert {one.caches.columns_to for one in found} == {None, "near"}


@pytest.mark.parametrize(("more_bits", "place"), [(0, "shared"), (1, "dram")])
def test_rows_cached_apart_from_columns_leave_no_corner_to_weights(more_bits: int, place: str) -> None:
    """The shared memory has 30 bytes; live data and both caches take 27, and 24 bits are left."""
    chip = chip_of(SEEN_AND_MADE + BESIDE, SEEN_AND_MADE + BESIDE + BELOW + 3)
    found = three_by_three(chip, OverlapMode.FULLY_CACHED, 24 + more_bits)
    assert {one.caches.rows_to for one in found.tiles()} == {None, "shared"}
    assert found.weights() == (place,)


@pytest.mark.parametrize(("more_bits", "place"), [(0, "shared"), (1, "dram")])
def test_rows_cached_beside_columns_leave_the_corner_to_weights(more_bits: int, place: str) -> None:
    """The near memory is too small; the shared memory of 30 bytes holds the corner once, and 56 bits are left."""
    chip = chip_of(1, SEEN_AND_MADE + BESIDE + BELOW + 3)
    assert three_by_three(chip, OverlapMode.FULLY_CACHED, 56 + more_bits).weights() == (place,)


@pytest.mark.parametrize(("bits", "place"), [(64, "weights"), (65, "dram")])
def test_weights_that_stay_leave_room_for_the_widest_weight(bits: int, place: str) -> None:
    """The single unit has 80 bits; the second layer's weights take 16 and leave 64."""
    first, second = chain(4, ONE, ONE).layers
    chip = ChipInUse(machine(level("weights", 10, Operand.WEIGHT), level("near", 100, *FEATURES)), {})
    layers = with_weight_bits(first, bits), with_weight_bits(second, 320, 16)
    assert tiled(chip, OverlapMode.RECOMPUTE, layers).weights() == (place, "dram")


def test_a_map_that_no_layer_of_a_tile_reads_waits() -> None:
    """The tile has 5 waiting elements, 3 that a layer reads, and 2 that it makes."""
    unread, read, made = (MapInNetwork(name, 1, 1, size, 8) for name, size in (("z", 5), ("x", 3), ("y", 2)))
    nest = Layer(q=2)
    layer = LayerPart(
        0, NestInNetwork("a", nest, (), made, 8), nest, (SeenPart(read, 3, 3, 3, 0, 0),), ComputedPart(made, 2, 0, 0, 0)
    )
    loaded = ComputedPart(unread, 5, 0, 0, 0), ComputedPart(read, 3, 0, 0, 0)
    assert most_alive_bits(StackPart(loaded, (layer,)), {}) == 8 * (5 + 3 + 2)


PIXEL = Tiling(1, 1, OverlapMode.RECOMPUTE)
CHAIN = (LayerInNetwork("a", ("x",), "A", 4, 4, 64), LayerInNetwork("b", ("A",), "B", 4, 4, 64))
THREE = (*CHAIN, LayerInNetwork("c", ("B",), "C", 4, 4, 64))


def at_home(name: str) -> FusionStrategy:
    return FusionStrategy((StackStrategy(("a",), PIXEL, name), StackStrategy(("b",), PIXEL)))


def chip(level: MemoryLevel, array: ComputeArray | None) -> Accelerator:
    return Accelerator("chip", (SPARE.memory,), (level, SPARE), array=array)


SPARE = MemoryLevel(Memory("spare", 8), None, is_scratchpad=True)
ARRAY = ComputeArray({"K": 2, "OX": 2})


@pytest.mark.parametrize(
    ("serves", "array", "is_one"),
    [
        (None, None, True),
        (None, ARRAY, True),
        (("K", "OX"), ARRAY, True),
        (("K",), ARRAY, False),
        ((), ARRAY, False),
        ((), ComputeArray({"K": 1}, None), False),
    ],
)
def test_a_map_lies_where_one_instance_serves_the_array(
    serves: tuple[str, ...] | None, array: ComputeArray | None, is_one: bool
) -> None:
    machine = chip(MemoryLevel(Memory("buffer", 8), serves), array)
    found = verify_strategy(CHAIN, machine, at_home("buffer"))
    assert [(one.rule, one.subject) for one in found] == ([] if is_one else [(Rule.NOT_HELD, "buffer")])


@pytest.mark.parametrize("holds", [(Operand.INPUT,), (Operand.OUTPUT,), (Operand.WEIGHT,)])
def test_a_map_lies_where_inputs_and_outputs_may(holds: tuple[Operand, ...]) -> None:
    machine = chip(MemoryLevel(Memory("buffer", 8, holds=holds), None), ARRAY)
    (found,) = verify_strategy(CHAIN, machine, at_home("buffer"))
    assert (found.rule, found.detail) == (Rule.NOT_HELD, "'A' lies in it")
    both = chip(MemoryLevel(Memory("buffer", 8, holds=(Operand.INPUT, Operand.OUTPUT)), None), ARRAY)
    assert verify_strategy(CHAIN, both, at_home("buffer")) == ()


def test_what_is_wrong_is_said_with_names_and_numbers() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 7), None), ARRAY)
    (found,) = verify_strategy(CHAIN, machine, at_home("buffer"))
    assert (found.rule, found.subject) == (Rule.HOME_EXCEEDED, "buffer")
    assert found.detail == "64 bits in 56 while stack 0 runs"
    (found,) = verify_strategy(CHAIN, machine, at_home("cache"))
    assert (found.rule, found.subject, found.detail) == (Rule.NO_SUCH_HOME, "cache", "'A' lies in it")
    forked = (*CHAIN, LayerInNetwork("c", ("A", "B"), "C", 4, 4, 64))
    stacks = FusionStrategy((StackStrategy(("a", "b"), PIXEL), StackStrategy(("c",), PIXEL)))
    (found,) = verify_strategy(forked, machine, stacks)
    assert found.detail == "'c' reads 'A' outside the stack that ends with 'b'"
    swapped = FusionStrategy(tuple(StackStrategy((name,), PIXEL) for name in "cab"))
    assert [(one.subject, one.detail) for one in verify_strategy(THREE, machine, swapped)] == [
        ("a", "it runs after 'c'"),
        ("b", "it runs after 'c'"),
    ]
    tall = FusionStrategy((StackStrategy(("a",), replace(PIXEL, rows=5)), StackStrategy(("b",), PIXEL)))
    (found,) = verify_strategy(CHAIN, machine, tall)
    assert (found.subject, found.detail) == ("stack 0", "tiles of 1 x 5 in a map of 4 x 4")


@pytest.mark.parametrize(("capacity", "rules"), [(24, []), (16, [Rule.HOME_EXCEEDED]), (15, [Rule.HOME_EXCEEDED] * 2)])
def test_maps_take_room_until_their_last_reader_has_run(capacity: int, rules: list[Rule]) -> None:
    """A (8 bytes) and B live while b runs, A, B and C while c does, D and C while d does."""
    layers = (*CHAIN, LayerInNetwork("c", ("A",), "C", 4, 4, 64), LayerInNetwork("d", ("B", "C"), "D", 4, 4, 64))
    stacks = (*(StackStrategy((name,), PIXEL, "buffer") for name in "abc"), StackStrategy(("d",), PIXEL))
    machine = chip(MemoryLevel(Memory("buffer", capacity), None), ARRAY)
    found = verify_strategy(layers, machine, FusionStrategy(stacks))
    assert [one.rule for one in found] == rules


def test_a_map_that_nobody_reads_takes_room_while_it_is_written() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 7), None), ARRAY)
    stacks = StackStrategy(("a",), PIXEL), StackStrategy(("b",), PIXEL, "buffer")
    found = verify_strategy(CHAIN, machine, FusionStrategy(stacks))
    assert [one.rule for one in found] == [Rule.OUTPUT_NOT_IN_DRAM, Rule.HOME_EXCEEDED]


HOMES = ("buffer", "spare", "dram")


def test_a_map_in_another_memory_takes_no_room() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 8), None), ARRAY)
    stacks = tuple(StackStrategy((name,), PIXEL, home) for name, home in zip("abc", HOMES, strict=True))
    assert verify_strategy(THREE, machine, FusionStrategy(stacks)) == ()


def test_a_feasible_claim_may_have_any_bound_below_its_value() -> None:
    figures = StrategyFigures(1500, 1.5, 7.0, 3, 64)
    claim = Claim("exact", Status.FEASIBLE, "energy", 1500, 0, figures.named)
    assert verify_strategy_claim(claim, figures) == ()
    (found,) = verify_strategy_claim(replace(claim, status=Status.OPTIMAL), figures)
    assert (found.rule, found.detail) == (Rule.OPTIMAL_UNPROVEN, "0 with an objective value of 1500")


def test_what_costs_nothing_may_be_left_out_or_said() -> None:
    figures = StrategyFigures(1500, 1.5, 7.0, 3, 64, {("buffer", "copy"): 1.5, ("buffer", "input"): 0.0})
    claim = Claim("exact", Status.FEASIBLE, "energy", 1500, 0, figures.named)
    said = {name: one for name, one in figures.named.items() if not name.endswith("input")}
    assert verify_strategy_claim(replace(claim, figures=said), figures) == ()
    assert verify_strategy_claim(replace(claim, figures=said | {"energies_pj.buffer.weight": 0}), figures) == ()
    (found,) = verify_strategy_claim(replace(claim, figures=said | {"energies_pj.buffer.weight": 1}), figures)
    assert found.subject == "result.energies_pj.buffer.weight"


def test_operators_outside_are_those_of_the_network_each_once() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 64), None), None)
    stacks = at_home("buffer").stacks
    found = {
        outside: [
            (one.rule, one.subject)
            for one in verify_strategy(CHAIN, machine, FusionStrategy(stacks, (), outside), "st")
        ]
        for outside in (("s", "t"), ("s",), ("s", "t", "u"), ("s", "t", "s"), ())
    }
    missing = [(Rule.LAYER_MISSING, "s"), (Rule.LAYER_MISSING, "t")]
    twice = [(Rule.OUT_OF_ORDER, "s")] * 2
    unknown = [(Rule.UNKNOWN_LAYER, "u")]
    assert list(found.values()) == [[], missing[1:], unknown, twice, missing]


def test_a_layer_that_runs_alone_is_a_stack_in_one_tile() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 64), None), None)
    layers = (CHAIN[0], replace(CHAIN[1], runs_alone=True))
    whole = Tiling(4, 4, OverlapMode.RECOMPUTE)
    cuts = {
        "alone": (StackStrategy(("a",), PIXEL), StackStrategy(("b",), whole)),
        "in tiles": (StackStrategy(("a",), PIXEL), StackStrategy(("b",), replace(whole, rows=2))),
        "with another": (StackStrategy(("a", "b"), whole),),
    }
    found = {
        how: [(one.rule, one.subject) for one in verify_strategy(layers, machine, FusionStrategy(stacks))]
        for how, stacks in cuts.items()
    }
    rule = Rule.NOT_IN_TILES
    assert found == {"alone": [], "in tiles": [(rule, "stack 1")], "with another": [(rule, "stack 0")]}


@pytest.mark.parametrize("value", [2**63 + 1, 2**64 - 1, 10448572526032297360])
def test_a_value_of_more_than_63_bits_is_right_as_it_is_and_as_a_file_says_it(value: int) -> None:
    figures = StrategyFigures(value, 1.0, 1.0, 1, 1)
    for said in (value, float(value)):
        claim = Claim("exact", Status.FEASIBLE, "edp", said, 0, figures.named)
        assert verify_strategy_claim(claim, figures) == ()
    wrong = Claim("exact", Status.FEASIBLE, "edp", value + 2**20, 0, figures.named)
    assert [one.rule for one in verify_strategy_claim(wrong, figures)] == [Rule.FIGURE_DIFFERS]
