from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.fusion_objective import sum_of
from onchip.answer.result import Status
from onchip.scheduling.choice.guided import Estimates, GuidedSearch
from onchip.scheduling.choice.search import LazySearch, best_of
from onchip.scheduling.choice.ways import Arc, PathToPlace
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.search.budget.limits import Limits, Run
from support.choice_problems import Problem, Table, problems, stopped_after


def kind_of(choice: int) -> Hashable:
    return choice % 2


def improved(
    problem: Problem, run: Run | None = None, best: PathToPlace[int] | None = None, ahead: int = 1
) -> tuple[PathToPlace[int] | None, Ledger[int]]:
    ledger = Ledger[int](problem.table)
    search = GuidedSearch(problem.arcs, problem.last, problem.begun, Estimates(ledger, kind_of), ahead, best)
    return search.improve(run or Run(), ""), ledger


@pytest.mark.slow
@given(problems(), st.integers(1, 3))
def test_the_way_that_estimates_lead_to_is_one_and_all_of_it_is_costed(problem: Problem, ahead: int) -> None:
    way, _ = improved(problem, ahead=ahead)
    best = problem.best_value()
    if way is None:
        assert best is None
        return
    assert way.choices in set(problem.every_way())
    costs = [problem.table.true[choice] for choice in way.choices]
    assert way.cost == sum_of([problem.begun, *(cost for cost in costs if cost is not None)])
    assert None not in costs
    assert best is not None
    assert way.value >= best


@pytest.mark.slow
@given(problems())
def test_from_there_on_the_best_is_proven_and_nothing_costed_twice(problem: Problem) -> None:
    start, ledger = improved(problem)
    search = LazySearch(problem.arcs, problem.last, problem.begun, ledger)
    found = best_of([search], Run(), "", start)
    assert (found.way.value if found.way else None) == problem.best_value()
    assert found.status in (Status.OPTIMAL, Status.INFEASIBLE)
    assert len(problem.table.asked) == len(set(problem.table.asked))


@pytest.mark.slow
@given(problems(), st.integers(0, 4))
def test_stopped_early_it_has_nothing_or_a_way(problem: Problem, rounds: int) -> None:
    way, _ = improved(problem, stopped_after(rounds))
    assert way is None or way.choices in set(problem.every_way())


def test_a_way_that_is_given_is_never_made_worse() -> None:
    problem = Problem((Arc(0, 1, (0, 1)),), 1, Table({0: (5,), 1: (9,)}, {0: 0, 1: 8}), (0,))
    given_way: PathToPlace[int] = PathToPlace((5,), 0, PathToPlace((0,)))
    for run in (Run(), Run(Limits(time_limit_seconds=0.0))):
        way, _ = improved(problem, run, given_way)
        assert way is not None
        assert way.value == 5


def test_bounds_that_are_far_too_low_do_not_lead_astray_once_their_kind_is_known() -> None:
    """Choices of even number cost ten times their bounds, those of odd number what their bounds say."""
    true: dict[int, tuple[int, ...] | None] = {0: (100,), 1: (60,), 2: (110,), 3: (50,), 4: (120,), 6: (130,)}
    table = Table(true, {0: 90, 1: 0, 2: 99, 3: 0, 4: 108, 6: 117})
    way, _ = improved(Problem((Arc(0, 1, (0, 2, 4, 6, 1)), Arc(1, 2, (3,))), 2, table, (0,)))
    assert way is not None
    assert way.choices == (1, 3)
    assert sorted(table.asked) == [0, 1, 3]


def test_estimates_lie_between_bounds_and_what_the_kind_costs() -> None:
    table = Table({0: (20,), 2: (30,), 4: (44,)}, {0: 10, 2: 15, 4: 22})
    ledger = Ledger[int](table)
    estimates = Estimates(ledger, kind_of)
    ledger.learn([0, 2])
    estimates.learn()
    assert (estimates.of(0), estimates.of(2)) == ((20,), (30,))
    assert estimates.of(4) == (43,)
    estimates.share = 0.0
    assert estimates.of(4) == (22,)
