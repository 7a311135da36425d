"""The scheduler of strategies, with strategies that only count: their shares, and the end of the search."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import inf

import pytest

from onchip.answer.result import Status, Stop
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Budget, Limits, Progress, Run
from onchip.search.strategy.portfolio import Incumbent, Portfolio, Stepped, Strategy


class Counted(Strategy):
    """A strategy that lowers the value by `gain` per node and ends after `end` nodes."""

    name = "counted"

    def __init__(
        self, incumbent: Incumbent[int], gain: int = 0, end: float = inf, nodes_without_limit: float = 1_000
    ) -> None:
        super().__init__(incumbent, incumbent.run, 1.0, nodes_without_limit)
        self.gain, self.end = gain, end
        self.quanta: list[float] = []
        self.nodes = 0.0

    def step(self, quantum: float) -> float:
        self.quanta.append(quantum)
        return super().step(quantum)

    def advance(self, nodes: float) -> float:
        self.nodes += 1
        if self.gain:
            value = (self.incumbent.value or 1_000_000) - self.gain
            self.incumbent.keep(value, value, self.name)
        if self.nodes >= self.end:
            self.ended_by = Stop.COMPLETED
        return 1.0


class Failing(Counted):
    """A strategy that runs out of memory at once."""

    def advance(self, nodes: float) -> float:
        raise MemoryError


def searched(
    limits: Limits, *makers: Callable[[Incumbent[int]], Counted], run: Run | None = None
) -> tuple[Incumbent[int], list[Counted], Stop]:
    incumbent = Incumbent[int](run or Run(limits))
    strategies = [make(incumbent) for make in makers]
    return incumbent, strategies, Portfolio(incumbent, strategies, Budget(incumbent.run)).solve()


def test_quanta_double_and_the_last_is_what_is_left() -> None:
    _, (only,), stop = searched(Limits(node_limit=20), Counted)

    assert only.quanta == [1, 2, 4, 8, 5]
    assert (only.nodes, stop) == (20, Stop.NODE_LIMIT)


def test_strategies_that_gain_nothing_differ_by_one_quantum_at_most() -> None:
    _, (one, other), _ = searched(Limits(node_limit=3_000), Counted, Counted)

    assert abs(one.nodes - other.nodes) <= max(one.quanta)


def test_the_strategy_that_gains_more_gets_more_and_no_one_starves() -> None:
    _, (idle, slow, fast), _ = searched(
        Limits(node_limit=60_000), Counted, lambda shared: Counted(shared, 1), lambda shared: Counted(shared, 5)
    )

    assert fast.nodes > slow.nodes > 0.1 * fast.nodes
    assert idle.nodes > 0.1 * fast.nodes


def test_the_same_node_limit_gives_the_same_turns() -> None:
    def turns() -> list[list[float]]:
        _, strategies, _ = searched(Limits(node_limit=5_000), lambda shared: Counted(shared, 2), Counted)
        return [one.quanta for one in strategies]

    assert turns() == turns()


def test_one_that_ends_leaves_its_share_to_the_others() -> None:
    _, (short, long), stop = searched(Limits(node_limit=500), lambda shared: Counted(shared, end=3), Counted)

    assert (short.nodes, long.nodes, stop) == (3, 497, Stop.NODE_LIMIT)


def test_the_search_ends_when_all_strategies_have_ended() -> None:
    incumbent, _, stop = searched(Limits(), lambda shared: Counted(shared, end=3), lambda shared: Counted(shared, 1, 4))

    assert stop is Stop.COMPLETED
    assert incumbent.result("counted").status is Status.FEASIBLE


def test_an_endless_strategy_ends_in_a_run_without_limits() -> None:
    _, (ending, endless), stop = searched(Limits(), lambda shared: Counted(shared, 0, 5_000, inf), Counted)

    assert ending.nodes == 5_000
    assert 1_000 <= endless.nodes <= 2_100
    assert stop is Stop.NODE_LIMIT


def test_the_search_ends_when_the_answer_attains_the_bound() -> None:
    incumbent = Incumbent[int](Run(), lower_bound=999_990)
    strategies = [Counted(incumbent, 1), Counted(incumbent)]

    assert Portfolio(incumbent, strategies, Budget(incumbent.run)).solve() is Stop.COMPLETED
    assert incumbent.result("counted").status is Status.OPTIMAL
    assert incumbent.value == 999_990


def test_the_search_ends_when_there_is_proven_to_be_no_answer() -> None:
    incumbent = Incumbent[int](Run())
    incumbent.is_infeasible = True

    assert Portfolio(incumbent, [Counted(incumbent)], Budget(incumbent.run)).solve() is Stop.COMPLETED
    assert incumbent.result("counted").status is Status.INFEASIBLE


def test_out_of_memory_ends_one_strategy_and_no_other() -> None:
    incumbent, (_, other), stop = searched(Limits(), Failing, lambda shared: Counted(shared, 1, 50))

    assert (other.nodes, stop) == (50, Stop.MEMORY_LIMIT)
    assert incumbent.value == 1_000_000 - 50


def test_out_of_memory_without_any_answer_is_an_error() -> None:
    with pytest.raises(MemoryError):
        searched(Limits(), Failing, lambda shared: Counted(shared, end=2))


def test_other_errors_are_not_hidden() -> None:
    class Wrong(Counted):
        def advance(self, nodes: float) -> float:
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        searched(Limits(node_limit=10), Wrong)


def test_a_deadline_and_an_interruption_end_the_search() -> None:
    assert searched(Limits(time_limit_seconds=0.0), Counted)[2] is Stop.TIME_LIMIT
    run = Run(Limits(node_limit=1_000))
    run.interrupt.set()
    assert searched(run.limits, Counted, run=run)[1:][1] is Stop.INTERRUPTED


def test_each_better_answer_and_bound_is_reported_once() -> None:
    heard: list[Progress] = []
    incumbent = Incumbent[str](Run(listener=heard.append))

    assert incumbent.keep("a", 9, "first")
    assert not incumbent.keep("b", 9, "no better")
    incumbent.raise_bound(3)
    incumbent.raise_bound(2)

    assert [(one.best, one.lower_bound, one.phase) for one in heard] == [(9, 0, "first"), (9, 3, "bound")]
    assert (incumbent.answer, incumbent.result("m").lower_bound) == ("a", 3)


def test_pieces_of_a_generator_are_turns_and_it_ends_with_them() -> None:
    incumbent, done, ends = Incumbent[int](Run()), list[int](), list[int]()

    def steps(turn: Stepped) -> Iterator[None]:
        for number in range(3):
            done.append(number)
            assert turn.part(2) is turn.run is turn.whole_run  # without a time limit
            yield

    pieces = Stepped("pieces", incumbent, incumbent.run, steps, end_turn=lambda: ends.append(len(done)))
    assert Portfolio(incumbent, [pieces], Budget(incumbent.run)).solve() is Stop.COMPLETED

    assert done == [0, 1, 2]
    assert ends == [1, 3, 3]


def test_pieces_count_as_many_nodes_as_they_yield() -> None:
    run, done = Run(Limits(node_limit=100)), list[int]()

    def steps(_turn: Stepped) -> Iterator[float]:
        while True:
            done.append(1)
            yield 30.0

    stop = Portfolio(Incumbent[int](run), [Stepped("pieces", Incumbent[int](run), run, steps)], Budget(run)).solve()

    assert (len(done), stop) == (4, Stop.NODE_LIMIT)


def test_pieces_count_as_many_nodes_as_milliseconds_if_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    now, spent = [0.0], {5.0: 0.0, 1 / 128: 0.0}
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    run = Run(deadline=Deadline.after(100.0))
    incumbent = Incumbent[int](run)

    def stepped(seconds: float) -> Stepped:
        def pieces(_turn: Stepped) -> Iterator[float | None]:
            while True:
                now[0] += seconds
                spent[seconds] += seconds
                yield None if seconds > 1 else 1_000.0

        return Stepped(str(seconds), incumbent, run, pieces)

    slow, fast = map(stepped, spent)
    assert (slow.step(1_000.0), fast.step(1_000.0)) == (5_000.0, 1_000.0)

    assert Portfolio(incumbent, [slow, fast], Budget(run)).solve() is Stop.TIME_LIMIT
    assert spent[5.0] == pytest.approx(50.0, rel=0.25)


def test_the_turns_of_a_portfolio_may_be_pieces_of_a_strategy() -> None:
    run = Run(Limits(node_limit=40))
    incumbent = Incumbent[int](run)
    inner = Portfolio(incumbent, [Counted(incumbent), Counted(incumbent, end=7)], Budget(run))

    def steps(_turn: Stepped) -> Iterator[float]:
        yield from inner.turns()

    other = Counted(incumbent)
    outer = Portfolio(incumbent, [Stepped("inner", incumbent, run, steps), other], Budget(run))
    assert outer.solve() is Stop.NODE_LIMIT
    assert sum(one.nodes for one in inner.strategies if isinstance(one, Counted)) + other.nodes == 40
    assert 10 <= other.nodes <= 30


def test_a_strategy_waits_until_it_is_ready_and_then_makes_up_for_nothing() -> None:
    incumbent = Incumbent[int](Run(Limits(node_limit=64)))
    first = Counted(incumbent)

    class Waiting(Counted):
        @property
        def is_ready(self) -> bool:
            return first.nodes >= 15

    waiting = Waiting(incumbent)
    Portfolio(incumbent, [first, waiting], Budget(incumbent.run)).solve()

    assert waiting.quanta[:2] == [1, 2]
    assert first.nodes > 15


def test_no_turn_takes_more_than_an_equal_part_of_the_time() -> None:
    incumbent = Incumbent[int](Run(deadline=Deadline.after(100.0)))
    left: list[float] = []

    class Timed(Counted):
        def advance(self, nodes: float) -> float:
            left.append(self.run.seconds_left)
            return super().advance(nodes)

    Portfolio(incumbent, [Timed(incumbent, end=1), Timed(incumbent, end=1)], Budget(incumbent.run)).solve()

    assert left[0] <= 50.0 < left[1] <= 100.0
