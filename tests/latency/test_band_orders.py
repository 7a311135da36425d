"""What comes before and after operators, of all at once, is what paths through the graph say one by one."""

from __future__ import annotations

from random import Random

import pytest

from onchip.answer.problem import Order
from onchip.facts.band_orders import BandOrders
from onchip.facts.ways_to_run import WaysToRun
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
    """Which bands of an operator begin only when all of the first have ended."""
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
