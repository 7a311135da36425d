"""A start from a plan: where all operands fit, its places replay the traffic of the plan."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from onchip.answer.problem import Count, Order, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
from onchip.answer.schedule import ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.memory.spill.exact import solve_exactly
from onchip.scheduling.program.places import Places, planned_start, start_of_plan
from onchip.search.budget.limits import Run
from scheduling.test_schedule_moves import assert_legal, is_topological, maker, some_network
from support.series import series
from support.small_schedules import skip_chip, skip_network


def one_memory(capacity_bytes: int) -> Accelerator:
    """A chip whose only memory that program addresses has so many bytes."""
    chip = skip_chip(1, capacity_bytes)
    return replace(chip, levels=chip.levels[1:])


def some_case(chance: random.Random) -> tuple[Graph, Accelerator]:
    """Sums and softmaxes of four bytes each, in room for three to five maps."""
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
