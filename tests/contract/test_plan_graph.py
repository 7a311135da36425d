"""The graph of all plans in bytes, and the plans that pack, against brute force over orders, choices and packings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from onchip.answer.problem import Count, Order, Problem
from onchip.arch.memory import Memory
from onchip.memory.decisions import PlannedResidency, compose
from onchip.memory.spill.placed_plans import (
    NO_HISTORY,
    START,
    Histories,
    PlacedPlans,
    PlanGraph,
    PlanState,
    ResidencyHistory,
)
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.verify.verifier import verify
from oracles.one_scratchpad import KeepOrDrop, least_traffic, long_lived_graph, orders, random_graph
from oracles.packing import fits
from support.series import in_one_test, series

AMPLE = 10**6
Step = tuple[int, PlanState]


@dataclass(frozen=True)
class Path:
    """A plan in bytes: the operators in execution order, and the resident tensors at each."""

    cost: int
    steps: tuple[Step, ...]


def tight_problem(seed: int, operators: int = 5, alignment: int = 1) -> Problem:
    """Return a problem with the capacity that the neediest operator requires, or one byte more."""
    graph = (random_graph, long_lived_graph)[seed % 2](seed, operators)
    order = Order.GIVEN if seed % 4 == 3 else Order.FREE
    problem = Problem(graph, (Memory("sram", AMPLE, alignment),), order=order, count=tuple(Count)[seed % 5 == 0])
    capacity_bytes = greatest_need(problem).need_bytes + seed % 3 % 2
    return replace(problem, memories=(Memory("sram", capacity_bytes, alignment),))


def paths(graph: PlanGraph, state: PlanState = START) -> Iterator[Path]:
    """Yield every path from a state to the end."""
    passages = graph.passages.get(state)
    if passages is not None and not passages and state in graph.least_rest:
        yield Path(0, ())
    for operator, ways in (passages or {}).items():
        for cost, target in ways:
            for rest in paths(graph, target):
                yield Path(cost + rest.cost, ((operator, target), *rest.steps))


@in_one_test("seed", range(40))
def test_its_paths_are_every_order_and_every_choice_that_fits(seed: int) -> None:
    problem, most_cost = tight_problem(seed), 12
    expected: Counter[int] = Counter()
    for order in orders(problem):
        choices = KeepOrDrop(problem, order)
        for cost, cut in choices.cheaper_than(most_cost + 1):
            lives = choices.residencies(cut)
            live = [sum(size for start, stop, size in lives if start <= step < stop) for step in range(len(order))]
            if max(live) <= problem.memories[0].capacity_bytes:
                expected[cost] += 1

    graph = PlanGraph(IndexedProblem.of(problem), most_cost, AMPLE, Run())

    assert Counter(path.cost for path in paths(graph) if path.cost <= most_cost) == expected
    assert graph.least_rest.get(START, AMPLE) == min(expected, default=AMPLE)


@in_one_test("seed", range(30))
def test_of_too_many_passages_those_of_the_cheapest_plans_are_all_there(seed: int) -> None:
    indexed = IndexedProblem.of(tight_problem(seed))
    whole = PlanGraph(indexed, 30, AMPLE, Run())
    part = PlanGraph(
        indexed, 30, sum(len(ways) for one in whole.passages.values() for ways in one.values()) // 3, Run()
    )

    assert part.most_cost < whole.most_cost
    cheap = [{path for path in paths(graph) if path.cost <= part.most_cost} for graph in (whole, part)]
    assert cheap[0] == cheap[1]
    for state, rest in whole.least_rest.items():
        known = part.least_rest.get(state)
        assert known is None or known >= rest


@pytest.mark.parametrize("seed", series(range(60), 30))
def test_what_a_history_leaves_out_does_not_change_what_packs(seed: int) -> None:
    """At each step of every cheap plan, as long as it has packed before."""
    problem = tight_problem(seed, 6, alignment=1 + seed % 3 // 2)
    indexed = IndexedProblem.of(problem)
    histories, graph = Histories(indexed), PlanGraph(indexed, 8, AMPLE, Run())
    verdicts: defaultdict[bool, int] = defaultdict(int)

    def walk(state: PlanState, whole: ResidencyHistory, reduced: ResidencyHistory, step: int) -> None:
        for operator, ways in graph.passages.get(state, {}).items():
            with_whole, with_reduced = (histories.with_operands(one, operator, step) for one in (whole, reduced))
            packs = fits_of(problem, indexed, with_whole.until(step + 1))
            assert fits_of(problem, indexed, with_reduced.until(step + 1)) == packs
            verdicts[packs] += 1
            for _, target in ways if packs and sum(verdicts.values()) < 400 else ():
                walk(
                    target,
                    everything_after(with_whole, target.kept, step + 1),
                    histories.after(with_reduced, target.kept, step + 1),
                    step + 1,
                )

    walk(START, NO_HISTORY, NO_HISTORY, 0)
    assert verdicts[True]


def everything_after(history: ResidencyHistory, kept: int, stop: int) -> ResidencyHistory:
    """Return the history after a step, with all ended residencies."""
    left = [PlannedResidency(tensor, start, stop) for tensor, start in history.begun if not kept >> tensor & 1]
    return ResidencyHistory((*history.ended, *left), tuple(one for one in history.begun if kept >> one[0] & 1))


def fits_of(problem: Problem, indexed: IndexedProblem, residencies: tuple[PlannedResidency, ...]) -> bool:
    memory = problem.memories[0]
    buffers = [(one.start, one.stop, indexed.sizes_bytes[one.tensor]) for one in residencies]
    return fits(buffers, memory.capacity_bytes, memory.alignment_bytes)


@in_one_test("seed", range(40))
def test_beginnings_that_have_left_the_same_go_on_alike(seed: int) -> None:
    problem = tight_problem(seed)
    indexed = IndexedProblem.of(problem)
    histories, graph = Histories(indexed), PlanGraph(indexed, 6, AMPLE, Run())
    verdicts: dict[object, bool] = {}
    for path in list(paths(graph))[:600]:
        whole = reduced = NO_HISTORY
        left: list[tuple[int, object]] = []
        for step, (operator, target) in enumerate(path.steps):
            whole, reduced = (histories.with_operands(one, operator, step) for one in (whole, reduced))
            if not fits_of(problem, indexed, whole.until(step + 1)):
                break
            whole = everything_after(whole, target.kept, step + 1)
            reduced = histories.after(reduced, target.kept, step + 1)
            left.append((step + 1, (target, reduced.pairs(step + 1))))
        packs = len(left) == len(path.steps)
        for step, key in left:
            assert verdicts.setdefault((key, path.steps[step:]), packs) == packs


@pytest.mark.parametrize("seed", series(range(80), 40))
def test_the_first_plan_with_addresses_is_the_oracle_s(seed: int) -> None:
    problem = tight_problem(seed, 6 + seed % 2, alignment=1 + seed % 3)
    indexed, expected = IndexedProblem.of(problem), least_traffic(problem)
    assert expected is not None
    plans = PlacedPlans(indexed, PlanGraph(indexed, expected, AMPLE, Run()), Run())
    plans.solve(AMPLE)

    assert plans.plan is not None
    assert plans.plan.cost == plans.lower_bound == expected
    plan = compose(indexed, plans.plan.schedule, plans.plan.offsets_bytes)
    verdict = verify(problem, plan)
    assert verdict.violations == ()
    assert verdict.figures.objective_value(problem.objective) == expected


@pytest.mark.parametrize(("operators", "seed", "capacity_bytes"), [(9, 380, 20), (9, 2628, 17), (10, 2757, 30)])
def test_below_the_optimum_there_is_none_and_every_bound_on_the_way_holds(
    operators: int, seed: int, capacity_bytes: int
) -> None:
    problem = Problem(long_lived_graph(seed, operators), (Memory("sram", capacity_bytes),), order=Order.GIVEN)
    indexed, expected = IndexedProblem.of(problem), least_traffic(problem)
    assert expected is not None
    graph = PlanGraph(indexed, expected - 1, AMPLE, Run())
    bounds = []
    for most_beginnings in (0, 1, 2, 5, 10, 20, AMPLE):
        plans = PlacedPlans(indexed, graph, Run())
        plans.solve(most_beginnings)
        assert plans.plan is None
        bounds.append(plans.lower_bound)

    assert bounds == sorted(bounds)
    assert bounds[-1] == expected


@pytest.mark.parametrize(
    ("operators", "seed", "capacity_bytes", "order"), [(10, 32, 25, Order.GIVEN), (9, 125, 24, Order.FREE)]
)
def test_the_same_residents_may_pack_on_after_one_history_and_not_after_another(
    operators: int, seed: int, capacity_bytes: int, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(long_lived_graph(seed, operators), (Memory("sram", capacity_bytes),), order=order)
    indexed, expected = IndexedProblem.of(problem), least_traffic(problem)
    assert expected is not None
    graph = PlanGraph(indexed, expected, AMPLE, Run())
    plans = PlacedPlans(indexed, graph, Run())
    plans.solve(AMPLE)
    assert plans.plan is not None
    assert plans.plan.cost == expected

    monkeypatch.setattr(ResidencyHistory, "pairs", lambda history, stop: frozenset())
    forgetful = PlacedPlans(indexed, graph, Run())
    forgetful.solve(AMPLE)
    assert forgetful.plan is None
