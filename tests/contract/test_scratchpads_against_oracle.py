"""`exact` on several scratchpads against the exhaustive oracles: every order, choice, place and packing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import pytest

from onchip.answer.document import Claim
from onchip.answer.problem import Count, Objective, Order, Placement, Problem, Rate, Transfers
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.bounds.retention.sure_gaps import pooled
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.memory.retention.linked import Copies, LinkedModel
from onchip.memory.spill.exact import solve_exactly
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.verify.verifier import verify
from oracles.one_scratchpad import KeepOrDrop, Question, long_lived_graph, orders, random_graph
from oracles.scratchpads import least_arenas, least_bytes, least_cost_of_instructions
from support.series import series

CASES, CASES_TOGETHER = 260, 20
LARGEST_CHOICE = 3_000  # choices of evictions that the oracle enumerates, over all orders
PEAK_CASES = 60
TINY_CASES, TINY_CASES_TOGETHER = 60, 6
EVERYTHING = tuple(Operand)
HOLDS = (
    *(EVERYTHING,) * 4,
    (Operand.INPUT, Operand.WEIGHT),
    (Operand.OUTPUT,),
    (Operand.INPUT,),
    (Operand.INPUT, Operand.OUTPUT),
)


def tight(problem: Problem, chance: random.Random, greatest_bytes: int = 40) -> Problem | None:
    """Return the problem with scratchpads grown until every operator fits, or a byte larger; None beyond the limit."""
    while operators_that_do_not_fit(IndexedProblem.of(problem)):
        grown = chance.randrange(len(problem.memories))
        problem = replace(problem, memories=tuple(_grown(m, i == grown) for i, m in enumerate(problem.memories)))
        if sum(memory.capacity_bytes for memory in problem.memories) > greatest_bytes:
            return None
    more = chance.randrange(2 * len(problem.memories))
    return replace(problem, memories=tuple(_grown(m, i == more) for i, m in enumerate(problem.memories)))


def _grown(memory: Memory, is_grown: bool) -> Memory:
    return replace(memory, capacity_bytes=memory.capacity_bytes + is_grown)


def byte_problems() -> Iterator[Problem]:
    """Yield graphs of up to six operators with two to four scratchpads; some do not hold all operands."""
    for seed in count():
        chance = random.Random(seed)
        make = random_graph if seed % 3 else long_lived_graph
        is_static = seed % 7 == 0
        problem = Problem(
            make(seed, operators=chance.randint(3, 6), greatest_size=5),
            tuple(
                Memory(
                    f"s{i}", chance.randint(1, 4), chance.choice((1, 1, 2)), chance.choice(HOLDS[: 4 + 4 * (seed % 2)])
                )
                for i in range(chance.randint(2, 4))
            ),
            order=Order.GIVEN if is_static or seed % 4 == 0 else Order.FREE,
            count=Count.ALL if seed % 5 == 0 else Count.ACTIVATIONS,
            placement=Placement.STATIC if is_static else Placement.DYNAMIC,
        )
        found = tight(problem, chance)
        if (
            found is not None
            and sum(2 ** len(KeepOrDrop(Question.of(found), o).gaps) for o in orders(found)) <= LARGEST_CHOICE
        ):
            yield found


def tiny_problems() -> Iterator[Problem]:
    """Yield up to four operators with two scratchpads, random links, and rates that differ by place and direction."""
    for seed in count():
        chance = random.Random(seed)
        names = ("s0", "s1")
        ways = [(DRAM, name) for name in names] + [(name, DRAM) for name in names] + [("s0", "s1"), ("s1", "s0")]
        problem = Problem(
            long_lived_graph(seed, operators=chance.randint(2, 4), greatest_size=2, pairs=0.5),
            tuple(Memory(name, 1, holds=chance.choice(HOLDS)) for name in names),
            order=Order.GIVEN if seed % 2 else Order.FREE,
            transfers=Transfers(
                tuple(way for way in ways[4:] if chance.random() < 0.6),
                {way: Rate(chance.randint(0, 2), ((8, chance.randint(1, 3)),)) for way in ways} if seed % 3 else {},
            ),
        )
        found = tight(problem, chance, greatest_bytes=6)
        if found is not None and len(found.graph.tensors) <= 4:
            yield found


def verified(problem: Problem) -> SearchResult[Plan]:
    """Return the result of `exact`, after a check by the verifier."""
    result = solve_exactly(problem, Run())
    assert result.answer is not None
    assert result.objective_value is not None
    claim = Claim("exact", result.status, problem.objective, result.objective_value, result.lower_bound)
    assert verify(problem, result.answer, claim).violations == ()
    return result


def cases(problems: Iterator[Problem], number: int, together: int) -> list[list[Problem]]:
    found = list(islice(problems, number))
    return [found[start : start + together] for start in range(0, number, together)]


@pytest.mark.parametrize("problems", series(cases(byte_problems(), CASES, CASES_TOGETHER), 4))
def test_the_least_bytes_are_the_oracle_s(problems: list[Problem]) -> None:
    for problem in problems:
        result = verified(problem)
        assert result.objective_value == least_bytes(problem), problem.graph.name
        assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("problems", series(cases(tiny_problems(), TINY_CASES, TINY_CASES_TOGETHER), 3))
def test_the_least_cost_is_that_of_all_programs(problems: list[Problem]) -> None:
    """Covers links, rates, and tensors in two scratchpads at once or in a scratchpad that only passes them on."""
    for problem in problems:
        result, least = verified(problem), least_cost_of_instructions(problem)
        assert result.objective_value == least, problem.graph.name
        assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("problems", series(cases(byte_problems(), PEAK_CASES, CASES_TOGETHER), 1))
def test_the_least_arenas_are_the_oracle_s(problems: list[Problem]) -> None:
    for byte_problem in problems:
        roomier = tuple(replace(m, capacity_bytes=m.capacity_bytes + 4) for m in byte_problem.memories[:3])
        problem = replace(byte_problem, objective=Objective.PEAK, placement=Placement.DYNAMIC, memories=roomier)
        least, result = least_arenas(problem), solve_exactly(problem, Run())
        assert result.status is (Status.INFEASIBLE if least is None else Status.OPTIMAL), problem.graph.name
        assert result.objective_value == least
        if result.answer is not None:
            assert verify(problem, result.answer).violations == ()


@pytest.mark.slow
def test_the_models_of_copies_bound_all_programs_from_both_sides() -> None:
    """RELAXED never exceeds the minimum, nor does the lesser of TIMED and REPEATED; plans of TIMED cost its value."""
    repeated = 0
    for problem in (problem for problem in islice(tiny_problems(), TINY_CASES) if problem.transfers.links):
        indexed, least = IndexedProblem.of(problem), least_cost_of_instructions(problem)
        assert least is not None
        relaxed, timed, again = (LinkedModel(indexed, 0, None, copies).solve(Run()) for copies in Copies)
        assert relaxed.status is timed.status is Status.OPTIMAL
        assert relaxed.lower_bound <= least <= timed.lower_bound
        assert timed.answer is not None
        figures = verify(problem, timed.answer).figures
        assert figures.non_compulsory_cost == timed.objective_value
        if again.status is Status.OPTIMAL:
            repeated += 1
            assert min(timed.lower_bound, again.lower_bound) <= least
    assert repeated > 5


@pytest.mark.slow
def test_the_pool_of_all_scratchpads_is_a_bound_for_each_order_with_links_and_rates() -> None:
    for problem in islice(tiny_problems(), TINY_CASES):
        least = least_cost_of_instructions(problem)
        assert least is not None
        indexed = IndexedProblem.of(problem)
        relaxed = pooled(indexed)
        one = replace(relaxed.indexed, problem=replace(relaxed.indexed.problem, memories=(relaxed.indexed.memory,)))
        kept = (KeptGaps(one, order).solve(Run()).lower_bound for order in orders(problem))
        assert min(kept) + relaxed.forced_cost <= least


@pytest.mark.slow
def test_the_cases_are_worth_it() -> None:
    values = [least_bytes(problem) for problem in islice(byte_problems(), 80)]
    assert sum(value is not None and value > 0 for value in values) >= 20
