"""Schedules composed from places: legal whatever the places, figures as the verifier counts them, never made worse."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.cost.schedule.figures import ScheduleFigures, schedule_figures
from onchip.cost.schedule.nest_cost import nest_cost
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.lower.layers.layers_of import Precision
from onchip.lower.schedule.tile_graph import TileGraph
from onchip.lower.schedule.tiled import tile_graph
from onchip.solve.mapping.layer_at import map_layer_at
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.limits import Limits, Run
from onchip.solve.schedule.composition import Composer, Composition, NoMappingError
from onchip.solve.schedule.mapped import KnownMappings, MappedNest, Room
from onchip.solve.schedule.movements import TiledNetwork
from onchip.solve.schedule.objective import ScheduleObjective
from onchip.solve.schedule.options import ScheduleOptions
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.runs import NestPlace, step_of
from onchip.solve.schedule.solve import ScheduleQuestion, solve_schedule
from onchip.verify.schedule.setting import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule

PRECISION = Precision(8, 16)
PORTS = (Port(Direction.READ_WRITE, 16),)


def machine(near_bytes: int = 40, far_bytes: int = 90) -> Accelerator:
    near = MemoryLevel(Memory("near", near_bytes), access=Access(8, 1, 1), ports=PORTS)
    far = MemoryLevel(Memory("far", far_bytes, 2), is_scratchpad=True, access=Access(8, 5, 5), ports=PORTS)
    array = ComputeArray({"K": 2}, None, 0.5)
    return Accelerator("tiny", (far.memory,), (near, far), None, array, Dram(Access(8, 100, 100), PORTS))


def network(rows: int = 4, columns: int = 4) -> Graph:
    """A chain of convolutions with a skip connection over one, then a softmax, which has no nest."""

    def activation(name: str, role: Role = Role.ACTIVATION) -> Tensor:
        return Tensor.of_shape(name, (1, 2, rows, columns), 8, role)

    weights = tuple(Tensor.of_shape(f"w{at}", (2, 2, 3, 3), 8, Role.PARAMETER) for at in range(2))
    attributes: dict[str, AttributeValue] = {
        "kernel_shape": [3, 3],
        "pads": [1, 1, 1, 1],
        "strides": [1, 1],
        "dilations": [1, 1],
        "group": 1,
    }
    return Graph(
        "skip",
        (activation("x", Role.INPUT), *weights, *map(activation, "abc"), activation("y", Role.OUTPUT)),
        (
            Operator("first", "Conv", ("x",), ("a",), ("w0",), attributes),
            Operator("second", "Conv", ("a",), ("b",), ("w1",), attributes),
            Operator("add", "Add", ("a", "b"), ("c",)),
            Operator("soft", "Softmax", ("c",), ("y",)),
        ),
    )


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


def composer(stacks: tuple[ScheduledStack, ...], accelerator: Accelerator) -> tuple[TileGraph, Composer]:
    tiles = tile_graph(network(), stacks, PRECISION)
    steps = [step_of(tiles, operator) for operator in tiles.graph.operators]

    def mapped(nest: NestPlace, room: Room) -> MappedNest | None:
        problem = LayerProblem(nest.layer, accelerator, nest.homes, room, nest.weight_is_an_input)
        found = map_layer_at(problem, MappingObjective.ENERGY, Run()).answer
        return None if found is None else MappedNest(found, nest_cost(problem, found))

    return tiles, Composer(stacks, TiledNetwork.of(tiles, steps), accelerator, KnownMappings(mapped))


def random_places(chance: random.Random, stacks: tuple[ScheduledStack, ...]) -> Places:
    keys = [(stack, name) for stack in range(len(stacks)) for name in ("x", "a", "b", "c", "y", "w0", "w1")]
    read = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.6}
    written = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.6}
    waiting = {key: chance.choice(("near", "far", None)) for key in keys if chance.random() < 0.4}
    return Places(read, written, waiting)


def figures_of(tiles: TileGraph, accelerator: Accelerator, found: Composition) -> ScheduleFigures:
    return schedule_figures(tiles.graph, accelerator, found.schedule.program, found.costs)


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_places_the_schedule_is_legal_and_costs_what_the_verifier_says(
    stacks: tuple[ScheduledStack, ...], seed: int
) -> None:
    chance = random.Random(seed)
    accelerator = machine(chance.choice((8, 40, 60)), chance.choice((60, 90, 400)))
    tiles, composing = composer(stacks, accelerator)
    try:
        found = composing.composed(random_places(chance, stacks))
    except NoMappingError:
        found = composing.composed(Places())
    setting = ScheduleSetting(network(), accelerator, tiles.graph, 16)

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


def test_with_everything_in_dram_nothing_is_copied() -> None:
    tiles, composing = composer(STACKS["layers"], machine())

    found = figures_of(tiles, machine(), composing.composed(Places()))

    assert found.traffic.loads == found.traffic.write_backs == 0
    assert found.traffic_bytes > 0


def test_a_map_that_stays_on_the_chip_is_not_read_from_dram() -> None:
    accelerator = machine(40, 400)
    tiles, composing = composer(STACKS["layers"], accelerator)
    streamed = figures_of(tiles, accelerator, composing.composed(Places()))

    places = Places().with_map("b", 1, frozenset({2}), "far")
    kept = figures_of(tiles, accelerator, composing.composed(places))

    assert streamed.traffic_bytes - kept.traffic_bytes >= 2 * 32
    assert kept.energy_fj < streamed.energy_fj


def test_what_has_no_room_near_lies_farther_from_the_units() -> None:
    accelerator = machine(8, 400)  # no map of 32 bytes fits the near memory
    _, composing = composer(STACKS["layers"], accelerator)
    near, far = (
        composing.composed(Places().with_map("a", 0, frozenset({1, 2}), memory)).schedule.program
        for memory in ("near", "far")
    )

    assert near == far


@pytest.mark.parametrize("objective", ScheduleObjective)
def test_an_answer_is_never_worse_than_everything_streamed_and_never_below_its_bound(
    objective: ScheduleObjective,
) -> None:
    question = ScheduleQuestion(network(), machine(40, 400), PRECISION, objective, uses_cache=False)

    best = solve_schedule(question, ScheduleOptions(), Run()).objective_value
    streamed = solve_schedule(question, ScheduleOptions("layers", maps_stay=False), Run()).objective_value
    alone = solve_schedule(question, ScheduleOptions("layers"), Run()).objective_value

    assert best is not None
    assert alone is not None
    assert streamed is not None
    assert best <= alone <= streamed


def test_where_no_memory_has_room_for_a_tile_there_is_no_schedule() -> None:
    accelerator = machine(1, 2)
    found = solve_schedule(
        ScheduleQuestion(network(), accelerator, PRECISION, ScheduleObjective.ENERGY, uses_cache=False),
        ScheduleOptions("layers"),
        Run(Limits()),
    )

    assert found.answer is None


def test_only_what_holds_an_operand_is_its_home() -> None:
    both = machine(400, 400)
    levels = tuple(
        replace(level, memory=replace(level.memory, holds=(Operand.WEIGHT,))) if level.memory.name == "near" else level
        for level in both.levels
    )
    accelerator = replace(both, levels=levels)
    tiles, composing = composer(STACKS["layers"], accelerator)

    found = composing.composed(Places().with_map("a", 0, frozenset({1}), "far"))

    assert {one.homes.input for one in found.schedule.mappings} <= {None, "far"}
    assert not verify_schedule(
        ScheduleSetting(network(), accelerator, tiles.graph, 16), found.schedule, None, nest_cost
    ).violations
