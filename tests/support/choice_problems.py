"""Networks of choices with made-up costs, for the searches over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from onchip.answer.options.fusion_objective import Criteria, sum_of, value_of
from onchip.scheduling.choice.search import FoundWay, LazySearch, best_of
from onchip.scheduling.choice.ways import Arc
from onchip.scheduling.fronts.cost_table import Ledger, UnsureError
from onchip.search.budget.limits import Progress, Run


@dataclass
class Table:
    """True costs (None: impossible), and the slack of the bounds below them.

    Choices with even numbers have a closer bound with half the slack, or are recognised as impossible.
    """

    true: dict[int, Criteria | None]
    slack: dict[int, int]
    criteria: int = 1
    asked: list[int] = field(default_factory=list)
    least_asked: int = 0

    def bound(self, choice: int) -> Criteria:
        cost = self.true[choice] or (0,) * self.criteria
        return tuple(max(part - self.slack[choice], 0) for part in cost)

    def closer(self, choice: int) -> Criteria | None:
        if choice % 2:
            raise UnsureError
        cost = self.true[choice]
        return None if cost is None else tuple(max(part - self.slack[choice] // 2, 0) for part in cost)

    def least(self, choices: Sequence[int]) -> Criteria:
        """Return a value below all bounds, closer with each call."""
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


def stopped_after(rounds: int) -> Run:
    """Return a run that is interrupted after reporting more than this number of rounds."""
    run, heard = Run(), 0

    def hear(_: Progress) -> None:
        nonlocal heard
        heard += 1
        if heard > rounds:
            run.interrupt.set()

    run.listener = hear
    return run
