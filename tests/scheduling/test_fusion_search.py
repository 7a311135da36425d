from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.fusion_objective import Criteria, sum_of
from onchip.answer.result import Status, Stop
from onchip.errors import InternalError
from onchip.scheduling.choice.search import LazySearch, best_of
from onchip.scheduling.choice.ways import Arc, PathToPlace, pareto
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.search.budget.limits import Limits, Run
from support.choice_problems import Problem, Table, problems, stopped_after


@pytest.mark.slow
@given(problems(), st.integers(1, 3))
def test_the_way_found_costs_what_the_best_of_all_does(problem: Problem, ahead: int) -> None:
    found = problem.solved(ahead=ahead)
    best = problem.best_value()
    if best is None:
        assert (found.status, found.way) == (Status.INFEASIBLE, None)
    else:
        assert found.way is not None
        assert (found.status, found.way.value, found.lower_bound) == (Status.OPTIMAL, best, best)
        costs = [problem.table.true[choice] for choice in found.way.choices]
        assert found.way.cost == sum_of([problem.begun, *(cost for cost in costs if cost is not None)])


@pytest.mark.slow
@given(problems())
def test_arcs_that_there_was_no_time_to_look_at_are_looked_at_where_the_way_leads(problem: Problem) -> None:
    never = Run()
    never.interrupt.set()
    ledger = Ledger(problem.table)
    search = LazySearch(problem.arcs, problem.last, problem.begun, ledger, listing=never)
    begun = [] if search.way is None else [search.way.value]
    found, whole = best_of([search], Run(), ""), problem.solved()
    assert (found.status, found.lower_bound) == (whole.status, whole.lower_bound)
    assert found.way is None or all(value <= found.way.value for value in begun)


@pytest.mark.slow
@given(problems())
def test_nothing_is_costed_twice(problem: Problem) -> None:
    problem.solved(ahead=2)
    assert len(problem.table.asked) == len(set(problem.table.asked))


def test_what_is_known_to_be_impossible_is_not_costed() -> None:
    table = Table({0: None, 1: None, 2: (3,)}, {0: 0, 1: 0, 2: 2})
    ledger = Ledger(table)

    assert ledger.bring_closer((0, 1, 2), Run())
    ledger.learn((0, 1, 2))

    assert table.asked == [1, 2]
    assert ledger.known == {0: None, 1: None, 2: (3,)}
    assert not ledger.bring_closer((0, 1, 2), Run())


@pytest.mark.slow
@given(problems(), st.integers(0, 4))
def test_stopped_early_it_has_a_bound_and_perhaps_a_way(problem: Problem, rounds: int) -> None:
    found = problem.solved(stopped_after(rounds))
    best = problem.best_value()
    if best is not None:
        assert found.lower_bound <= best
        assert found.way is None or found.way.value >= best
        assert (found.status is Status.OPTIMAL) == (found.stopped_by is Stop.COMPLETED)
    else:
        assert found.status in (Status.INFEASIBLE, Status.UNKNOWN)


@pytest.mark.slow
@given(st.lists(problems(), min_size=1, max_size=3).filter(lambda each: len({one.begun for one in each}) == 1))
def test_of_several_searches_the_best(several: list[Problem]) -> None:
    """Choices get numbers of their own, so that all share one ledger."""
    true: dict[int, Criteria | None] = {}
    slack: dict[int, int] = {}
    ledger = Ledger[int](Table(true, slack, len(several[0].begun)))
    searches = []
    for number, problem in enumerate(several):
        true.update({1000 * number + choice: cost for choice, cost in problem.table.true.items()})
        slack.update({1000 * number + choice: each for choice, each in problem.table.slack.items()})
        arcs = [Arc(a.source, a.target, tuple(1000 * number + choice for choice in a.choices)) for a in problem.arcs]
        searches.append(LazySearch(arcs, problem.last, problem.begun, ledger))
    found = best_of(searches, Run(), "")
    values = [value for problem in several if (value := problem.best_value()) is not None]
    assert (found.way.value if found.way else None) == min(values, default=None)


def test_what_is_spent_beforehand_decides_which_product_is_least() -> None:
    """(1, 9) is the lesser product; after (9, 0) were spent, (4, 4) is the better step."""
    table = Table({0: (1, 9), 1: (4, 4)}, {0: 0, 1: 0}, 2)
    ways = [Problem((Arc(0, 1, (0, 1)),), 1, table, begun).solved().way for begun in ((0, 0), (9, 0))]
    assert [way and (way.choices, way.value) for way in ways] == [((0,), 9), ((1,), 52)]


def test_without_steps_the_way_costs_what_it_begins_with() -> None:
    found = Problem((), 0, Table({}, {}), (7,)).solved()
    assert found.way is not None
    assert (found.status, found.way.choices, found.way.value, found.lower_bound) == (Status.OPTIMAL, (), 7, 7)


def test_a_choice_whose_bound_is_too_high_is_never_costed() -> None:
    table = Table({0: (5,), 1: (9,), 2: (7,)}, {0: 1, 1: 1, 2: 2})
    found = Problem((Arc(0, 1, (0, 1, 2)),), 1, table, (0,)).solved()
    assert found.way is not None
    assert found.way.choices == (0,)
    assert table.asked == [0]


def test_a_choice_whose_closer_bound_is_too_high_is_never_costed() -> None:
    table = Table({0: (90,), 1: (50,)}, {0: 60, 1: 10})
    problem = Problem((Arc(0, 1, (0, 1)),), 1, table, (0,))

    assert problem.solved().lower_bound == 50
    assert table.asked == [1]


def test_the_least_sum_of_products_is_not_made_of_the_least_products() -> None:
    """Energies and latencies: (1, 9) and (9, 1) are the least products, (4, 4) twice is the least of sums."""
    costs: dict[int, Criteria | None] = {0: (1, 9), 1: (4, 4), 2: (9, 1), 3: (4, 4)}
    problem = Problem((Arc(0, 1, (0, 1)), Arc(1, 2, (2, 3))), 2, Table(costs, dict.fromkeys(costs, 0), 2), (0, 0))
    found = problem.solved()
    assert found.way is not None
    assert (found.way.choices, found.way.value) == ((1, 3), 64)


def test_a_cost_below_its_bound_is_a_defect() -> None:
    class Wrong(Table):
        def bound(self, choice: int) -> Criteria:
            return (8,)

    with pytest.raises(InternalError, match="it costs"):
        Problem((Arc(0, 1, (0,)),), 1, Wrong({0: (7,)}, {0: 0}), (0,)).solved()


def test_no_time_is_no_answer() -> None:
    problem = Problem((Arc(0, 1, (0,)),), 1, Table({0: (7,)}, {0: 3}), (0,))
    found = problem.solved(Run(Limits(time_limit_seconds=0.0)))
    assert (found.status, found.lower_bound, found.stopped_by) == (Status.UNKNOWN, 4, Stop.TIME_LIMIT)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_a_front_keeps_what_no_other_is_as_good_as(costs: list[Criteria]) -> None:
    ways: list[PathToPlace[int]] = [PathToPlace(cost) for cost in costs]
    kept = [way.cost for way in pareto(ways)]
    for cost in costs:
        assert any(all(map(int.__le__, one, cost)) for one in kept)
    for one in kept:
        assert sum(all(map(int.__le__, other, one)) for other in kept) == 1
