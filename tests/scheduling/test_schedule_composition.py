"""Schedules composed from places: legal whatever the places, figures as the verifier counts them, never made worse."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.mapping.methods.layer_at import map_layer_at
from onchip.model.program.figures import ScheduleFigures, schedule_figures
from onchip.model.program.nest_cost import nest_cost
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.mapped_nest import MappedNest, Room
from onchip.scheduling.program.composition import Composer, Composition, NoMappingError
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.question import ScheduleQuestion
from onchip.scheduling.program.runs import NestPlace
from onchip.scheduling.program.tiled_network import TiledNetwork
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.schedule.setting import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.series import series, with_slow
from support.skip_network import PRECISION, skip_chip, skip_network

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


@dataclass(slots=True)
class ProvenMapper:
    """Finds the best mapping of each nest."""

    accelerator: Accelerator
    is_quick: bool = False

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping]) -> MappedNest | None:
        problem = LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        found = map_layer_at(problem, MappingObjective.ENERGY, Run()).answer
        return None if found is None else MappedNest(found, nest_cost(problem, found))

    def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
        """It shares out no time."""


def composer(stacks: tuple[ScheduledStack, ...], accelerator: Accelerator) -> tuple[TileGraph, Composer]:
    tiles = tile_graph(skip_network(), stacks, PRECISION)
    return tiles, Composer(stacks, TiledNetwork.of(tiles), accelerator, KnownMappings(ProvenMapper(accelerator)))


def random_places(chance: random.Random, stacks: tuple[ScheduledStack, ...]) -> Places:
    keys = [(stack, name) for stack in range(len(stacks)) for name in ("x", "a", "b", "c", "y", "w0", "w1")]
    read = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.6}
    written = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.6}
    waiting = {key: chance.choice(("near", "far", None)) for key in keys if chance.random() < 0.4}
    return Places(read, written, waiting)


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
        found = composing.composed(random_places(chance, stacks))
    except NoMappingError:
        found = composing.composed(Places())
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
            expected = anew.composed(places)
        except NoMappingError as error:
            with pytest.raises(NoMappingError, match=error.operator):
                again.composed(places)
            continue

        found = again.composed(places)

        assert (found.schedule, found.costs) == (expected.schedule, expected.costs)
        figures = figures_of(tiles, accelerator, found)
        assert (found.energy_fj, found.traffic_bytes) == (figures.energy_fj, figures.traffic_bytes)


def test_with_everything_in_dram_nothing_is_copied() -> None:
    tiles, composing = composer(STACKS["layers"], skip_chip())

    found = figures_of(tiles, skip_chip(), composing.composed(Places()))

    assert found.traffic.loads == found.traffic.write_backs == 0
    assert found.traffic_bytes > 0


def test_a_map_that_stays_on_the_chip_is_not_read_from_dram() -> None:
    accelerator = skip_chip(40, 400)
    tiles, composing = composer(STACKS["layers"], accelerator)
    streamed = figures_of(tiles, accelerator, composing.composed(Places()))

    places = Places().with_map("b", 1, frozenset({2}), "far")
    kept = figures_of(tiles, accelerator, composing.composed(places))

    assert streamed.traffic_bytes - kept.traffic_bytes >= 2 * 32
    assert kept.energy_fj < streamed.energy_fj


def test_what_has_no_room_near_lies_farther_from_the_units() -> None:
    accelerator = skip_chip(8, 400)  # no map of 32 bytes fits the near memory
    _, composing = composer(STACKS["layers"], accelerator)
    near, far = (
        composing.composed(Places().with_map("a", 0, frozenset({1, 2}), memory)).schedule.program
        for memory in ("near", "far")
    )

    assert near == far


@pytest.mark.parametrize("objective", with_slow(ScheduleObjective, lambda one: one is not ScheduleObjective.TRAFFIC))
def test_an_answer_is_never_worse_than_everything_streamed_and_never_below_its_bound(
    objective: ScheduleObjective,
) -> None:
    question = ScheduleQuestion(skip_network(), skip_chip(40, 400), PRECISION, objective, uses_cache=False)

    best = solve_schedule(question, ScheduleOptions(), Run()).objective_value
    streamed = solve_schedule(question, ScheduleOptions("layers", maps_stay=False), Run()).objective_value
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

    found = composing.composed(Places().with_map("a", 0, frozenset({1}), "far"))

    assert {one.homes.input for one in found.schedule.mappings} <= {None, "far"}
    assert not verify_schedule(
        ScheduleSetting(skip_network(), accelerator, tiles.graph, 16), found.schedule, None, nest_cost
    ).violations
