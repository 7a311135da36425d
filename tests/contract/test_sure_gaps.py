"""Gap bounds for any order: no plan costs less, for any descent of tensors, near any order, at any reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.problem import Order, Problem
from onchip.bounds.retention.sure_gaps import (
    Descent,
    PossibleGap,
    PossibleGaps,
    SureGap,
    descent_of,
    no_descent,
    sure_gaps,
)
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.retention.sure_gaps import SureGapsBound
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.lifetimes.indexed import IndexedProblem, Precedence, bits, mask_of, uses_of
from onchip.search.budget.limits import Run
from oracles.one_scratchpad import least_traffic, long_lived_graph, orders, random_graph
from support.one_order import tight
from support.series import in_one_test, series

ALL = 1_000_000
"""A reach at which any two operators are near one another."""
WITHOUT_UNUSED = [seed for seed in range(60) if seed % 3]
"""Seeds of problems in which every tensor is used."""


def odd_graph(seed: int, operators: int) -> Graph:
    """Return a graph with inputs of any age, several outputs per operator, outputs that are read, and weights."""
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


def bound_with(indexed: IndexedProblem, descent: Descent) -> int:
    """Return the bound of sure gaps alone."""
    return bound_near(indexed, descent, list(bits(indexed.all_operators)), 0)


def free(graph: Graph) -> IndexedProblem:
    return IndexedProblem.of(replace(tight(graph), order=Order.FREE))


def least_in_bytes(indexed: IndexedProblem) -> int:
    cost = BestFirstSearch(indexed, Run()).solve().cost
    assert cost is not None
    return cost


@in_one_test("seed", WITHOUT_UNUSED)
def test_a_sure_gap_is_one_in_every_order(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 10))
    precedence = Precedence(indexed)
    for gap in sure_gaps(indexed, precedence):
        own = mask_of(uses_of(indexed, gap.family))
        assert gap.befores
        assert gap.afters
        assert not gap.operators & own
        for operator in bits(gap.operators):
            assert gap.befores == precedence.before[operator] & own
            assert gap.afters == precedence.after[operator] & own & indexed.readers[gap.family]


def is_surely_a_gap(indexed: IndexedProblem, precedence: Precedence, gap: SureGap) -> bool:
    """Return True if the gap satisfies the definition for its line and the other members of its family."""
    used = mask_of(use for tensor in gap.tensors for use in uses_of(indexed, tensor))
    return bool(gap.befores and gap.afters) and all(
        not used >> one & 1
        and not gap.befores & ~(precedence.before[one] | 1 << one)
        and not gap.afters & ~(precedence.after[one] & indexed.readers[gap.tensors[0]])
        and used & precedence.before[one]
        for one in bits(gap.operators)
    )


@in_one_test("seed", WITHOUT_UNUSED)
def test_a_gap_of_any_line_is_one_in_every_order(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 10))
    precedence, descent = Precedence(indexed), any_descent(indexed, Random(seed))
    for gap in sure_gaps(indexed, precedence, descent):
        assert gap.tensors == descent.line(gap.tensors[0])
        assert is_surely_a_gap(indexed, precedence, gap)


@in_one_test("seed", WITHOUT_UNUSED)
def test_gaps_end_with_the_time_and_bound_with_those_so_far(seed: int) -> None:
    indexed, chance = IndexedProblem.of(some_problem(seed, 10)), Random(seed)
    precedence, descent = Precedence(indexed), any_descent(indexed, chance)
    asked = [False] * chance.randint(0, 12)
    found = list(sure_gaps(indexed, precedence, descent, lambda: not asked or asked.pop()))
    every = list(sure_gaps(indexed, precedence, descent))
    assert found == every[: len(found)]
    bounds = [SureGapsBound(indexed, precedence, gaps).solve(Run()) for gaps in (found, every)]
    assert bounds == sorted(bounds)


def some_bounds(indexed: IndexedProblem, chance: Random) -> Iterator[int]:
    yield bound_with(indexed, no_descent(indexed))
    for reach in (0, 0, chance.choice((3, 10, 40)), ALL):
        yield bound_near(indexed, any_descent(indexed, chance), any_order(indexed, chance), reach)


@in_one_test("seed", range(30))
def test_no_plan_of_any_order_costs_less_than_any_of_the_bounds(seed: int) -> None:
    problem = some_problem(seed, 6 - seed % 3 // 2)
    least = least_traffic(problem)
    assert least is not None
    assert max(some_bounds(IndexedProblem.of(problem), Random(seed))) <= least


@pytest.mark.parametrize("seeds", series([range(at, at + 15) for at in range(100, 190, 15)], 1))
def test_nor_does_the_best_one_of_a_search(seeds: range) -> None:
    of_tensors = []
    for seed in seeds:
        indexed = IndexedProblem.of(some_problem(seed, 12))
        alone, *others = some_bounds(indexed, Random(seed))
        assert max(alone, *others) <= least_in_bytes(indexed), seed
        of_tensors.append(alone)
    assert any(of_tensors)


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


def is_one_in(gap: PossibleGap, order: tuple[int, ...], indexed: IndexedProblem) -> bool:
    """Return True if, in this order, a tensor is used before the operator runs and read after it."""
    step = order.index(gap.operator)
    used = any(order.index(use) < step for use in uses_of(indexed, gap.tensors[0]))
    return used and any(order.index(reader) > step for reader in indexed.reader_lists[gap.tensors[0]])


def says_it_is_one_in(gap: PossibleGap, order: tuple[int, ...]) -> bool:
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
        assert all(is_one_in(gap, order, indexed) == says_it_is_one_in(gap, order) for order in orders(problem))


@in_one_test("seed", range(12))
def test_within_less_reach_a_gap_is_one_wherever_it_says_so(seed: int) -> None:
    problem = some_problem(seed, 6)
    indexed, chance = IndexedProblem.of(problem), Random(seed)
    near = PossibleGaps(indexed, Precedence(indexed), no_descent(indexed), any_order(indexed, chance), 20)
    for gap in near:
        for order in orders(problem):
            assert is_one_in(gap, order, indexed) or not says_it_is_one_in(gap, order)


def training_step(layers: int) -> Graph:
    """Return a chain forward and a chain back that reads the outputs of the forward steps, as in training."""
    tensors = [Tensor("x0", 5, Role.INPUT)]
    tensors += [Tensor(f"x{i}", 5 + i % 3, Role.ACTIVATION) for i in range(1, layers + 1)]
    tensors += [Tensor(f"g{i}", 5, Role.ACTIVATION) for i in range(layers, 0, -1)] + [Tensor("g0", 5, Role.OUTPUT)]
    forward = [Operator(f"f{i}", "Op", (f"x{i - 1}",), (f"x{i}",)) for i in range(1, layers + 1)]
    turn = Operator("turn", "Op", (f"x{layers}",), (f"g{layers}",))
    backward = [Operator(f"b{i}", "Op", (f"g{i}", f"x{i}"), (f"g{i - 1}",)) for i in range(layers, 0, -1)]
    return Graph("there and back", tuple(tensors), (*forward, turn, *backward))


@pytest.mark.parametrize("layers", [3, 6, 9])
def test_there_and_back_what_surely_waits_is_all_that_is_paid(layers: int) -> None:
    indexed = free(training_step(layers))
    assert bound_with(indexed, no_descent(indexed)) == least_in_bytes(indexed) > 0


def there_and_back(layers: int) -> Graph:
    """Return a chain forward and a chain back; the latter reads differences that either chain may compute.

    Each is read twice, as a normalisation's gradient does.
    """
    forth, back = range(1, layers + 1), range(layers, 0, -1)
    tensors = [Tensor("x0", 5, Role.INPUT), *(Tensor(f"x{i}", 7, Role.ACTIVATION) for i in forth)]
    tensors += [Tensor(f"{kind}{i}", 7, Role.ACTIVATION) for i in forth for kind in ("d", "e", "g", "h")]
    tensors += [Tensor("g0", 5, Role.OUTPUT)]
    operators = [Operator(f"f{i}", "Op", (f"x{i - 1}",), (f"x{i}",)) for i in forth]
    operators += [Operator("turn", "Op", (f"x{layers}",), (f"g{layers}",))]
    for i in back:
        operators += [
            Operator(f"sub{i}", "Op", (f"x{i}",), (f"d{i}",)),
            Operator(f"mul{i}", "Op", (f"g{i}", f"d{i}"), (f"h{i}",)),
            Operator(f"again{i}", "Op", (f"x{i}",), (f"e{i}",)),
            Operator(f"back{i}", "Op", (f"h{i}", f"e{i}"), (f"g{i - 1}",)),
        ]
    return Graph("there and back", tuple(tensors), tuple(operators))


@pytest.mark.parametrize("layers", [2, 3, 4])
def test_what_may_be_made_early_or_late_waits_either_way(layers: int) -> None:
    """A bound that considers each tensor alone finds no tensor that waits."""
    indexed = free(there_and_back(layers))
    by_hand = [-1] * len(indexed.tensors)
    for tensor, one in enumerate(indexed.tensors):
        if one.name[0] in "de":
            by_hand[tensor] = indexed.read_lists[indexed.producer[tensor]][0]
    bound = bound_with(indexed, Descent(tuple(by_hand)))
    assert bound_with(indexed, no_descent(indexed)) < bound <= least_in_bytes(indexed)


def test_differences_descend_from_what_they_are_taken_of_where_much_lies_between() -> None:
    indexed = free(there_and_back(12))
    descent = descent_of(indexed, Precedence(indexed))
    names = [tensor.name for tensor in indexed.tensors]
    parents = {names[tensor]: names[parent] for tensor, parent in enumerate(descent.parents) if parent >= 0}
    assert {f"e{i}": f"x{i}" for i in range(1, 9)}.items() <= parents.items()
    assert bound_with(indexed, no_descent(indexed)) < bound_with(indexed, descent)


@in_one_test("seed", range(20))
def test_what_descends_is_written_by_a_reader_of_what_it_descends_from_and_is_no_smaller(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 30))
    descent = descent_of(indexed, Precedence(indexed))
    for tensor, parent in enumerate(descent.parents):
        if parent >= 0:
            assert parent in indexed.read_lists[indexed.producer[tensor]]
            assert indexed.room.units[descent.firsts[tensor]] <= indexed.room.units[tensor]
    assert sorted(tensor for family in descent.families for tensor in family) == list(range(len(descent.parents)))


def two_sides(pairs: int) -> Graph:
    """Return pairs of sides that read the same tensor; each side widens and narrows it before an Add joins the pair."""
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
    """During one side, either the common input waits, or the output of the other side."""
    indexed = free(two_sides(pairs))
    bound = bound_near(indexed, no_descent(indexed), list(bits(indexed.all_operators)), ALL)
    assert bound_with(indexed, no_descent(indexed)) < bound <= least_in_bytes(indexed)
