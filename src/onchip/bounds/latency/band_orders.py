"""The operators that must have ended before an operator's last band begins, and those that begin only after it.

Both are computed for many operators at once, in one forward or backward pass over rows of marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.problem import Order
from onchip.bounds.latency.ways_to_run import WaysToRun

MOST_LAST: Final = 8
"""Most candidates for the last of several operators to end; larger sets get no border."""

Marks: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Border:
    """An operator, those that have ended when its last band begins, and those that begin only when that has ended.

    For operators in `partly_after` some band begins after that. With `others`, this holds if the operator ends last of
    itself and these.
    """

    operator: int
    before: Sequence[int]
    after: Sequence[int]
    partly_after: Sequence[int] = ()
    others: Sequence[int] = ()


@dataclass(frozen=True)
class BandOrders:
    """Borders of these operators, valid for every order and every choice of bands that the problem allows."""

    ways: WaysToRun
    operators: Sequence[int]

    @property
    def borders(self) -> list[Border]:
        """Return a border for each operator."""
        count = len(self.ways.operators)
        if self.ways.problem.order is Order.GIVEN:
            return [Border(one, range(one), range(one + 1, count)) for one in self.operators]
        rows = zip(self.operators, self._before.T, *(marks.T for marks in self._after), strict=True)
        return [Border(one, *map(_marked, marks)) for one, *marks in rows]

    @property
    def _before(self) -> Marks:
        """Return marks [operator, one of these]: the first has run when the last band of the second begins."""
        found = self._own
        for each in reversed(range(len(found))):  # in a topological order, backwards
            for writer in self._writers(each):
                found[writer] |= found[each]
        return found & ~self._own

    @property
    def _after(self) -> tuple[Marks, Marks]:
        """Return two marks [operator, one of these]: no band, or only some, of the first precedes the second's end."""
        partly = self._own
        wholly = np.zeros_like(partly)
        for each in range(len(partly)):  # in a topological order
            waits = partly if self.ways.operators[each].cuts_inputs else wholly
            for writer in self._writers(each):
                wholly[each] |= wholly[writer]
                waits[each] |= partly[writer]
            partly[each] &= ~wholly[each]
        return wholly, partly & ~self._own

    @property
    def _own(self) -> Marks:
        """Return marks [operator, one of these] that are True if both are the same operator."""
        found = np.zeros((len(self.ways.operators), len(self.operators)), np.bool_)
        found[list(self.operators), range(len(self.operators))] = True
        return found

    def _writers(self, operator: int) -> Iterator[int]:
        writer = self.ways.writer
        return (writer[tensor] for tensor in self.ways.operators[operator].reads if tensor in writer)


def last_of_several(ways: WaysToRun, borders: Sequence[Border]) -> list[tuple[Border, ...]]:
    """Return, for each set of mutually independent operators with a common reader, a border per candidate for the last.

    The array runs one band at a time, so when the last band of the last operator begins, all others have ended.
    `borders` are those of all operators. For a given order there are none.
    """
    if ways.problem.order is Order.GIVEN:
        return []
    before = [frozenset(border.before) for border in borders]
    found: dict[frozenset[int], tuple[Border, ...]] = {}
    for operator in ways.operators:
        writers = {ways.writer[tensor] for tensor in operator.reads if tensor in ways.writer}
        lasts = writers.difference(*(before[one] for one in writers))
        if 1 < len(lasts) <= MOST_LAST:
            all_before = lasts.union(*(before[one] for one in lasts))
            found[frozenset(lasts)] = tuple(_as_last(borders[one], all_before, lasts) for one in sorted(lasts))
    return list(found.values())


def groups_of_borders(borders: Sequence[Border]) -> list[list[int]]:
    """Return the indices of borders in topological order, grouped by the set of operators whose last end they mark."""
    groups: dict[frozenset[int], list[int]] = {}
    for at, one in enumerate(borders):
        groups.setdefault(frozenset((one.operator, *one.others)), []).append(at)
    return [groups[one] for one in sorted(groups, key=lambda operators: (max(operators), len(operators)))]


def _as_last(border: Border, before: Set[int], lasts: Set[int]) -> Border:
    own = {border.operator}
    return replace(border, before=sorted(before - own), others=sorted(lasts - own))


def _marked(marks: Marks) -> list[int]:
    found: list[int] = np.flatnonzero(marks).tolist()
    return found
