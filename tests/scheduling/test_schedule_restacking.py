"""Other stacks in the place of one in tiles: kept where the schedule's own figures are better, numbers that follow."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.moves.restacking import Restacker
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import NoMappingError, ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Limits, Run
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.small_schedules import PRECISION, skip_chip, skip_network

ALONE = tuple(ScheduledStack((name,)) for name in ("first", "second", "add", "soft"))
WORST = Tiling(1, 1, OverlapMode.RECOMPUTE)
"""Every pixel with all of its halo, again and again."""


def maker(accelerator: Accelerator, run: Run | None = None, network: Graph | None = None) -> AttemptMaker:
    graph = network or skip_network()
    question = ScheduleQuestion(graph, accelerator, PRECISION, ScheduleObjective.ENERGY, uses_cache=False)
    mapper = BestMapper(accelerator, MappingObjective.ENERGY, run or Run())
    return AttemptMaker(question, KnownMappings(mapper), mapper, run or Run())


def fused(tiling: Tiling) -> tuple[ScheduledStack, ...]:
    return ScheduledStack(("first", "second", "add"), tiling), ScheduledStack(("soft",))


def is_legal(attempt: ScheduleAttempt, accelerator: Accelerator) -> bool:
    setting = ScheduleSetting(skip_network(), accelerator, attempt.tiles.graph, 16)
    return not verify_schedule(setting, attempt.found().composition.schedule, None, nest_cost).violations


@pytest.mark.parametrize("far_bytes", [90, 400])
def test_a_stack_in_bad_tiles_is_given_up_for_something_better(far_bytes: int) -> None:
    accelerator = skip_chip(40, far_bytes)
    making = maker(accelerator)
    alone, start = making.made(ALONE, Places()), making.made(fused(WORST), Places())

    found = Restacker(making, alone).improved(start, Run())

    assert found.value < start.value
    assert found.value <= alone.value
    assert is_legal(found, accelerator)


def test_operators_that_come_to_stand_alone_keep_their_places_of_a_schedule_layer_by_layer() -> None:
    accelerator = skip_chip(40, 400)
    making = maker(accelerator)
    alone = making.made(ALONE, Places().with_map("b", 1, frozenset({2}), "far"))
    start = making.made(fused(WORST), Places().with_map("c", 0, frozenset({1}), "far"))

    found = Restacker(making, alone).improved(start, Run())

    assert tuple(found.stacks) == ALONE
    assert found.places.read[2, "b"] == found.places.written[1, "b"] == "far"
    assert found.places.read[3, "c"] == "far"


def improved(attempt: ScheduleAttempt) -> ScheduleAttempt:
    attempt.improver.improve(Run())
    return attempt


@pytest.mark.parametrize(("near_bytes", "far_bytes"), [(8, 70), (40, 64)])
def test_several_maps_moved_at_once_are_better_where_no_single_one_is(near_bytes: int, far_bytes: int) -> None:
    accelerator = skip_chip(near_bytes, far_bytes)
    attempt = improved(maker(accelerator).made(ALONE, Places()))
    before = attempt.value

    attempt.improver.shake(Run())

    assert attempt.value < before
    assert attempt.value == attempt.found().figures.energy_fj
    assert is_legal(attempt, accelerator)


def test_an_input_that_nobody_reads_lies_nowhere() -> None:
    plain = skip_network()
    network = replace(plain, tensors=(*plain.tensors, Tensor.of_shape("unread", (4,), 8, Role.INPUT)))
    attempt = improved(maker(skip_chip(40, 64), network=network).made(ALONE, Places()))

    attempt.improver.shake(Run())

    without = improved(maker(skip_chip(40, 64)).made(ALONE, Places()))
    without.improver.shake(Run())
    assert attempt.value == without.value


def test_without_time_nothing_is_moved_and_worse_places_are_not_taken() -> None:
    attempt = improved(maker(skip_chip(60, 70)).made(ALONE, Places()))
    best = attempt.improver.best

    attempt.improver.shake(Run(Limits(1e-6)))
    attempt.improver.consider(Places(), Run())

    assert attempt.improver.best is best


@pytest.mark.parametrize("objective", ScheduleObjective)
def test_the_value_of_an_attempt_is_that_of_its_figures(objective: ScheduleObjective) -> None:
    accelerator = skip_chip(40, 400)
    making = maker(accelerator)
    making.question = replace(making.question, objective=objective)
    for stacks, places in product(
        (ALONE, fused(WORST)), (Places(), Places().with_map("x", None, frozenset({0}), "far"))
    ):
        attempt = making.made(stacks, places)
        assert attempt.value == objective.value_of(attempt.found().figures)


def test_where_no_schedule_runs_layer_by_layer_operators_that_come_to_stand_alone_are_streamed() -> None:
    accelerator = skip_chip(40, 400)
    making = maker(accelerator)
    start = making.made(fused(WORST), Places())

    found = Restacker(making, None).improved(start, Run())

    assert found.value < start.value
    assert is_legal(found, accelerator)


def test_without_time_nothing_else_is_tried() -> None:
    accelerator = skip_chip(40, 400)
    making = maker(accelerator)
    start = making.made(fused(WORST), Places())

    assert Restacker(making, None).improved(start, Run(Limits(1e-6))) is start


def test_places_of_stacks_that_are_gone_are_gone() -> None:
    places = Places({(0, "x"): "near", (2, "y"): "far"}, {(1, "y"): "far"}, {(2, "y"): None})

    moved = places.renumbered({2: 5, 1: 4})

    assert moved == Places({(5, "y"): "far"}, {(4, "y"): "far"}, {(5, "y"): None})


def test_more_tiles_than_can_be_composed_and_verified_in_time_are_refused() -> None:
    making = maker(skip_chip(40, 400), Run(Limits(1.0)))
    making.pace.seconds = 0.1
    assert making.has_time_for(3)
    assert not making.has_time_for(4)  # composing takes 0.4 seconds, verifying twice as long
    making.made(ALONE, Places())  # whole operators are an answer in any time
    with pytest.raises(ScheduleError, match="no time"):
        making.made(fused(WORST), Places())


def test_all_operators_of_a_group_without_a_mapping_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    making = maker(skip_chip(1, 1))
    (group, soft) = fused(Tiling(2, 2, OverlapMode.RECOMPUTE))
    composer, _ = making.composer((group, soft))
    monkeypatch.setattr(KnownMappings, "best", lambda *_: None)
    with pytest.raises(NoMappingError) as error:
        composer.composed(Places())
    assert error.value.operators_of(skip_network()) == ("first", "second", "add")


def test_tile_operators_are_counted_in_tiles_and_in_slices_of_channels() -> None:
    making, operators = maker(skip_chip(40, 400)), ("first", "second", "add")
    network = skip_network()
    _, channels, rows, columns = network.tensor[network.operator["add"].outputs[0]].shape or ()
    assert making.tile_operators_of(ScheduledStack(("first",))) == 1
    assert making.tile_operators_of(ScheduledStack(operators, WORST)) == 3 * rows * columns
    slices = Tiling(columns, rows, OverlapMode.RECOMPUTE, 1)
    assert making.tile_operators_of(ScheduledStack(operators, slices)) == 3 * channels
