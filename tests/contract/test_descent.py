"""What stands in for what is made of it: bounds hold whatever descends from what, and see what waits either way."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from onchip.answer.problem import Order, Problem
from onchip.bounds.retention.sure_gaps import Descent, SureGap, descent_of, no_descent, sure_gaps
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.retention.sure_gaps import SureGapsBound
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from onchip.model.lifetimes.precedence import Precedence, uses_of
from onchip.search.budget.limits import Run
from oracles.one_scratchpad import least_traffic, long_lived_graph, random_graph
from support.one_order import tight
from support.series import in_one_test


def free(graph: Graph, seed: int = 0) -> Problem:
    return replace(tight(graph, 1 + seed % 3, seed % 5), order=Order.FREE)


def some_problem(seed: int, operators: int) -> Problem:
    return free(long_lived_graph(seed, operators) if seed % 2 else random_graph(seed, operators), seed)


def any_descent(indexed: IndexedProblem, chance: Random) -> Descent:
    """Let each tensor that is written descend from any input of its operator, or from none."""
    inputs = ((-1, *indexed.read_lists[one]) if one >= 0 else (-1,) for one in indexed.producer)
    return Descent(tuple(map(chance.choice, inputs)))


def bound_with(indexed: IndexedProblem, descent: Descent) -> int:
    precedence = Precedence(indexed)
    return SureGapsBound(indexed, precedence, sure_gaps(indexed, precedence, descent)).solve(Run())


def there_and_back(layers: int) -> Graph:
    """A chain forward and one back, which reads differences from a mean that may be taken forward or on the way back.

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


def is_surely_a_gap(indexed: IndexedProblem, precedence: Precedence, gap: SureGap) -> bool:
    """Tell from the definition whether a gap is one, of its line and of what else is in its family."""
    used = mask_of(use for tensor in gap.tensors for use in uses_of(indexed, tensor))
    return bool(gap.befores and gap.afters) and all(
        not used >> one & 1
        and not gap.befores & ~(precedence.before[one] | 1 << one)
        and not gap.afters & ~(precedence.after[one] & indexed.readers[gap.tensors[0]])
        and used & precedence.before[one]
        for one in bits(gap.operators)
    )


@in_one_test("seed", range(30))
def test_a_gap_of_any_line_is_one_in_every_order(seed: int) -> None:
    indexed = IndexedProblem.of(some_problem(seed, 10))
    precedence, descent = Precedence(indexed), any_descent(indexed, Random(seed))
    for gap in sure_gaps(indexed, precedence, descent):
        assert gap.tensors == descent.line(gap.tensors[0])
        assert is_surely_a_gap(indexed, precedence, gap)


@in_one_test("seed", range(24))
def test_no_plan_of_any_order_costs_less_whatever_descends_from_what(seed: int) -> None:
    problem = some_problem(seed, 7)
    indexed, chance = IndexedProblem.of(problem), Random(seed)
    least = least_traffic(problem, with_addresses=False)
    assert least is not None
    for _ in range(3):
        assert bound_with(indexed, any_descent(indexed, chance)) <= least


@pytest.mark.parametrize("seeds", [range(at, at + 25) for at in range(100, 200, 25)])
def test_nor_does_the_best_one_of_a_search(seeds: range) -> None:
    higher = 0
    for seed in seeds:
        indexed, chance = IndexedProblem.of(some_problem(seed, 14)), Random(seed)
        least, alone = BestFirstSearch(indexed, Run()).solve().cost, bound_with(indexed, no_descent(indexed))
        assert least is not None
        for descent in (any_descent(indexed, chance), any_descent(indexed, chance)):
            bound = bound_with(indexed, descent)
            assert bound <= least, seed
            higher += bound > alone
    assert higher


@pytest.mark.parametrize("layers", [2, 3, 4])
def test_what_may_be_made_early_or_late_waits_either_way(layers: int) -> None:
    """Whoever asks what each tensor does by itself sees nothing that waits."""
    indexed = IndexedProblem.of(free(there_and_back(layers)))
    by_hand = [-1] * len(indexed.tensors)
    for tensor, one in enumerate(indexed.tensors):
        if one.name[0] in "de":
            by_hand[tensor] = indexed.read_lists[indexed.producer[tensor]][0]
    least = BestFirstSearch(indexed, Run()).solve().cost
    assert least is not None
    assert bound_with(indexed, no_descent(indexed)) < bound_with(indexed, Descent(tuple(by_hand))) <= least


def test_differences_descend_from_what_they_are_taken_of_where_much_lies_between() -> None:
    indexed = IndexedProblem.of(free(there_and_back(12)))
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
