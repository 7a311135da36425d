"""What must have ended before an operator's last band begins, and what can only begin when that has ended.

Both of many operators at once: one pass over the graph, forwards or backwards, of rows with a mark for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.problem import Order
from onchip.facts.ways_to_run import WaysToRun

Marks: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Border:
    """An operator, all that has ended when its last band begins, and all that begins when its last band has ended.

    Of what is `partly_after` some band begins after that.
    """

    operator: int
    before: Sequence[int]
    after: Sequence[int]
    partly_after: Sequence[int] = ()


@dataclass(frozen=True)
class BandOrders:
    """Of these operators, in whichever order and bands the problem allows."""

    ways: WaysToRun
    operators: Sequence[int]

    @property
    def borders(self) -> list[Border]:
        """Return one for each operator."""
        count = len(self.ways.operators)
        if self.ways.problem.order is Order.GIVEN:
            return [Border(one, range(one), range(one + 1, count)) for one in self.operators]
        rows = zip(self.operators, self._before.T, *(marks.T for marks in self._after), strict=True)
        return [Border(one, *map(_marked, marks)) for one, *marks in rows]

    @property
    def _before(self) -> Marks:
        """By any operator and one of these: the first has run when the last band of the second begins."""
        found = self._own
        for each in reversed(range(len(found))):  # in a topological order, backwards
            for writer in self._writers(each):
                found[writer] |= found[each]
        return found & ~self._own

    @property
    def _after(self) -> tuple[Marks, Marks]:
        """By any operator and one of these: no band of the first begins before the end of the second, or only some."""
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
        """By any operator and one of these, whether they are the same."""
        found = np.zeros((len(self.ways.operators), len(self.operators)), np.bool_)
        found[list(self.operators), range(len(self.operators))] = True
        return found

    def _writers(self, operator: int) -> Iterator[int]:
        writer = self.ways.writer
        return (writer[tensor] for tensor in self.ways.operators[operator].reads if tensor in writer)


def _marked(marks: Marks) -> list[int]:
    found: list[int] = np.flatnonzero(marks).tolist()
    return found
