"""Residencies of a schedule: by label setting, from a plan, and their offsets."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, product

import pytest

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.problem import Count, Order, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.spill.exact import solve_exactly
from onchip.scheduling.fronts.stack_front import IN_DRAM, StackDemand, StackOption, StackPrices
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.moves.residency_path import CheapestWay, FusedStep, ResidencyPath
from onchip.scheduling.program.addresses import (
    AddressSpace,
    BytesInMemory,
    NoOffsetsError,
    largest_gaps,
    offsets_of,
    packed,
    placed_in_order,
    placed_where_free_longest,
)
from onchip.scheduling.program.composition import Composer, Composition, NoMappingError
from onchip.scheduling.program.movements import OnChip
from onchip.scheduling.program.places import Places, StackPlaces, planned_start, start_of_plan
from onchip.scheduling.program.runs import TiledNetwork
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.tiled import tile_graph
from scheduling.test_schedule_moves import assert_legal, is_topological, maker, some_network
from support.series import series
from support.small_schedules import PRECISION, skip_chip, skip_network

WIDE = 1000


def sums(chance: random.Random, count: int) -> Graph:
    """Return sums of one or two earlier maps of different sizes, read by softmaxes or sums."""
    names, operators = ["x"], list[Operator]()
    for at in range(count):
        inputs = tuple(chance.sample(names, min(len(names), chance.randint(1, 2))))
        operators.append(Operator(f"op{at}", ("Softmax", "Add")[len(inputs) - 1], inputs, (f"m{at}",)))
        names.append(f"m{at}")
    read = {name for one in operators for name in one.inputs}
    roles = {name: Role.ACTIVATION if name in read else Role.OUTPUT for name in names} | {"x": Role.INPUT}
    return Graph("sums", tuple(Tensor.of_shape(name, (1, 1, 1, 4), 8, roles[name]) for name in names), tuple(operators))


def composer_of(network: Graph, near_bytes: int, far_bytes: int) -> Composer:
    stacks = tuple(ScheduledStack((one.name,)) for one in network.operators)
    chip = skip_chip(near_bytes, far_bytes)
    mappings = KnownMappings(BestMapper(chip, MappingObjective.ENERGY, Run()))
    return Composer(stacks, TiledNetwork.of(tile_graph(network, stacks, PRECISION)), chip, mappings)


def test_a_whole_result_takes_the_bytes_of_a_whole_input_but_not_those_of_bands() -> None:
    names = {"x": Role.INPUT, "m": Role.ACTIVATION, "y": Role.OUTPUT}
    tensors = tuple(Tensor.of_shape(name, (1, 1, 1, 4), 8, role) for name, role in names.items())
    operators = (Operator("one", "Softmax", ("x",), ("m",)), Operator("two", "Softmax", ("m",), ("y",)))
    composer = composer_of(Graph("softmaxes", tensors, operators), 1, 7)
    places = StackPlaces(frozenset({("m", "far")}), frozenset({("y", "far")}))
    whole, bands = (frozenset({("m", True, ("far",), is_in_bands)}) for is_in_bands in (False, True))
    assert Allocate("y", "far", 0) in composer.continued(1, places, whole).movements.instructions
    with pytest.raises(NoMappingError, match="needs 4 bytes"):
        composer.continued(1, places, bands)


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))


def every_place(network: Graph, at: int, memory: str) -> list[StackPlaces]:
    """Return all places of an operator with one memory, and all sets of its tensors that may leave behind it."""
    operator = network.operators[at]
    names = [*operator.inputs, *operator.outputs]
    read_later = {name for one in network.operators[at + 1 :] for name in one.inputs}
    return [
        StackPlaces(
            frozenset((name, memory) for name in on_chip if name in operator.inputs),
            frozenset((name, memory) for name in on_chip if name in operator.outputs),
            frozenset(),
            frozenset(leaving),
        )
        for on_chip in subsets(names)
        for leaving in subsets([name for name in names if name in read_later])
    ]


def composed(composer: Composer, places: Places) -> Composition | None:
    try:
        return composer.composed(places)
    except NoMappingError:
        return None


@pytest.mark.parametrize("objective", [ScheduleObjective.ENERGY, ScheduleObjective.TRAFFIC])
@pytest.mark.parametrize("seed", series(range(8), 2))
def test_no_places_are_cheaper_than_those_of_the_path(seed: int, objective: ScheduleObjective) -> None:
    chance = random.Random(seed)
    network = sums(chance, 2 if seed % 2 else 3)
    composer = composer_of(network, 1, chance.choice((8, 10, 12, 16)))

    places = ResidencyPath(composer, StackPrices(objective), WIDE).found(Places(), Run())

    options = [every_place(network, at, "far") for at in range(len(network.operators))]
    tried = (composed(composer, Places.of_stacks(one)) for one in product(*options))
    values = [(one.energy_fj, one.traffic_bytes) for one in tried if one is not None]
    assert places is not None
    path = composer.composed(places)
    at = 0 if objective is ScheduleObjective.ENERGY else 1
    assert (path.energy_fj, path.traffic_bytes)[at] == min(one[at] for one in values)


@pytest.mark.parametrize("width", [1, 2, 8])
def test_more_labels_never_cost_more_on_a_skip_connection(width: int) -> None:
    composer = composer_of(skip_network(), 60, 200)
    prices = StackPrices(ScheduleObjective.ENERGY)
    some, more = (ResidencyPath(composer, prices, one).found(Places(), Run()) for one in (width, WIDE))
    assert some is not None
    assert more is not None
    assert composer.composed(more).energy_fj <= composer.composed(some).energy_fj


def test_a_search_without_time_keeps_the_given_places() -> None:
    composer = composer_of(skip_network(), 60, 200)
    given = Places({(1, "a"): "far"}, {(0, "a"): "far"})
    path = ResidencyPath(composer, StackPrices(ScheduleObjective.ENERGY), 8)
    assert path.found(given, Run(Limits(0.0))) == given
    composer.run = Run(Limits(0.0))
    assert path.found(given, Run()) is None


@pytest.mark.parametrize("seed", series(range(40), 10))
def test_a_group_lies_on_the_way_if_that_is_cheaper(seed: int) -> None:
    """The group replaces the first two operators, and leaves all maps in DRAM."""
    chance = random.Random(seed)
    composer = composer_of(sums(chance, 4), 1, chance.choice((8, 10, 12, 16)))
    path = ResidencyPath(composer, StackPrices(ScheduleObjective.TRAFFIC), WIDE)
    group = ScheduledStack(("op0", "op1"), Tiling(1, 1, OverlapMode.RECOMPUTE))

    def way(traffic_bytes: int | None) -> CheapestWay:
        def groups(at: int, _: OnChip) -> list[FusedStep]:
            if at or traffic_bytes is None:
                return []
            option = StackOption(group, Places(), StackDemand({}, traffic_bytes, 0, 0))
            return [FusedStep(2, frozenset(), option, IN_DRAM)]

        found = path.found_with_groups(Places(), Run(), groups)
        assert found is not None
        assert bool(found.fused) == (group in found.stacks)
        assert found.price[2] == found.price[0]
        return found

    alone, free = way(None), way(0)
    for traffic_bytes in range(0, 100, 7):
        found = way(traffic_bytes)
        assert found.price[0] == min(alone.price[0], free.price[0] + traffic_bytes)
        if found.price[0] != alone.price[0]:
            assert found.fused


def one_memory(capacity_bytes: int) -> Accelerator:
    """Return a chip whose only addressed memory has `capacity_bytes` bytes."""
    chip = skip_chip(1, capacity_bytes)
    return replace(chip, levels=chip.levels[1:])


def some_case(chance: random.Random) -> tuple[Graph, Accelerator]:
    """Return a network of sums and softmaxes of four bytes each, and a chip with room for three to five maps."""
    return some_network(chance, chance.randint(4, 8)), one_memory(chance.choice((12, 14, 16, 20)))


@pytest.mark.parametrize("seed", series(range(80), 25))
def test_places_replay_the_traffic_of_the_plan(seed: int) -> None:
    network, accelerator = some_case(random.Random(seed))
    problem = Problem(network, accelerator.scratchpads, order=Order.FREE, count=Count.ALL)
    spilled = solve_exactly(problem, Run()).objective_value
    moved_once = sum(one.size_bytes for one in network.tensors if one.role is not Role.ACTIVATION)
    start = planned_start(network, accelerator, Run())
    assert start is not None
    assert is_topological(network, start.order)

    attempt = maker(network, accelerator).made([ScheduledStack((name,)) for name in start.order], start.places)

    found = attempt.found()
    assert spilled is not None
    assert found.figures.traffic_bytes == moved_once + spilled
    assert_legal(network, accelerator, found)


def test_some_of_the_plans_evict() -> None:
    starts = [planned_start(*some_case(random.Random(seed)), Run()) for seed in range(25)]
    assert sum(one is not None and bool(one.places.leaving) for one in starts) >= 3


def test_places_are_where_operands_lie_while_their_operator_runs() -> None:
    network, memory = skip_network(), skip_chip().scratchpads[0]
    plan = Plan(
        (memory,),
        (
            *(Allocate("x", "far", 0), Copy("x", DRAM, "far"), Allocate("w0", "far", 32), Copy("w0", DRAM, "far")),
            *(Allocate("a", "far", 68), Compute("first"), Free("x", "far"), Free("w0", "far")),
            *(Copy("a", "far", DRAM), Free("a", "far"), Allocate("a", "far", 0), Copy("a", DRAM, "far")),
            *(Allocate("w1", "far", 32), Copy("w1", DRAM, "far"), Allocate("b", "far", 68), Compute("second")),
            *(Free("w1", "far"), Allocate("c", "far", 32), Compute("add"), Free("a", "far"), Free("b", "far")),
            *(Allocate("y", "far", 0), Compute("soft"), Copy("y", "far", DRAM), Free("y", "far"), Free("c", "far")),
        ),
    )

    start = start_of_plan(plan, network)

    operands = (("x", "w0"), ("a", "w1"), ("a", "b"), ("c",))
    assert start.order == ("first", "second", "add", "soft")
    assert start.places == Places(
        {(at, name): "far" for at, names in enumerate(operands) for name in names},
        dict.fromkeys(enumerate("abcy"), "far"),
        {},
        frozenset({(0, "a")}),
    )


def test_there_is_no_start_if_an_operator_does_not_fit() -> None:
    assert planned_start(skip_network(), one_memory(95), Run()) is None
    assert planned_start(skip_network(), one_memory(400), Run()) is not None


@pytest.mark.parametrize("seed", series(range(60), 20))
def test_residents_never_overlap_and_find_every_gap(seed: int) -> None:
    chance = random.Random(seed)
    memory = Memory("sram", chance.choice((7, 16, 50, 200)), chance.choice((1, 1, 2, 4)))
    space = AddressSpace(memory)
    residents: dict[str, tuple[int, int]] = {}
    for turn in range(200):
        if residents and chance.random() < 0.45:
            name = chance.choice(list(residents))
            space.give_back(name)
            del residents[name]
        else:
            size = chance.randint(1, 20)
            offset = space.take(f"t{turn}", size)
            free = [one for one in places(memory, size) if is_free(residents.values(), one, size)]
            assert (offset is None) is (not free)
            if offset is not None:
                assert offset in free
                residents[f"t{turn}"] = offset, offset + size
        assert space.free_below == min((begin for begin, _ in residents.values()), default=memory.capacity_bytes)


def places(memory: Memory, size: int) -> range:
    return range(0, memory.capacity_bytes - size + 1, memory.alignment_bytes)


def is_free(residents: Iterable[tuple[int, int]], offset: int, size: int) -> bool:
    return all(offset + size <= begin or end <= offset for begin, end in residents)


def test_a_resident_lies_in_the_tightest_gap_and_else_below_all() -> None:
    space = AddressSpace(Memory("sram", 100))
    for name, size in (("a", 10), ("b", 30), ("c", 10), ("d", 20), ("e", 5)):
        space.take(name, size)
    space.give_back("b")
    space.give_back("d")

    assert space.take("f", 15) == 35  # in the gap of d, of 20 bytes, and not in that of b
    assert space.take("g", 28) == 62  # in that of b
    assert space.take("h", 25) == 0  # below all
    assert space.take("i", 25) is None


def some_residencies(chance: random.Random, count: int, largest: int) -> list[BytesInMemory]:
    """Return residencies that begin one after the other, as Allocates do."""
    begins = sorted(chance.sample(range(3 * count), count))
    lives = [(at, at + chance.randint(1, 2 * count), f"t{at}", chance.randint(1, largest)) for at in begins]
    return [BytesInMemory(*life) for life in lives]


def is_packed(memory: Memory, residencies: Sequence[BytesInMemory], offsets: Mapping[int, int]) -> bool:
    """Return True if the residencies are aligned, within the capacity, and disjoint in time or in space."""
    for number, one in enumerate(residencies):
        offset = offsets[one.at]
        if offset not in places(memory, one.size_bytes):
            return False
        together = [other for other in residencies[:number] if one.at < other.until and other.at < one.until]
        taken = [(offsets[other.at], offsets[other.at] + other.size_bytes) for other in together]
        if not is_free(taken, offset, one.size_bytes):
            return False
    return True


def has_offsets(memory: Memory, residencies: Sequence[BytesInMemory], placed: dict[int, int]) -> bool:
    """Return True if offsets of all residencies form a packing, by brute force over all offsets."""
    if len(placed) == len(residencies):
        return True
    one = residencies[len(placed)]
    for offset in places(memory, one.size_bytes):
        placed[one.at] = offset
        own = residencies[: len(placed)]
        if is_packed(memory, own, placed) and has_offsets(memory, residencies, placed):
            return True
        del placed[one.at]
    return False


@pytest.mark.parametrize("seed", series(range(300), 60))
def test_residencies_get_offsets_if_there_are_any(seed: int) -> None:
    chance = random.Random(seed)
    memory = Memory("sram", chance.choice((5, 8, 12)), chance.choice((1, 1, 2)))
    residencies = some_residencies(chance, chance.randint(1, 6), 5)

    ways = (placed_where_free_longest, packed)
    for offsets in (way(memory, residencies) for way in ways):
        assert offsets is None or is_packed(memory, residencies, offsets)
    in_order = placed_in_order(memory, residencies)
    assert is_packed(memory, residencies[: len(in_order)], in_order)
    for is_timed in (False, True):
        if has_offsets(memory, residencies, {}):
            assert is_packed(memory, residencies, offsets_of([memory], {"sram": residencies}, is_timed=is_timed))
        else:
            with pytest.raises(NoOffsetsError) as error:
                offsets_of([memory], {"sram": residencies}, is_timed=is_timed)
            assert error.value.at == residencies[len(in_order)].at


def test_bytes_that_were_free_first_are_taken_first() -> None:
    memory = Memory("sram", 4)
    residencies = [
        BytesInMemory(0, 2, "a", 2),
        BytesInMemory(1, 3, "b", 2),
        BytesInMemory(4, 9, "c", 2),
        BytesInMemory(5, 9, "d", 2),
    ]

    offsets = placed_where_free_longest(memory, residencies)

    assert offsets is not None
    assert (offsets[4], offsets[5]) == (offsets[0], offsets[1])


def test_the_packer_finds_offsets_where_program_order_leaves_a_gap_too_few() -> None:
    memory = Memory("sram", 4)
    residencies = [BytesInMemory(0, 2, "a", 1), BytesInMemory(1, 5, "b", 1), BytesInMemory(3, 5, "c", 3)]
    assert len(placed_in_order(memory, residencies)) == 2

    offsets = offsets_of([memory], {"sram": residencies})

    assert is_packed(memory, residencies, offsets)


def test_every_memory_has_offsets_of_its_own() -> None:
    memories = [Memory("near", 4), Memory("far", 6, 2)]
    residencies = {
        "near": [BytesInMemory(0, 9, "a", 4)],
        "far": [BytesInMemory(1, 9, "a", 4), BytesInMemory(2, 9, "b", 1)],
    }

    offsets = offsets_of(memories, residencies)

    assert all(is_packed(memory, residencies[memory.name], offsets) for memory in memories)
    with pytest.raises(NoOffsetsError, match="'near'"):
        offsets_of([Memory("near", 3), memories[1]], residencies)


@pytest.mark.parametrize("seed", series(range(200), 50))
def test_the_largest_gap_is_that_of_all_aligned_ranges_without_residents(seed: int) -> None:
    chance = random.Random(seed)
    memory = Memory("sram", chance.choice((9, 16, 30)), chance.choice((1, 2, 4)))
    residencies = some_residencies(chance, chance.randint(0, 8), 6)
    offsets = placed_in_order(memory, residencies)
    residencies = residencies[: len(offsets)]
    steps = sorted(chance.sample(range(30), 12))

    gaps = list(largest_gaps(memory, residencies, offsets, steps))

    for step, (offset, size) in zip(steps, gaps, strict=True):
        alive = [one for one in residencies if one.at <= step < one.until]
        taken = [(offsets[one.at], offsets[one.at] + one.size_bytes) for one in alive]
        fitting = [
            length
            for length in range(1, memory.capacity_bytes + 1)
            if any(is_free(taken, at, length) for at in places(memory, length))
        ]
        assert size == max(fitting, default=0)
        assert not size or (offset in places(memory, size) and is_free(taken, offset, size))
