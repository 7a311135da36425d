from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.result import Status, Stop
from onchip.errors import InternalError
from onchip.solve.run.limits import Limits, Progress, Run
from onchip.solve.stacks.cost_table import Ledger
from onchip.solve.stacks.guided import Estimates, GuidedSearch
from onchip.solve.stacks.objective import Criteria, sum_of, value_of
from onchip.solve.stacks.search import FoundWay, LazySearch, best_of
from onchip.solve.stacks.ways import Arc, PathToPlace, pareto


@dataclass
class Table:
    """True costs (None: cannot be), and how far below them the bounds are; those of even choices get half as far."""

    true: dict[int, Criteria | None]
    slack: dict[int, int]
    criteria: int = 1
    asked: list[int] = field(default_factory=list)
    least_asked: int = 0

    def bound(self, choice: int) -> Criteria:
        cost = self.true[choice] or (0,) * self.criteria
        return tuple(max(part - self.slack[choice], 0) for part in cost)

    def closer(self, choice: int) -> Criteria | None:
        cost = self.true[choice]
        if choice % 2 or cost is None:
            return None
        return tuple(max(part - self.slack[choice] // 2, 0) for part in cost)

    def least(self, choices: Sequence[int]) -> Criteria:
        """Below all bounds, less so each time that it is asked."""
        self.least_asked += 1
        bounds = [self.bound(choice) for choice in choices]
        return tuple(max(min(each) - 9 // self.least_asked, 0) for each in zip(*bounds, strict=True))

    def parts(self, choice: int) -> Sequence[int]:
        return ()

    def by_bound(self, choice: int) -> Iterator[int]:
        yield choice

    def costs(self, choices: Sequence[int]) -> list[Criteria | None]:
        self.asked.extend(choices)
        return [self.true[choice] for choice in choices]


@dataclass(frozen=True)
class Problem:
    arcs: tuple[Arc[int], ...]
    last: int
    table: Table
    begun: Criteria

    def solved(self, run: Run | None = None, ahead: int = 1) -> FoundWay[int]:
        search = LazySearch(self.arcs, self.last, self.begun, Ledger(self.table), ahead)
        return best_of([search], run or Run(), "")

    def every_way(self, place: int = 0) -> Iterator[tuple[int, ...]]:
        if place == self.last:
            yield ()
        for arc in self.arcs:
            if arc.source == place:
                for choice in arc.choices:
                    yield from ((choice, *rest) for rest in self.every_way(arc.target))

    def best_value(self) -> int | None:
        values = []
        for way in self.every_way():
            costs = [cost for choice in way if (cost := self.table.true[choice]) is not None]
            if len(costs) == len(way):
                values.append(value_of(sum_of([self.begun, *costs])))
        return min(values, default=None)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    last, criteria = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    arcs: list[Arc[int]] = []
    true: dict[int, Criteria | None] = {}
    for source in range(last):
        for target in range(source + 1, last + 1):
            count = draw(st.integers(0, 3))
            arcs.append(Arc(source, target, tuple(range(len(true), len(true) + count))))
            for _ in range(count):
                cost = draw(st.none() | st.tuples(*[st.integers(0, 9)] * criteria))
                true[len(true)] = cost
    table = Table(true, {choice: draw(st.integers(0, 9)) for choice in true}, criteria)
    begun = draw(st.tuples(*[st.integers(0, 9)] * criteria))
    return Problem(tuple(draw(st.permutations(arcs))), last, table, begun)


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


@given(problems())
def test_nothing_is_costed_twice(problem: Problem) -> None:
    problem.solved(ahead=2)
    assert len(problem.table.asked) == len(set(problem.table.asked))


@given(problems(), st.integers(0, 4))
def test_stopped_early_it_has_a_bound_and_perhaps_a_way(problem: Problem, rounds: int) -> None:
    run = Run()

    def stop_after(_: Progress) -> None:
        nonlocal rounds
        rounds -= 1
        if rounds < 0:
            run.interrupt.set()

    run.listener = stop_after
    found = problem.solved(run)
    best = problem.best_value()
    if best is not None:
        assert found.lower_bound <= best
        assert found.way is None or found.way.value >= best
        assert (found.status is Status.OPTIMAL) == (found.stopped_by is Stop.COMPLETED)
    else:
        assert found.status in (Status.INFEASIBLE, Status.UNKNOWN)


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


def kind_of(choice: int) -> Hashable:
    return choice % 2


def improved(
    problem: Problem, run: Run | None = None, best: PathToPlace[int] | None = None, ahead: int = 1
) -> tuple[PathToPlace[int] | None, Ledger[int]]:
    ledger = Ledger[int](problem.table)
    search = GuidedSearch(problem.arcs, problem.last, problem.begun, Estimates(ledger, kind_of), ahead, best)
    return search.improve(run or Run(), ""), ledger


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


@given(problems())
def test_from_there_on_the_best_is_proven_and_nothing_costed_twice(problem: Problem) -> None:
    start, ledger = improved(problem)
    search = LazySearch(problem.arcs, problem.last, problem.begun, ledger)
    found = best_of([search], Run(), "", start)
    assert (found.way.value if found.way else None) == problem.best_value()
    assert found.status in (Status.OPTIMAL, Status.INFEASIBLE)
    assert len(problem.table.asked) == len(set(problem.table.asked))


@given(problems(), st.integers(0, 4))
def test_stopped_early_it_has_nothing_or_a_way(problem: Problem, rounds: int) -> None:
    run = Run()

    def stop_after(_: Progress) -> None:
        nonlocal rounds
        rounds -= 1
        if rounds < 0:
            run.interrupt.set()

    run.listener = stop_after
    way, _ = improved(problem, run)
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
