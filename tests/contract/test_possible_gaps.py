"""What waits in some orders only: bounds hold near any order, at any reach, and see choices between neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.problem import Order, Problem
from onchip.bounds.retention.sure_gaps import Descent, PossibleGap, PossibleGaps, no_descent, sure_gaps
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.retention.sure_gaps import SureGapsBound
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.model.lifetimes.precedence import Precedence, uses_of
from onchip.search.budget.limits import Run
from oracles.one_scratchpad import least_traffic, long_lived_graph, orders, random_graph
from support.one_order import tight
from support.series import in_one_test, series

ALL = 1_000_000
"""A reach at which any two operators are near one another."""


def odd_graph(seed: int, operators: int) -> Graph:
    """Any input however old, operators of several outputs, outputs that are read, weights."""
    chance = Random(seed)
    names = [f"in{number}" for number in range(chance.randint(1, 3))]
    roles, made = dict.fromkeys(names, Role.INPUT), list[Operator]()
    for number in range(operators):
        recent = names if chance.random() < 0.5 else names[-4:]
        reads = tuple(chance.choice(recent) for _ in range(chance.choice((1, 1, 2, 2, 3, 4))))
        written = tuple(f"t{number}_{one}" for one in range(chance.choice((1, 1, 1, 2, 3))))
        made.append(Operator(f"op{number}", "Op", reads, written, ("w",) if chance.random() < 0.2 else ()))
        names += written
        roles |= {name: chance.choice((Role.OUTPUT, *(Role.ACTIVATION,) * 5)) for name in written}
    roles["w"] = Role.PARAMETER
    tensors = (Tensor(name, chance.randint(1, 9), role) for name, role in roles.items())
    return Graph(f"odd{seed}", tuple(tensors), tuple(made))


def some_problem(seed: int, operators: int) -> Problem:
    graph = (odd_graph, long_lived_graph, random_graph)[seed % 3](seed, operators)
    return replace(tight(graph, 1 + seed % 4, seed % 5), order=Order.FREE)


def any_descent(indexed: IndexedProblem, chance: Random) -> Descent:
    """Let each tensor that is written descend from any input of its operator, or from none."""
    inputs = ((-1, *indexed.read_lists[one]) if one >= 0 else (-1,) for one in indexed.producer)
    return Descent(tuple(map(chance.choice, inputs)))


def any_order(indexed: IndexedProblem, chance: Random) -> list[int]:
    """Run any operator next whose predecessors have run."""
    order, waiting = list[int](), list(range(indexed.operator_count))
    while waiting:
        ready = [one for one in waiting if set(indexed.predecessor_lists[one]) <= set(order)]
        order.append(chance.choice(ready))
        waiting.remove(order[-1])
    return order


def bound_near(indexed: IndexedProblem, descent: Descent, order: list[int], reach: int) -> int:
    precedence = Precedence(indexed)
    possible = PossibleGaps(indexed, precedence, descent, order, reach)
    return SureGapsBound(indexed, precedence, sure_gaps(indexed, precedence, descent), possible).solve(Run())


def some_bounds(indexed: IndexedProblem, chance: Random) -> Iterator[int]:
    for reach in (0, chance.choice((3, 10, 40)), ALL):
        yield bound_near(indexed, any_descent(indexed, chance), any_order(indexed, chance), reach)


@in_one_test("seed", range(30))
def test_no_plan_of_any_order_costs_less_than_any_of_the_bounds(seed: int) -> None:
    problem = some_problem(seed, 6 - seed % 3 // 2)
    indexed = IndexedProblem.of(problem)
    least = least_traffic(problem)
    assert least is not None
    assert max(some_bounds(indexed, Random(seed))) <= least


@pytest.mark.parametrize("seeds", series([range(at, at + 15) for at in range(100, 160, 15)], 1))
def test_nor_does_the_best_one_of_a_search(seeds: range) -> None:
    for seed in seeds:
        indexed = IndexedProblem.of(some_problem(seed, 12))
        least = BestFirstSearch(indexed, Run()).solve().cost
        assert least is not None
        assert max(some_bounds(indexed, Random(seed))) <= least, seed


@pytest.mark.parametrize("seeds", series([range(at, at + 20) for at in range(200, 260, 20)], 1))
def test_what_waits_in_some_orders_never_lowers_the_bound_and_raises_some(seeds: range) -> None:
    higher = 0
    for seed in seeds:
        indexed, chance = IndexedProblem.of(some_problem(seed, 12)), Random(seed)
        descent, order = any_descent(indexed, chance), any_order(indexed, chance)
        bounds = [bound_near(indexed, descent, order, reach) for reach in (0, 20, ALL)]
        assert bounds == sorted(bounds), seed
        higher += bounds[0] < bounds[-1]
    assert higher


def orders_of(problem: Problem) -> list[list[int]]:
    number = {operator.name: index for index, operator in enumerate(problem.graph.operators)}
    return [[number[operator.name] for operator in order] for order in orders(problem)]


def is_one_in(gap: PossibleGap, order: list[int], indexed: IndexedProblem) -> bool:
    """Tell whether a tensor has been used when the operator runs, and is read later, in an order."""
    step = order.index(gap.operator)
    used = any(order.index(use) < step for use in uses_of(indexed, gap.tensors[0]))
    return used and any(order.index(reader) > step for reader in indexed.reader_lists[gap.tensors[0]])


def says_it_is_one_in(gap: PossibleGap, order: list[int]) -> bool:
    step = order.index(gap.operator)
    has_begun = not gap.begins or any(order.index(begin) < step for begin in gap.begins)
    return has_begun and any(order.index(reader) > step for reader in gap.readers)


@in_one_test("seed", range(12))
def test_where_all_are_near_a_gap_is_one_in_just_the_orders_that_it_says(seed: int) -> None:
    problem = some_problem(seed, 6)
    indexed = IndexedProblem.of(problem)
    precedence = Precedence(indexed)
    found = list(PossibleGaps(indexed, precedence, no_descent(indexed), range(indexed.operator_count), ALL))
    for gap in found:
        assert gap.operator not in uses_of(indexed, gap.tensors[0])
        assert all(is_one_in(gap, order, indexed) == says_it_is_one_in(gap, order) for order in orders_of(problem))


@in_one_test("seed", range(12))
def test_within_less_reach_a_gap_is_one_wherever_it_says_so(seed: int) -> None:
    problem = some_problem(seed, 6)
    indexed, chance = IndexedProblem.of(problem), Random(seed)
    near = PossibleGaps(indexed, Precedence(indexed), no_descent(indexed), any_order(indexed, chance), 20)
    for gap in near:
        for order in orders_of(problem):
            assert is_one_in(gap, order, indexed) or not says_it_is_one_in(gap, order)


def two_sides(pairs: int) -> Graph:
    """Pairs of operators that read the same: what each writes, and a copy of it, is read where all come together."""
    tensors, operators, before = [Tensor("x0", 4, Role.INPUT)], list[Operator](), "x0"
    for number in range(pairs):
        sides = [f"{side}{number}" for side in "ab"]
        for side in sides:
            tensors += [Tensor(f"wide_{side}", 6, Role.ACTIVATION), Tensor(side, 4, Role.ACTIVATION)]
            operators += [
                Operator(f"widen_{side}", "Op", (before,), (f"wide_{side}",)),
                Operator(f"narrow_{side}", "Op", (f"wide_{side}",), (side,)),
            ]
        before = f"x{number + 1}"
        tensors.append(Tensor(before, 4, Role.ACTIVATION if number + 1 < pairs else Role.OUTPUT))
        operators.append(Operator(f"add{number}", "Add", tuple(sides), (before,)))
    return Graph("two sides", tuple(tensors), tuple(operators))


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_whichever_of_two_sides_is_first_something_waits_that_does_not_fit(pairs: int) -> None:
    """While one side runs either what both read waits, or what the other has written."""
    indexed = IndexedProblem.of(replace(tight(two_sides(pairs)), order=Order.FREE))
    order, descent = list(bits(indexed.all_operators)), no_descent(indexed)
    least = BestFirstSearch(indexed, Run()).solve().cost
    assert least is not None
    assert bound_near(indexed, descent, order, 0) < bound_near(indexed, descent, order, ALL) <= least
