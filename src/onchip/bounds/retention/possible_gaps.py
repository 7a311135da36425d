"""Possible idle intervals: tensors that, in some orders, wait between a use and a reader while an operator runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from onchip.bounds.retention.descent import Descent
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from onchip.model.lifetimes.precedence import Precedence, uses_of


@dataclass(frozen=True, slots=True)
class PossibleGap:
    """A `tensor` waits while an `operator` runs that does not use it, if it has been used before.

    It has been used before in every order, or else if one of the operators `begins` runs before. It waits if one of its
    `readers` runs after. Its `family` is defined in bounds/retention/descent.py.
    """

    tensor: int
    family: int
    operator: int
    begins: tuple[int, ...]
    readers: tuple[int, ...]

    @property
    def tensors(self) -> tuple[int, ...]:
        """Return the line of the gap, as for a sure gap: this tensor alone."""
        return (self.tensor,)


class PossibleGaps:
    """The possible gaps of a problem near an order.

    Two operators that may run in either order are near each other if they are few steps apart in the order: up to
    `reach` steps for a tensor that fills the scratchpad, and fewer for smaller tensors.
    """

    def __init__(
        self, indexed: IndexedProblem, precedence: Precedence, descent: Descent, order: Sequence[int], reach: int
    ) -> None:
        self._indexed = indexed
        self._precedence = precedence
        self._descent = descent
        self._order = order
        self._reach = reach
        self._step_of = {operator: step for step, operator in enumerate(order)}
        self._until = [0]
        for operator in order:
            self._until.append(self._until[-1] | 1 << operator)

    def __iter__(self) -> Iterator[PossibleGap]:
        """Yield the gaps tensor by tensor, without those that are sure gaps of a line of one tensor."""
        room = self._indexed.room
        for tensor, readers in enumerate(self._indexed.reader_lists):
            width = int(self._reach * (room.units[tensor] / max(1, room.capacity_units)) ** 3)
            if width and readers:
                yield from self._of(tensor, readers, width)

    def _of(self, tensor: int, readers: Sequence[int], width: int) -> Iterator[PossibleGap]:
        before, after = self._precedence.before, self._precedence.after
        uses = mask_of(uses_of(self._indexed, tensor))
        first = tuple(self._precedence.first_of(uses))
        begun, never = _any(after, first), _all(before, first)
        awaited, over = _any(before, readers), _all(after, readers)
        sure = begun & awaited if self._descent.parents[tensor] < 0 else 0
        may_be_begun = (begun | self._near(first, width)) & ~never
        may_be_awaited = (awaited | self._near(readers, width)) & ~over
        for operator in bits(may_be_begun & may_be_awaited & ~uses & ~sure):
            later = self._open(operator, readers, after[operator], before[operator], width)
            begins = () if begun >> operator & 1 else self._open(operator, first, 0, after[operator], width)
            if later and (begins or begun >> operator & 1):
                yield PossibleGap(tensor, self._descent.firsts[tensor], operator, begins, later)

    def _near(self, operators: Sequence[int], width: int) -> int:
        """Return the mask of operators within `width` steps of one of the given operators."""
        near, last = 0, len(self._order)
        for operator in operators:
            step = self._step_of[operator]
            near |= self._until[min(last, step + width + 1)] ^ self._until[max(0, step - width)]
        return near

    def _open(self, operator: int, others: Sequence[int], sure: int, ruled_out: int, width: int) -> tuple[int, ...]:
        """Return those of `others` that are sure, or near the operator and not ruled out."""
        step = self._step_of[operator]
        return tuple(
            one
            for one in others
            if sure >> one & 1 or (not ruled_out >> one & 1 and abs(self._step_of[one] - step) <= width)
        )


def _any(masks: Sequence[int], chosen: Sequence[int]) -> int:
    return reduce(or_, (masks[one] for one in chosen))


def _all(masks: Sequence[int], chosen: Sequence[int]) -> int:
    return reduce(and_, (masks[one] for one in chosen))
