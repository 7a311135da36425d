"""Moves of a schedule, and fronts of schedules."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import LAYERS, Placements, ScheduleOptions
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.bounds.network.relaxation import Relaxation, relaxation
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.moves.restacking import Merger, Reorderer
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import Composition, FoundSchedule, ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.scheduling.search.front import FrontAxis, FrontPoint, least_along_axes, solve_front, thinned
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.series import series
from support.small_schedules import ALONE, PRECISION, skip_chip, skip_network


def maker(network: Graph, accelerator: Accelerator) -> AttemptMaker:
    question = ScheduleQuestion(network, accelerator, PRECISION, ScheduleObjective.ENERGY, uses_cache=False)
    mapper = BestMapper(accelerator, MappingObjective.ENERGY, Run())
    return AttemptMaker(question, KnownMappings(mapper), mapper, Run())


def some_network(chance: random.Random, count: int) -> Graph:
    """Return sums of two earlier maps and softmaxes of one; maps without a reader are network outputs."""
    names, operators = ["x"], list[Operator]()
    for at in range(count):
        inputs = tuple(chance.sample(names, min(len(names), chance.randint(1, 2))))
        operators.append(Operator(f"op{at}", ("Softmax", "Add")[len(inputs) - 1], inputs, (f"m{at}",)))
        names.append(f"m{at}")
    read = {name for one in operators for name in one.inputs}
    role_of = {name: Role.ACTIVATION if name in read else Role.OUTPUT for name in names} | {"x": Role.INPUT}
    tensors = (Tensor.of_shape(name, (1, 1, 1, 4), 8, role_of[name]) for name in names)
    return Graph("some", tuple(tensors), tuple(operators))


def is_topological(network: Graph, order: tuple[str, ...]) -> bool:
    """Return True if every operator occurs once, after its predecessors."""
    at = {name: number for number, name in enumerate(order)}
    return len(at) == len(order) == len(network.operators) and all(
        at[network.producer[name].name] < at[one.name]
        for one in network.operators
        for name in one.reads
        if name in network.producer
    )


def all_orders(network: Graph, before: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return every topological order that begins so."""
    if len(before) == len(network.operators):
        return {before}
    written = {name for one in before for name in network.operator[one].outputs}
    ready = [
        one.name
        for one in network.operators
        if one.name not in before and all(name in written or name not in network.producer for name in one.reads)
    ]
    return {order for one in ready for order in all_orders(network, (*before, one))}


@pytest.mark.parametrize("seed", series(range(40), 15))
def test_moves_of_one_operator_lead_to_every_topological_order_and_to_no_other(seed: int) -> None:
    chance = random.Random(seed)
    network = some_network(chance, chance.randint(1, 6))
    reorderer = Reorderer(maker(network, skip_chip()))
    start = tuple(one.name for one in network.operators)
    seen, waiting = {start}, [start]
    while waiting:
        order = waiting.pop()
        moves = list(reorderer.orders_near([ScheduledStack((name,)) for name in order]))
        assert len(set(moves)) == len(moves)
        for numbers in moves:
            moved = tuple(order[number] for number in numbers)
            assert is_topological(network, moved)
            if moved not in seen:
                seen.add(moved)
                waiting.append(moved)

    assert seen == all_orders(network)


@pytest.mark.parametrize("seed", series(range(20), 6))
def test_groups_of_operators_move_as_one(seed: int) -> None:
    chance = random.Random(seed)
    network = some_network(chance, 7)
    names = [one.name for one in network.operators]
    cuts = [0, *sorted(chance.sample(range(1, 7), 3)), 7]
    tiling = Tiling(1, 1, OverlapMode.RECOMPUTE)
    stacks = [ScheduledStack(tuple(names[begin:end]), tiling) for begin, end in pairwise(cuts)]

    for numbers in Reorderer(maker(network, skip_chip())).orders_near(stacks):
        assert is_topological(network, tuple(name for number in numbers for name in stacks[number].operators))


def assert_legal(network: Graph, accelerator: Accelerator, found: FoundSchedule) -> None:
    setting = ScheduleSetting(network, accelerator, found.tiles.graph, PRECISION.sum_bits)
    verdict = verify_schedule(setting, found.composition.schedule, None, nest_cost)
    assert not verdict.violations
    assert verdict.figures is not None
    assert verdict.figures.energy_fj == found.figures.energy_fj
    assert verdict.figures.traffic_bytes == found.figures.traffic_bytes


@pytest.mark.parametrize("seed", series(range(12), 4))
def test_a_better_order_is_legal_and_no_order_near_it_is_better(seed: int) -> None:
    chance = random.Random(seed)
    network, accelerator = some_network(chance, 6), skip_chip(chance.choice((4, 8)), chance.choice((20, 24, 28)))
    making = maker(network, accelerator)
    keys = [(at, name) for at, one in enumerate(network.operators) for name in (*one.reads, *one.outputs)]
    places = dict.fromkeys(keys, "far")
    start = making.made([ScheduledStack((one.name,)) for one in network.operators], Places(places, places))
    reorderer = Reorderer(making)

    found = reorderer.improved(start, Run())

    assert found.improver.best.key <= start.improver.best.key
    assert_legal(network, accelerator, found.found())
    others = [reorderer.in_order(found, order) for order in reorderer.orders_near(found.stacks)]
    assert all(one is None or one.improver.best.key >= found.improver.best.key for one in others)
    shuffled = reorderer.shuffled(found, chance)
    assert shuffled is None or is_topological(network, tuple(one.operators[0] for one in shuffled.stacks))


@pytest.mark.parametrize(("near_bytes", "far_bytes"), series([(40, 90), (8, 60), (40, 400)], 1))
def test_every_group_that_merging_composes_is_legal_and_the_best_is_kept(near_bytes: int, far_bytes: int) -> None:
    network, accelerator = skip_network(2, 2), skip_chip(near_bytes, far_bytes)
    making, heard = maker(network, accelerator), list[FoundSchedule]()
    start = making.made(ALONE, Places())
    making.listener = heard.append

    found = Merger(making, 32, True).improved(start, Run())

    assert any(len(one.composition.stacks) < len(ALONE) for one in heard)
    for one in heard:
        assert_legal(network, accelerator, one)
    assert_legal(network, accelerator, found.found())
    assert found.value <= min(start.value, *(one.figures.energy_fj for one in heard))


def test_merging_keeps_what_it_has_told_before_it_is_interrupted() -> None:
    making, told = maker(skip_network(), skip_chip(40, 400)), list[int]()
    start = making.made(ALONE, Places())
    run = Run()

    def hear(progress: Progress) -> None:
        assert progress.best is not None
        told.append(progress.best)
        run.interrupt.set()

    found = Merger(making, 32, True).improved(start, replace(run, listener=hear))

    assert [found.value] == told
    assert found.value < start.value


def test_without_time_no_move_is_tried() -> None:
    making = maker(skip_network(), skip_chip(40, 400))
    start: ScheduleAttempt = making.made(ALONE, Places())
    assert Merger(making, 32, True).improved(start, Run(Limits(1e-6))) is start
    assert Reorderer(making).improved(start, Run(Limits(1e-6))) is start


def test_an_output_that_nobody_reads_may_leave_the_chip_in_one_copy() -> None:
    start = maker(skip_network(), skip_chip(40, 400)).made(ALONE, Places())
    outputs = {one.name for one in skip_network().with_role(Role.OUTPUT) if not skip_network().readers[one.name]}

    found = {(one.tensor, one.writer[1]) for one in start.improver._residencies if one.writer and not one.readers}

    assert found == {(name, memory) for name in outputs for memory in ("near", "far")}


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
