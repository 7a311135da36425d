"""Fronts of schedules: none dominates another or is below a bound, each axis is as low as a search for it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.fusion_options import LAYERS, Placements
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack
from onchip.bounds.network.relaxation import Relaxation, relaxation
from onchip.scheduling.program.composition import Composition, ScheduleQuestion
from onchip.scheduling.search.front import FrontAxis, FrontPoint, least_along_axes, solve_front, thinned
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.tiled import tile_graph
from support.series import series
from support.small_schedules import PRECISION, skip_chip, skip_network

LAYER_BY_LAYER = ScheduleOptions(LAYERS)
AXES = (FrontAxis.ENERGY, FrontAxis.LATENCY, FrontAxis.TRAFFIC, FrontAxis.PEAK)


def question(near_bytes: int = 40) -> ScheduleQuestion:
    network, machine = skip_network(), skip_chip(near_bytes, 400)
    return ScheduleQuestion(network, machine, PRECISION, ScheduleObjective.ENERGY, uses_cache=False)


def least(asked: ScheduleQuestion) -> Relaxation:
    network, machine = asked.network, asked.accelerator
    whole = tile_graph(network, [ScheduledStack((one.name,)) for one in network.operators], asked.precision)
    return relaxation(whole.graph, whole.nests, machine, every_memory_keeps=True, operands=whole.nest_operands)


@pytest.mark.parametrize(
    "axes", [AXES[2:], *(pytest.param(axes, marks=pytest.mark.slow) for axes in (AXES[:2], AXES[1::-1], AXES))]
)
@pytest.mark.parametrize("near_bytes", series([8, 40], 1))
def test_no_point_of_a_front_is_as_good_as_another_in_everything(axes: Sequence[FrontAxis], near_bytes: int) -> None:
    asked = question(near_bytes)
    bounds = least(asked)
    points = solve_front(asked, LAYER_BY_LAYER, axes, bounds, Run())
    assert points
    for one, other in permutations(points, 2):
        assert any(mine < theirs for mine, theirs in zip(one.values, other.values, strict=True))
    for point in points:
        figures = point.found(asked.accelerator).figures
        assert point.values == tuple(axis.value_of(figures) for axis in axes)
        assert all(value >= axis.bound_of(bounds) for axis, value in zip(axes, point.values, strict=True))


@pytest.mark.slow
def test_each_axis_is_as_low_as_a_search_for_it_alone_gets() -> None:
    asked = question()
    bounds = least(asked)
    axes = AXES[:3]
    points = solve_front(asked, LAYER_BY_LAYER, axes, bounds, Run())
    for at, axis in enumerate(axes):
        assert axis.objective is not None
        alone = solve_schedule(replace(asked, objective=axis.objective), LAYER_BY_LAYER, Run()).objective_value
        assert alone is not None
        assert min(point.values[at] for point in points) <= alone


@pytest.mark.slow
@pytest.mark.parametrize("near_bytes", [8, 40])
def test_no_answer_for_one_objective_is_below_the_front(near_bytes: int) -> None:
    asked = question(near_bytes)
    axes = AXES[:3]
    points = solve_front(asked, LAYER_BY_LAYER, axes, least(asked), Run())
    for objective in ScheduleObjective:
        answer = solve_schedule(replace(asked, objective=objective), LAYER_BY_LAYER, Run()).answer
        assert answer is not None
        alone = [axis.value_of(answer.figures) for axis in axes]
        assert any(all(mine <= theirs for mine, theirs in zip(point.values, alone, strict=True)) for point in points)


@pytest.mark.slow
def test_little_is_resident_where_peak_is_an_axis() -> None:
    asked = question()
    points = solve_front(asked, LAYER_BY_LAYER, (FrontAxis.ENERGY, FrontAxis.PEAK), least(asked), Run())
    streamed = solve_schedule(asked, ScheduleOptions(LAYERS, placements=Placements.DRAM), Run()).answer
    assert streamed is not None
    assert min(point.values[1] for point in points) <= FrontAxis.PEAK.value_of(streamed.figures)


def test_without_time_there_is_a_front_all_the_same() -> None:
    asked = question()
    assert solve_front(asked, LAYER_BY_LAYER, AXES[:2], least(asked), Run(Limits(0.0)))


TILES = tile_graph(skip_network(), [ScheduledStack((one.name,)) for one in skip_network().operators], PRECISION)


def point(values: tuple[int, ...]) -> FrontPoint:
    return FrontPoint(values, ScheduleObjective.ENERGY, Composition((), (), ()), TILES)


def test_the_points_that_are_least_along_an_axis_are_known() -> None:
    some = [point(values) for values in ((1, 9), (2, 8), (3, 3), (9, 1))]
    assert [one.values for one in least_along_axes(some)] == [(1, 9), (9, 1)]
    assert [one.values for one in least_along_axes([*some, point((0, 0))])] == [(0, 0)]
    assert least_along_axes([]) == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, unique=True), st.integers(2, 9))
def test_what_is_least_along_an_axis_is_never_left_out(values: list[tuple[int, int]], most: int) -> None:
    some = [one.values for one in thinned([point(each) for each in values], most)]
    assert len(some) <= max(most, min(len(values), 2))
    assert set(some) <= set(values)
    for at in (0, 1):
        assert min(one[at] for one in some) == min(one[at] for one in values)
    if len(values) <= most:
        assert some == sorted(values)
