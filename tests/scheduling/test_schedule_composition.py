"""Schedules composed from places: legal whatever the places, with the figures of the verifier."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import LAYERS, Placements, ScheduleOptions
from onchip.answer.program import Compute
from onchip.answer.result import Status
from onchip.answer.schedule import WORKSPACE, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.model.program.figures import ScheduleFigures, schedule_figures
from onchip.ops.layers_of import Precision
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.moves.improvement import residencies_in
from onchip.scheduling.program.addresses import BytesInMemory, NoOffsetsError, Offsets, offsets_of, with_early_loads
from onchip.scheduling.program.composition import Composer, Composition, NoMappingError, ScheduleQuestion
from onchip.scheduling.program.places import FirstPlaces, Places
from onchip.scheduling.program.runs import TiledNetwork
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.series import series, with_slow
from support.small_schedules import PRECISION, ProvenMapper, composer, skip_chip, skip_network

STACKS = {
    "layers": tuple(ScheduledStack((name,)) for name in ("first", "second", "add", "soft")),
    "tiled": (
        ScheduledStack(("first", "second", "add"), Tiling(2, 2, OverlapMode.FULLY_CACHED)),
        ScheduledStack(("soft",)),
    ),
    "recomputed": (
        ScheduledStack(("first", "second", "add"), Tiling(2, 3, OverlapMode.RECOMPUTE)),
        ScheduledStack(("soft",)),
    ),
}


def random_places(chance: random.Random, stacks: tuple[ScheduledStack, ...]) -> Places:
    keys = [(stack, name) for stack in range(len(stacks)) for name in ("x", "a", "b", "c", "y", "w0", "w1")]
    read = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.6}
    written = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.6}
    waiting = {key: chance.choice(("near", "far", None)) for key in keys if chance.random() < 0.4}
    leaving = frozenset(key for key in keys if chance.random() < 0.4)
    return Places(read, written, waiting, leaving)


def addressed(composing: Composer, places: Places) -> Composition:
    return composing.addressed(composing.composed(places))


def figures_of(tiles: TileGraph, accelerator: Accelerator, found: Composition) -> ScheduleFigures:
    return schedule_figures(tiles.graph, accelerator, found.schedule.program, found.costs)


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("seed", series(range(12), 8))
def test_whatever_the_places_the_schedule_is_legal_and_costs_what_the_verifier_says(
    stacks: tuple[ScheduledStack, ...], seed: int
) -> None:
    chance = random.Random(seed)
    accelerator = skip_chip(chance.choice((8, 40, 60)), chance.choice((60, 90, 400)))
    tiles, composing = composer(stacks, accelerator)
    try:
        found = addressed(composing, random_places(chance, stacks))
    except NoMappingError:
        found = addressed(composing, Places())

    assert_legal(tiles, accelerator, found)


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("seed", series(range(40), 8))
def test_where_time_counts_loads_are_early_legal_and_never_make_the_schedule_longer(
    stacks: tuple[ScheduledStack, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    accelerator = skip_chip(chance.choice((40, 60, 200)), chance.choice((90, 400)))
    tiles, composing = composer(stacks, accelerator)
    composing.is_timed = True
    places = random_places(chance, stacks)
    try:
        found = addressed(composing, places)
    except NoMappingError:
        return
    instructions = [one for part in composing.composed(places).composed for one in part.instructions]
    early = with_early_loads(instructions, found.memories, lambda tensor, _: sizes(tiles, found)[tensor], tiles.graph)
    monkeypatch.setattr("onchip.scheduling.program.composition.with_early_loads", lambda *_: list(instructions))
    late = addressed(composing, places)

    assert sorted(map(str, early)) == sorted(map(str, instructions))
    assert [one for one in early if isinstance(one, Compute)] == [
        one for one in instructions if isinstance(one, Compute)
    ]
    assert_legal(tiles, accelerator, found)
    assert figures_of(tiles, accelerator, found).latency_cycles <= figures_of(tiles, accelerator, late).latency_cycles


def sizes(tiles: TileGraph, found: Composition) -> Mapping[str, int]:
    """Return the bytes of tensors and of workspaces, which have the same size in every memory of this machine."""
    workspaces = {
        f"{name}{WORKSPACE}": max(cost.workspace_bytes.values(), default=0) for name, cost in found.costs.items()
    }
    return {one.name: one.size_bytes for one in tiles.graph.tensors} | workspaces


def assert_legal(tiles: TileGraph, accelerator: Accelerator, found: Composition) -> None:
    """Assert that the verifier accepts the schedule and computes the same figures."""
    setting = ScheduleSetting(skip_network(), accelerator, tiles.graph, 16)
    verdict = verify_schedule(setting, found.schedule, None, nest_cost)
    assert not verdict.violations
    assert verdict.figures is not None
    mine = figures_of(tiles, accelerator, found)
    theirs = verdict.figures
    assert (theirs.energy_fj, theirs.latency_cycles, theirs.traffic_bytes) == (
        mine.energy_fj,
        mine.latency_cycles,
        mine.traffic_bytes,
    )
    assert (found.energy_fj, found.traffic_bytes) == (mine.energy_fj, mine.traffic_bytes)


def refuses_workspaces(
    memories: Sequence[Memory], residencies: Mapping[str, Sequence[BytesInMemory]], *, is_timed: bool
) -> Offsets:
    """Pack the residencies, but fail if they contain workspaces."""
    workspaces = [one for of_memory in residencies.values() for one in of_memory if one.name.endswith(WORKSPACE)]
    if workspaces:
        raise NoOffsetsError("near", workspaces[0].at)
    return offsets_of(memories, residencies, is_timed=is_timed)


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("seed", series(range(12), 6))
def test_workspaces_lie_in_gaps_beside_the_tensors_if_the_packer_fails_for_both(
    stacks: tuple[ScheduledStack, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(100 + seed)
    accelerator = skip_chip(chance.choice((20, 40, 60)), chance.choice((90, 200, 400)))
    tiles, composing = composer(stacks, accelerator)
    composed = None
    while composed is None:
        try:
            composed = composing.composed(random_places(chance, stacks))
        except NoMappingError:
            continue
    monkeypatch.setattr("onchip.scheduling.program.composition.offsets_of", refuses_workspaces)

    try:
        found = composing.addressed(composed)
    except NoMappingError:
        found = composing.addressed(composing.composed(Places()))

    assert_legal(tiles, accelerator, found)


def test_without_offsets_the_operator_is_named_whose_tensor_finds_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    _, composing = composer(STACKS["layers"], skip_chip())
    composed = composing.composed(Places())
    steps = [step.operator for part in composed.composed for step in part.steps]
    for at, operator in enumerate(steps):
        instructions = [one for part in composed.composed for one in part.movements.instructions]
        compute = next(number for number, one in enumerate(instructions) if one == Compute(operator))

        def fails(*_: object, compute: int = compute, **__: object) -> Offsets:
            raise NoOffsetsError("near", compute)

        monkeypatch.setattr("onchip.scheduling.program.composition.offsets_of", fails)
        with pytest.raises(NoMappingError, match="no offsets") as error:
            composing.addressed(composed)
        assert error.value.operator == steps[at]


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
def test_what_a_change_of_places_does_not_touch_is_as_if_it_were_composed_anew(
    stacks: tuple[ScheduledStack, ...],
) -> None:
    chance = random.Random(3)
    accelerator = skip_chip(40, 90)
    tiles, again = composer(stacks, accelerator)
    places = Places()
    for _ in range(25):
        other = random_places(chance, stacks)
        tensor = chance.choice(("x", "a", "b", "c", "y", "w0", "w1"))
        places = chance.choice((places, other)).with_map(tensor, 0, frozenset({1}), chance.choice(("near", "far")))
        _, anew = composer(stacks, accelerator)
        try:
            expected = addressed(anew, places)
        except NoMappingError as error:
            with pytest.raises(NoMappingError, match=error.operator):
                addressed(again, places)
            continue

        found = addressed(again, places)

        assert (found.schedule, found.costs) == (expected.schedule, expected.costs)
        figures = figures_of(tiles, accelerator, found)
        assert (found.energy_fj, found.traffic_bytes) == (figures.energy_fj, figures.traffic_bytes)


def test_with_everything_in_dram_nothing_is_copied() -> None:
    tiles, composing = composer(STACKS["layers"], skip_chip())

    found = figures_of(tiles, skip_chip(), addressed(composing, Places()))

    assert found.traffic.loads == found.traffic.write_backs == 0
    assert found.traffic_bytes > 0


def test_a_map_that_stays_on_the_chip_is_not_read_from_dram() -> None:
    accelerator = skip_chip(40, 400)
    tiles, composing = composer(STACKS["layers"], accelerator)
    streamed = figures_of(tiles, accelerator, addressed(composing, Places()))

    places = Places().with_map("b", 1, frozenset({2}), "far")
    kept = figures_of(tiles, accelerator, addressed(composing, places))

    assert streamed.traffic_bytes - kept.traffic_bytes >= 2 * 32
    assert kept.energy_fj < streamed.energy_fj


EVERY_MAP = Places(
    {(at, name): "far" for at, names in enumerate((("x", "w0"), ("a", "w1"), ("a", "b"), ("c",))) for name in names},
    dict.fromkeys(enumerate("abcy"), "far"),
)
"""Every operand of every layer is resident."""


@pytest.mark.parametrize(
    ("leaving", "moved_bytes"),
    [
        ((), 0),
        (((0, "a"),), 2 * 32),  # a is written to DRAM, and loaded for the second layer
        (((1, "a"),), 2 * 32),
        (((0, "a"), (1, "a")), 3 * 32),  # DRAM has a when it leaves the second time
        (((1, "b"), (2, "c")), 4 * 32),
        (((0, "x"), (2, "a"), (3, "y")), 0),  # no later stack reads them
    ],
)
def test_what_leaves_behind_a_stack_is_written_once_and_loaded_for_the_next_reader(
    leaving: tuple[tuple[int, str], ...], moved_bytes: int
) -> None:
    accelerator = skip_chip(40, 400)
    tiles, composing = composer(STACKS["layers"], accelerator)

    found = addressed(composing, replace(EVERY_MAP, leaving=frozenset(leaving)))

    assert_legal(tiles, accelerator, found)
    assert found.traffic_bytes == 32 + 36 + 36 + 32 + moved_bytes  # x, w0, w1 and y, and what comes back


def test_a_parameter_that_leaves_is_loaded_again_and_not_written() -> None:
    plain = skip_network()
    second = replace(plain.operators[1], parameters=("w0",))
    network = replace(
        plain,
        tensors=tuple(one for one in plain.tensors if one.name != "w1"),
        operators=(plain.operators[0], second, *plain.operators[2:]),
    )
    accelerator, stacks = skip_chip(40, 400), STACKS["layers"]
    tiles = tile_graph(network, stacks, PRECISION)
    composing = Composer(stacks, TiledNetwork.of(tiles), accelerator, KnownMappings(ProvenMapper(accelerator)))
    read = {(stack, "w0" if name == "w1" else name): memory for (stack, name), memory in EVERY_MAP.read.items()}
    stays = replace(EVERY_MAP, read=read)

    kept, evicted = (addressed(composing, replace(stays, leaving=one)) for one in (frozenset(), frozenset({(0, "w0")})))

    assert kept.traffic_bytes == 32 + 36 + 32
    assert evicted.traffic_bytes == kept.traffic_bytes + 36


def test_a_stack_in_tiles_evicts_its_bands_before_the_next_stack() -> None:
    accelerator, stacks = skip_chip(40, 400), STACKS["tiled"]
    tiles, composing = composer(stacks, accelerator)
    places = Places(
        {(0, name): "far" for name in ("x", "a", "b", "w0", "w1")} | {(1, "c"): "far"},
        {(0, name): "far" for name in "abc"} | {(1, "y"): "far"},
    )

    kept, evicted = (
        addressed(composing, replace(places, leaving=one)) for one in (frozenset(), frozenset({(0, "c"), (0, "a")}))
    )

    assert_legal(tiles, accelerator, evicted)
    assert kept.traffic_bytes == 32 + 36 + 36 + 32
    assert evicted.traffic_bytes == kept.traffic_bytes + 2 * 32


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
def test_every_residency_that_the_search_tries_is_a_legal_schedule(stacks: tuple[ScheduledStack, ...]) -> None:
    chance = random.Random(7)
    accelerator = skip_chip(40, 200)
    tiles, composing = composer(stacks, accelerator)
    stack_of = {name: number for number, one in enumerate(stacks) for name in one.operators}
    network, count = skip_network(), 0
    for tensor in network.tensors:
        producer = network.producer.get(tensor.name)
        writer = None if producer is None else stack_of[producer.name]
        readers = sorted({stack_of[one.name] for one in network.readers[tensor.name]})
        users = [*readers, *(() if writer is None else (writer,))]
        for one in residencies_in(tensor.name, (min(users), max(users)), writer, readers, "far"):
            with suppress(NoMappingError):
                assert_legal(tiles, accelerator, addressed(composing, one.applied(random_places(chance, stacks))))
                count += 1
    assert count


def test_a_tensor_stays_for_some_of_its_readers_in_a_row_or_leaves_once_between_two() -> None:
    found = list(residencies_in("a", (0, 4), 0, [1, 2, 4], "far"))

    assert [(tuple(one.readers), one.writer is not None, one.leaving) for one in found] == [
        ((1,), True, (1,)),
        ((1, 2), True, (2,)),
        ((1, 2, 4), True, ()),
        ((2,), False, (2,)),
        ((2, 4), False, ()),
        ((4,), False, ()),
        ((1, 2, 4), True, (0,)),
        ((1, 2, 4), True, (1,)),
        ((1, 2, 4), True, (2,)),
    ]
    assert len(set(map(str, found))) == len(found)


def test_what_has_no_room_near_lies_farther_from_the_units() -> None:
    accelerator = skip_chip(8, 400)  # no map of 32 bytes fits the near memory
    _, composing = composer(STACKS["layers"], accelerator)
    near, far = (
        addressed(composing, Places().with_map("a", 0, frozenset({1, 2}), memory)).schedule.program
        for memory in ("near", "far")
    )

    assert near == far


@pytest.mark.parametrize("objective", with_slow(ScheduleObjective, lambda one: one is not ScheduleObjective.TRAFFIC))
def test_an_answer_is_never_worse_than_everything_streamed_and_never_below_its_bound(
    objective: ScheduleObjective,
) -> None:
    question = ScheduleQuestion(skip_network(), skip_chip(40, 400), PRECISION, objective, uses_cache=False)

    best = solve_schedule(question, ScheduleOptions(), Run()).objective_value
    streamed = solve_schedule(question, ScheduleOptions("layers", placements=Placements.DRAM), Run()).objective_value
    alone = solve_schedule(question, ScheduleOptions("layers"), Run()).objective_value

    assert best is not None
    assert alone is not None
    assert streamed is not None
    assert best <= alone <= streamed


def test_where_memories_have_room_for_single_elements_there_is_a_schedule() -> None:
    accelerator = skip_chip(1, 2)
    found = solve_schedule(
        ScheduleQuestion(skip_network(), accelerator, PRECISION, ScheduleObjective.ENERGY, uses_cache=False),
        ScheduleOptions("layers"),
        Run(Limits()),
    )

    assert found.answer is not None
    costs = found.answer.composition.costs.values()
    assert max(size for cost in costs for size in cost.workspace_bytes.values()) <= 2


def test_only_what_holds_an_operand_is_its_home() -> None:
    both = skip_chip(400, 400)
    levels = tuple(
        replace(level, memory=replace(level.memory, holds=(Operand.WEIGHT,))) if level.memory.name == "near" else level
        for level in both.levels
    )
    accelerator = replace(both, levels=levels)
    tiles, composing = composer(STACKS["layers"], accelerator)

    found = addressed(composing, Places().with_map("a", 0, frozenset({1}), "far"))

    assert {one.homes.input for one in found.schedule.mappings} <= {None, "far"}
    assert not verify_schedule(
        ScheduleSetting(skip_network(), accelerator, tiles.graph, 16), found.schedule, None, nest_cost
    ).violations


MAPS = (Operand.INPUT, Operand.OUTPUT)
ROWS = Memory("rows", 8)
LEVELS = tuple(
    MemoryLevel(memory, is_scratchpad=True, access=Access(8, 1, 2)) for memory in (Memory("maps", 12, holds=MAPS), ROWS)
)
MACHINE = Accelerator(
    "narrow",
    tuple(level.memory for level in LEVELS),
    LEVELS,
    None,
    ComputeArray({"lane": 1}, None, 0.0),
    Dram(Access(8, 10, 20), (Port(Direction.READ_WRITE, 8),)),
)
NETWORK = Graph(
    "two",
    tuple(
        Tensor.of_shape(name, (1, 6), 8, role)
        for name, role in (("x", Role.INPUT), ("a", Role.ACTIVATION), ("y", Role.OUTPUT))
    ),
    (Operator("one", "Softmax", ("x",), ("a",)), Operator("two", "Softmax", ("a",), ("y",))),
)


@pytest.mark.parametrize("placements", [*Placements])
def test_rows_that_have_no_room_together_do_not_leave_a_network_without_a_schedule(placements: Placements) -> None:
    """Two rows of six bytes are more than eight, and the memory that has room for a map lies nearer."""
    question = ScheduleQuestion(NETWORK, MACHINE, Precision(8, 8), ScheduleObjective.ENERGY, uses_cache=False)
    found = solve_schedule(question, ScheduleOptions(LAYERS, placements=placements), Run())
    assert found.status is Status.FEASIBLE
    assert found.answer is not None
    instructions = found.answer.composition.schedule.program.instructions
    assert sum(isinstance(one, Compute) for one in instructions) == 2


def test_without_a_schedule_the_operator_is_named_with_its_loops_and_the_room_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BestMapper, "__call__", lambda *_: None)
    sizes = (("x", Role.INPUT, (1, 6)), ("w", Role.PARAMETER, (6, 4)), ("y", Role.OUTPUT, (1, 4)))
    tensors = tuple(Tensor.of_shape(name, shape, 8, role) for name, role, shape in sizes)
    network = Graph("product", tensors, (Operator("multiply", "MatMul", ("x",), ("y",), ("w",)),))
    question = ScheduleQuestion(network, MACHINE, Precision(8, 8), ScheduleObjective.ENERGY, uses_cache=False)
    found = solve_schedule(question, ScheduleOptions(LAYERS), Run())
    assert found.status is Status.UNKNOWN
    room = "12 bytes of 'maps', 8 bytes of 'rows'"
    assert found.why_not == f"operator 'multiply': no mapping of its loop nest (K=4 C=6) fits in {room}"


def test_fewer_tensors_come_first_and_all_choices_come_once() -> None:
    first = FirstPlaces(NETWORK, LEVELS)
    found = []
    while (places := first.after("one")) is not None:
        found.append((dict(places.read), dict(places.written)))
    assert found[0] == ({}, {(0, "a"): "rows"})
    assert [len(read) + len(written) for read, written in found] == [1] * 4 + [2] * 4
    assert len({str(one) for one in found}) == 8


def test_what_lies_there_leaves_before_the_next_operator_runs() -> None:
    places = FirstPlaces(NETWORK, LEVELS).after("one")
    assert places is not None
    assert places.waiting[0, "a"] is None


def test_choices_of_one_operator_stay_while_another_looks_for_its_own() -> None:
    first = FirstPlaces(NETWORK, LEVELS)
    first.after("one")
    places = first.after("two")
    assert places is not None
    assert places.written == {(0, "a"): "rows", (1, "y"): "rows"}
