"""Cost of fused groups and of the copies between their tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import summed
from onchip.arch.memory import DRAM, Direction, Operand, Port
from onchip.errors import InputError
from onchip.ir.window import Window
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.cost import StackCost, stack_cost
from onchip.model.group.layers import MapCopy, copies_cost
from onchip.model.group.machine import FusedMachine, Mapper
from onchip.model.group.sums import FusedSums, total
from onchip.model.layer.cost import Latency, LayerCost
from onchip.ops.fusable import AxisName, FeatureMap, Stack, back_calculation
from support.fused import Noting, level, machine, plain, small_machine, split_machine
from support.series import in_one_test, series
from support.stacks import ONE, addition, chain, convolution, random_stack

# Total costs of stacks: sums, and values that they must equal


@dataclass(frozen=True, slots=True)
class NetworkCost:
    """Stacks in execution order; `homes` are the memories of feature maps between them that stay on the chip."""

    sums: FusedSums
    stacks: tuple[StackCost, ...]
    homes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Between:
    """A feature map that stack `writer` writes and `last_reader` is the last to read."""

    map: FeatureMap
    writer: int
    last_reader: int


def network_cost(
    stacks: Sequence[tuple[Stack, Tiling]],
    accelerator: Accelerator,
    mapper: Mapper,
    conventions: Conventions = OURS,
    homes: Mapping[str, str] | None = None,
) -> NetworkCost:
    """Return the cost; `homes` maps a feature map between stacks to its memory (DRAM if missing).

    None as `homes` chooses the lowest memory with capacity. Raises what `stack_cost` raises.
    """
    chosen = homes_between([stack for stack, _ in stacks], accelerator, conventions) if homes is None else homes
    between = _maps_between([stack for stack, _ in stacks])
    costs = []
    for number, (stack, tiling) in enumerate(stacks):
        read = {one.name for one in stack.inputs}
        resident: dict[str, int] = {}
        for one in between:
            memory = chosen.get(one.map.name, DRAM)
            if one.writer < number < one.last_reader and one.map.name not in read:
                resident[memory] = resident.get(memory, 0) + one.map.size_bits
        inputs = {name: memory for name, memory in chosen.items() if name in read}
        output = chosen.get(stack.output.name, DRAM)
        costs.append(stack_cost(stack, accelerator, tiling, mapper, conventions, inputs, output, resident))
    return NetworkCost(total(cost.sums for cost in costs), tuple(costs), chosen)


def homes_between(
    stacks: Sequence[Stack], accelerator: Accelerator, conventions: Conventions = OURS
) -> Mapping[str, str]:
    """Return each map's lowest memory with capacity next to the maps before it, by name; maps in DRAM are omitted.

    An output of the network is in DRAM, whoever reads it.
    """
    if conventions.maps_between_stacks_are_in_dram:
        return {}
    machine = FusedMachine(accelerator, conventions.levels_are_skipped)
    placed: list[tuple[_Between, str]] = []
    for one in _maps_between(stacks):
        if stacks[one.writer].ends_in_output:
            continue
        for memory in machine.places_of_caches:
            beside = [other for other, place in placed if place == memory and other.last_reader >= one.writer]
            if sum(other.map.size_bits for other in beside) + one.map.size_bits <= machine.room_bits(memory):
                placed.append((one, memory))
                break
    return {one.map.name: memory for one, memory in placed if memory != DRAM}


def _maps_between(stacks: Sequence[Stack]) -> list[_Between]:
    """Return the maps between stacks in the order in which they are written."""
    last_readers = {one.name: number for number, stack in enumerate(stacks) for one in stack.inputs}
    return [
        _Between(stack.output, number, last_readers[stack.output.name])
        for number, stack in enumerate(stacks)
        if last_readers.get(stack.output.name, -1) > number
    ]


WINDOW = Window(3, 1, 1, 1)
PLAIN = cache(plain)
RECOMPUTE, FULLY_CACHED = OverlapMode.RECOMPUTE, OverlapMode.FULLY_CACHED


def random_cost(seed: int, conventions: Conventions = OURS) -> tuple[Stack, Tiling, StackCost]:
    """Return a random stack and tiling in which every tile reads input, with its cost."""
    random = Random(seed)
    accelerator = small_machine(random.choice((64, 256, 1024)), random.choice((512, 4096)))
    while True:
        stack = random_stack(random.randrange(1 << 30))
        tiling = Tiling(
            random.randint(1, stack.output.columns),
            random.randint(1, stack.output.rows),
            random.choice(list(OverlapMode)),
        )
        try:
            return stack, tiling, stack_cost(stack, accelerator, tiling, PLAIN, conventions)
        except InputError as error:
            if "padding" not in str(error):
                raise


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_energy_is_the_sum_of_its_parts(seed: int) -> None:
    _, _, found = random_cost(seed)
    assert found.sums.energy_pj == pytest.approx(summed(map(found.sums.energy_of, EnergyCause)))
    assert found.sums.energy_pj == pytest.approx(sum(one.times * one.sums.energy_pj for one in found.placed))
    assert found.sums.cycles == pytest.approx(sum(one.times * one.sums.cycles for one in found.placed))
    assert found.sums.energy_of(EnergyCause.MAC) == pytest.approx(0.5 * found.sums.macs)


@in_one_test("seed", range(40))
def test_every_pixel_of_the_output_is_in_one_tile(seed: int) -> None:
    stack, tiling, found = random_cost(seed)
    assert sum(one.times * one.rows * one.columns for one in found.placed) == stack.output.rows * stack.output.columns
    assert found.tiles == -(-stack.output.rows // tiling.rows) * -(-stack.output.columns // tiling.columns)
    assert sum(one.times for one in found.placed if one.is_first_tile) == 1


@in_one_test("seed", range(40))
def test_dram_gives_every_pixel_that_a_tile_computes_of_the_input_and_takes_the_output_once(seed: int) -> None:
    """The counts are those of single pixels along both axes; the input is small, so no layer reads it from DRAM."""
    stack, tiling, found = random_cost(seed)
    mode = tiling.mode
    down = back_calculation(stack, AxisName.ROWS, tiling.rows, cached=mode.caches_rows)
    across = back_calculation(stack, AxisName.COLUMNS, tiling.columns, cached=mode.caches_columns)
    (source,) = stack.inputs
    loaded = down.maps[source.name].computed.lengths.sum() * across.maps[source.name].computed.lengths.sum()
    taken = found.sums.accesses[DRAM, "input", EnergyCause.COPY]
    if all(layer.levels.input != DRAM for one in found.placed for layer in one.layers):
        assert taken == loaded * source.channels
    written = found.sums.accesses[DRAM, "output", EnergyCause.ACTIVATION]
    assert written >= stack.output.rows * stack.output.columns * stack.output.channels


@in_one_test("seed", range(40))
def test_tiles_costed_one_by_one_cost_the_same(seed: int) -> None:
    """The test costs each layer of each tile by the pixels and zeros of that tile, without classes of tiles."""
    stack, tiling, found = random_cost(seed)
    mode = tiling.mode
    down = back_calculation(stack, AxisName.ROWS, tiling.rows, cached=mode.caches_rows)
    across = back_calculation(stack, AxisName.COLUMNS, tiling.columns, cached=mode.caches_columns)
    asked: Counter[tuple[str, int, int]] = Counter()
    for row in range(len(down.maps[stack.output.name].computed.stops)):
        for column in range(len(across.maps[stack.output.name].computed.stops)):
            for layer in stack.layers:
                height = int(down.maps[layer.output.name].computed.lengths[row])
                width = int(across.maps[layer.output.name].computed.lengths[column])
                if height and width:
                    asked[layer.name, height, width] += 1
    counted: Counter[tuple[str, int, int]] = Counter()
    for one in found.placed:
        for layer_in_tile in one.layers:
            counted[layer_in_tile.name, layer_in_tile.rows, layer_in_tile.columns] += one.times
    assert counted == asked


def test_a_layer_alone_in_one_tile_costs_what_its_mapping_does() -> None:
    """Only DRAM has room for the input, so no copy is made."""
    stack, accelerator = chain(16, WINDOW), small_machine(8, 32)
    found = stack_cost(stack, accelerator, Tiling(16, 16, RECOMPUTE), plain).sums
    alone = plain(LayerProblem(replace(stack.layers[0].layer, padding=(1, 1, 1, 1)), accelerator))
    assert alone is not None
    assert found.energy_pj == pytest.approx(alone.energy_pj)
    assert found.cycles == alone.cycles
    assert found.energy_of(EnergyCause.COPY) == 0


@pytest.mark.parametrize("conventions", [OURS, DEFINES])
def test_layer_by_layer_all_modes_cost_the_same(conventions: Conventions) -> None:
    stack = chain(12, WINDOW, Window(3, 2, 1, 1))
    whole = {mode: stack_cost(stack, small_machine(), Tiling(6, 6, mode), PLAIN, conventions) for mode in OverlapMode}
    assert len({one.sums.energy_pj for one in whole.values()}) == 1
    assert whole[RECOMPUTE].sums.macs == sum(layer.layer.macs for layer in stack.layers)
    assert whole[RECOMPUTE].tile_types == 1


@in_one_test("seed", range(30))
def test_with_both_caches_nothing_is_computed_twice(seed: int) -> None:
    random = Random(seed)
    stack = random_stack(seed)
    whole = Tiling(stack.output.columns, stack.output.rows, RECOMPUTE)
    tiling = Tiling(random.randint(1, stack.output.columns), random.randint(1, stack.output.rows), FULLY_CACHED)
    try:
        once, tiled = (stack_cost(stack, small_machine(), one, Noting()) for one in (whole, tiling))
    except InputError:
        return
    assert tiled.sums.macs == once.sums.macs


def test_a_mapper_is_asked_once_for_equal_layers_on_equal_machines() -> None:
    noting = Noting()
    mapper = cache(noting)
    stack = chain(16, WINDOW, WINDOW)
    for mode in OverlapMode:
        stack_cost(stack, small_machine(), Tiling(4, 4, mode), mapper)
    assert len(set(noting.asked)) == len(noting.asked) < 3 * 16 * 2


def test_the_second_operand_of_an_addition_is_an_activation() -> None:
    source = FeatureMap("in", 1, 4, 4)
    through = convolution(source, "through", WINDOW, WINDOW, 1)
    stack = Stack((source,), (through, addition(through.output, source, "sum")))
    found = stack_cost(stack, small_machine(), Tiling(4, 4, RECOMPUTE), plain).sums
    assert found.accesses["local", "weight", EnergyCause.ACTIVATION] == 16
    assert {memory for memory, _, cause in found.accesses if cause is EnergyCause.WEIGHT} == {"weights", DRAM}


def test_stored_padding_is_read_and_takes_room() -> None:
    stack = chain(6, WINDOW)
    found = {
        stored: stack_cost(
            stack, small_machine(), Tiling(6, 6, RECOMPUTE), plain, Conventions(padding_is_stored=stored)
        ).sums
        for stored in (False, True)
    }
    reads = {stored: one.accesses["local", "input", EnergyCause.ACTIVATION] for stored, one in found.items()}
    assert reads[True] == 9 * 36
    assert reads[False] == (6 * 3 - 2) ** 2


def test_offloading_may_be_left_out_of_the_latency() -> None:
    def mapper(problem: LayerProblem) -> LayerCost:
        return LayerCost(LayerMapping(()), problem.layer.macs, (), {}, 0.0, Latency(4.0, 3.0, 2, 7.0, 5.0, 1), 1)

    latencies = [
        stack_cost(chain(4, ONE), small_machine(8, 8), Tiling(4, 4, RECOMPUTE), mapper, one).sums.latency
        for one in (OURS, Conventions(offloading_is_free=True))
    ]
    assert [one.preparation for one in latencies] == [12.0, 7.0]
    assert [one.total for one in latencies] == [22.0, 17.0]


def test_a_network_costs_the_sum_of_its_stacks() -> None:
    stacks = two_stacks()
    tiling = Tiling(4, 4, FULLY_CACHED)
    found = network_cost([(one, tiling) for one in stacks], small_machine(), PLAIN, DEFINES)
    alone = [stack_cost(one, small_machine(), tiling, PLAIN, DEFINES).sums for one in stacks]
    assert found.homes == {}
    assert found.sums.energy_pj == pytest.approx(sum(one.energy_pj for one in alone))
    assert found.sums.macs == sum(one.macs for one in alone)


def test_a_map_between_stacks_stays_on_the_chip() -> None:
    """The local buffer is too small for 8 x 8 pixels, the global one is not: DRAM keeps only the first and last map."""
    first, last = two_stacks()
    tiling = Tiling(8, 8, FULLY_CACHED)
    found = network_cost([(first, tiling), (last, tiling)], small_machine(32), PLAIN)
    assert found.homes == {"m1": "global"}
    features = [
        count for (memory, operand, _), count in found.sums.accesses.items() if memory == DRAM and operand != "weight"
    ]
    assert sum(features) == 64 + 64


def test_maps_between_stacks_share_a_memory_while_both_are_alive() -> None:
    """The maps have 64 bytes: the second map is written while the first still waits for the last stack."""
    source = FeatureMap("in", 1, 8, 8)
    one, two = convolution(source, "one", ONE, ONE, 1), convolution(FeatureMap("one", 1, 8, 8), "two", ONE, ONE, 1)
    add = addition(two.output, one.output, "sum")
    stacks = [Stack((source,), (one,)), Stack((one.output,), (two,)), Stack((two.output, one.output), (add,))]
    assert homes_between(stacks, small_machine(64, 64)) == {"one": "local", "two": "global"}
    assert homes_between(stacks, small_machine(128, 64)) == {"one": "local", "two": "local"}
    assert homes_between(stacks, small_machine(63, 64)) == {"one": "global"}
    assert homes_between(stacks, small_machine(128, 64), Conventions(maps_between_stacks_are_in_dram=True)) == {}


def test_an_output_of_the_network_that_is_read_is_in_dram() -> None:
    """The output takes no room from the next map."""
    whole = chain(8, ONE, ONE, ONE)
    maps = (*whole.inputs, *(layer.output for layer in whole.layers))
    stacks = [Stack((source,), (layer,)) for source, layer in zip(maps, whole.layers, strict=False)]
    stacks[0] = replace(stacks[0], ends_in_output=True)
    assert homes_between(stacks, small_machine(64, 64)) == {"m2": "local"}


def test_a_map_and_the_one_made_from_it_do_not_share_room() -> None:
    whole = chain(8, ONE, ONE, ONE)
    maps = (*whole.inputs, *(layer.output for layer in whole.layers))
    stacks = [Stack((source,), (layer,)) for source, layer in zip(maps, whole.layers, strict=False)]
    assert homes_between(stacks, small_machine(64, 64)) == {"m1": "local", "m2": "global"}


def test_what_waits_for_a_later_stack_takes_room_meanwhile() -> None:
    source = FeatureMap("in", 1, 8, 8)
    one, two = convolution(source, "one", ONE, ONE, 1), convolution(FeatureMap("one", 1, 8, 8), "two", ONE, ONE, 1)
    three = convolution(two.output, "three", ONE, ONE, 1)
    add = addition(three.output, one.output, "sum")
    parts = [((source,), one), ((one.output,), two), ((two.output,), three), ((three.output, one.output), add)]
    noting = Noting()
    stacks = [(Stack(inputs, (layer,)), Tiling(8, 8, RECOMPUTE)) for inputs, layer in parts]
    network_cost(stacks, small_machine(32), noting, homes={"one": "global"})
    rooms = [one.usable_bits("global") // 8 for one in noting.asked]
    assert rooms == [1024, 1024, 1024 - 64, 1024]


def test_an_unread_home_is_refused() -> None:
    with pytest.raises(InputError, match="home of 'm1': the stack does not read it from outside"):
        stack_cost(chain(4, ONE), small_machine(), Tiling(4, 4, RECOMPUTE), plain, input_homes={"m1": "global"})


def two_stacks() -> tuple[Stack, Stack]:
    whole = chain(8, ONE, ONE)
    return Stack(whole.inputs, whole.layers[:1]), Stack((whole.layers[0].output,), whole.layers[1:])


def test_sums_in_the_making_are_as_wide_in_dram_as_they_are() -> None:
    """The 8 outputs of two products have 16 sums of 16 bits (once taken for 8), all written and 8 read again."""
    stack = chain(2, ONE, channels=2)
    (one,) = stack.layers
    wide = replace(one, layer=replace(one.layer, partial_bits=16))
    tiling = Tiling(2, 2, RECOMPUTE)
    found = [stack_cost(replace(stack, layers=(layer,)), small_machine(), tiling, PLAIN).sums for layer in (one, wide)]
    assert [sums.accesses[DRAM, "output", EnergyCause.ACTIVATION] for sums in found] == [24, 24]
    assert found[1].moved_bits[DRAM] - found[0].moved_bits[DRAM] == 24 * (16 - one.layer.partial_bits)


INPUT, OUTPUT = Operand.INPUT, Operand.OUTPUT


def moved(*copies: MapCopy, on: str = "small") -> list[tuple[str, str, str]]:
    accelerator = split_machine() if on == "split" else small_machine()
    return [(one.memory, one.operand, one.move) for one, _ in copies_cost(copies, accelerator).accesses]


def test_a_copy_passes_every_memory_between() -> None:
    """Ten bytes take 5 accesses of 16 bits at each end of each hop."""
    found = copies_cost([MapCopy(10, 8, DRAM, INPUT, "local", INPUT)], small_machine())
    assert [(one.memory, one.move, energy) for one, energy in found.accesses] == [
        (DRAM, "read for below", 500.0),
        ("global", "write from above", 40.0),
        ("global", "read for below", 20.0),
        ("local", "write from above", 10.0),
    ]


def test_hops_follow_each_other_at_the_pace_of_the_slower_end() -> None:
    """80 bits take 5 cycles out of DRAM, 3 into the local buffer."""
    assert copies_cost([MapCopy(10, 8, DRAM, INPUT, "local", INPUT)], small_machine()).cycles == 5 + 3


def test_outputs_become_inputs_in_the_lowest_memory_that_both_share() -> None:
    assert moved(MapCopy(8, 8, "out", OUTPUT, "in", INPUT), on="split") == [
        ("out", "output", "read for above"),
        ("shared", "output", "write from below"),
        ("shared", "input", "read for below"),
        ("in", "input", "write from above"),
    ]


def test_what_lies_where_it_is_wanted_costs_nothing() -> None:
    assert moved(MapCopy(8, 8, "local", OUTPUT, "local", INPUT)) == []


def test_outputs_in_a_shared_memory_are_inputs_there() -> None:
    assert moved(MapCopy(8, 8, "global", OUTPUT, "local", INPUT)) == [
        ("global", "input", "read for below"),
        ("local", "input", "write from above"),
    ]


def test_outputs_rise_as_outputs() -> None:
    assert moved(MapCopy(8, 8, "local", OUTPUT, "global", OUTPUT)) == [
        ("local", "output", "read for above"),
        ("global", "output", "write from below"),
    ]


def test_copies_over_one_port_wait_for_each_other() -> None:
    up = MapCopy(8, 8, "local", OUTPUT, "global", OUTPUT)
    alone = copies_cost([up], small_machine()).cycles
    assert copies_cost([up, up], small_machine()).cycles == 2 * alone


def test_a_port_that_begins_late_has_all_its_work_still_before_it() -> None:
    """The local buffer starts at the fifth cycle and takes three cycles for each of two copies: eleven, not eight."""
    down = MapCopy(10, 8, DRAM, INPUT, "local", INPUT)
    assert copies_cost([down, down], small_machine()).cycles == 5 + 2 * 3


def test_copies_over_different_ports_run_side_by_side() -> None:
    down, up = MapCopy(8, 8, "global", INPUT, "local", INPUT), MapCopy(8, 8, "local", OUTPUT, "global", OUTPUT)
    assert copies_cost([down, up], small_machine()).cycles == copies_cost([down], small_machine()).cycles == 2


def test_a_port_that_reads_and_writes_does_one_of_both() -> None:
    ports = (Port(Direction.READ_WRITE, 32),)
    both = machine(level("a", 64, pj=1.0, ports=ports), level("b", 64, pj=1.0, ports=ports))
    down, up = MapCopy(8, 8, "b", INPUT, "a", INPUT), MapCopy(8, 8, "a", OUTPUT, "b", OUTPUT)
    assert copies_cost([down, up], both).cycles == 4


@in_one_test("seed", range(100))
def test_together_copies_cost_the_energy_of_each_and_no_more_time(seed: int) -> None:
    random = Random(seed)
    accelerator = small_machine()
    copies = [
        MapCopy(random.randint(1, 40), 8, source, INPUT, target, INPUT)
        for source, target in (random.sample(("local", "global", DRAM), 2) for _ in range(random.randint(1, 4)))
    ]
    alone = [copies_cost([copy], accelerator) for copy in copies]
    found = copies_cost(copies, accelerator)
    assert sum(energy or 0.0 for _, energy in found.accesses) == sum(
        energy or 0.0 for one in alone for _, energy in one.accesses
    )
    assert max(one.cycles for one in alone) <= found.cycles <= sum(one.cycles for one in alone)
