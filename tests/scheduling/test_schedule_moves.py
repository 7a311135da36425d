"""Moves of order and of groups: every order is topological, every merged group is legal, nothing is made worse."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.moves.restacking import Merger, Reorderer
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import FoundSchedule, ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.series import series
from support.small_schedules import ALONE, PRECISION, skip_chip, skip_network


def maker(network: Graph, accelerator: Accelerator) -> AttemptMaker:
    question = ScheduleQuestion(network, accelerator, PRECISION, ScheduleObjective.ENERGY, uses_cache=False)
    mapper = BestMapper(accelerator, MappingObjective.ENERGY, Run())
    return AttemptMaker(question, KnownMappings(mapper), mapper, Run())


def some_network(chance: random.Random, count: int) -> Graph:
    """Sums of one or two earlier maps, and softmaxes of one; maps without a reader leave the network."""
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
