"""Predecessors and successors of all operators at once equal those found by paths through the graph one by one."""

from __future__ import annotations

from random import Random

import pytest

from onchip.answer.problem import Count, Durations, Objective, Order, Problem, Rate, Transfers
from onchip.arch.memory import DRAM, Memory
from onchip.bounds.latency.latency_bounds import LatencyBounds
from onchip.bounds.latency.ways_to_run import BandOrders, WaysToRun, last_of_several
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from support.timed_problems import timed_graph, timed_problem


def ways_of(seed: int, order: Order) -> WaysToRun:
    random = Random(seed)
    graph = timed_graph(random, random.randint(1, 12))
    return WaysToRun(timed_problem(graph, random.randint(5, 20), random, order))


def writers(ways: WaysToRun, operator: int) -> set[int]:
    return {ways.writer[one] for one in ways.operators[operator].reads if one in ways.writer}


def ancestors(ways: WaysToRun, operator: int) -> set[int]:
    direct = writers(ways, operator)
    return direct.union(*(ancestors(ways, one) for one in direct))


def waits_for(ways: WaysToRun, operator: int, first: int) -> str:
    """Return "all", "some" or "none": the bands of `operator` that begin only after all bands of `first` end."""
    if operator == first:
        return "some"
    found = {waits_for(ways, one, first) for one in writers(ways, operator)} - {"none"}
    if "all" in found or (found and not ways.operators[operator].cuts_inputs):
        return "all"
    return "some" if found else "none"


@pytest.mark.parametrize("part", range(4))
def test_of_all_at_once_they_are_those_of_each(part: int) -> None:
    for seed in range(50 * part, 50 * (part + 1)):
        ways = ways_of(seed, Order.FREE)
        count = len(ways.operators)
        some = range(0, count, 1 + seed % 3)
        borders = BandOrders(ways, some).borders
        assert [one.operator for one in borders] == list(some)
        for one in borders:
            waiting = [waits_for(ways, each, one.operator) for each in range(count)]
            assert {*one.before} == ancestors(ways, one.operator)
            assert list(one.after) == [each for each in range(count) if waiting[each] == "all"]
            assert list(one.partly_after) == [
                each for each in range(count) if waiting[each] == "some" and each != one.operator
            ]


def test_in_a_given_order_all_others_are_before_or_after() -> None:
    ways = ways_of(3, Order.GIVEN)
    count = len(ways.operators)
    for one in BandOrders(ways, range(count)).borders:
        assert [*one.before, one.operator, *one.after] == list(range(count))
        assert not one.partly_after


def test_of_several_that_are_read_each_may_end_last() -> None:
    """A group shares a reader and is mutually independent; when its last member ends, all its ancestors have ended."""
    seen = 0
    for seed in range(200):
        ways = ways_of(seed, Order.FREE)
        for group in last_of_several(ways, BandOrders(ways, range(len(ways.operators))).borders):
            lasts = {one.operator for one in group}
            seen += 1
            assert any(lasts <= writers(ways, reader) for reader in range(len(ways.operators)))
            for one in group:
                others = lasts - {one.operator}
                assert {*one.others} == others
                assert not others & ancestors(ways, one.operator)
                assert {*one.before} == others.union(*(ancestors(ways, each) for each in lasts))
    assert seen > 50


def test_nobody_is_the_last_of_several_in_a_given_order() -> None:
    ways = ways_of(3, Order.GIVEN)
    assert not last_of_several(ways, BandOrders(ways, range(len(ways.operators))).borders)


def test_the_last_of_two_that_compute_leaves_more_to_load_than_each_by_itself() -> None:
    """Both branches run before the join's weights load, which do not fit together with the maps of the branches."""
    tensors = [("x", 4, Role.INPUT), ("a", 8, Role.ACTIVATION), ("b", 8, Role.ACTIVATION), ("w", 16, Role.PARAMETER)]
    shaped = [Tensor.of_shape(name, (1, size), 8, role) for name, size, role in [*tensors, ("y", 1, Role.OUTPUT)]]
    branches = [Operator(name, "Any", ("x",), (f"{name}",), stated=StatedCost(50)) for name in ("a", "b")]
    join = Operator("join", "Any", ("a", "b"), ("y",), ("w",), stated=StatedCost(1))
    graph = Graph("two branches", tuple(shaped), (*branches, join))
    rates = {(DRAM, "sram"): Rate(), ("sram", DRAM): Rate()}
    problem = Problem(
        graph,
        (Memory("sram", 33),),
        Objective.LATENCY,
        Order.FREE,
        Count.ALL,
        transfers=Transfers((), rates),
        durations=Durations({}),
    )
    bound = LatencyBounds(WaysToRun(problem)).greatest
    assert bound.name == "up to the last of 'a', 'b', then loads delayed by the capacity"
