"""An order without spills of which a few steps at a time are put into another order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from onchip.memory.spill.best_first.peak_program import PeakProgram, operators_of, places_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import PeakOperator


class MovableOrder:
    """`needs_bytes` of each step are those of the whole order, at most one unit of the alignment more."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int]) -> None:
        self._indexed = indexed
        self.order = list(order)
        self.needs_bytes = PeakProgram.of(indexed).needs_bytes(order)
        self._step_of = [0] * len(self.order)
        for step, operator in enumerate(self.order):
            self._step_of[operator] = step
        self._first = [0] * len(indexed.tensors)
        self._last = [-1] * len(indexed.tensors)
        self._find_uses(range(len(indexed.tensors)))
        self._resident_units = self._units_before_steps()

    def between(self, begin: int, stop: int) -> PeakProgram:
        """State the steps [begin, stop), which may be put into any other order while the rest stays as it is.

        A first operator writes what is resident before them, a last one reads what is after them; of what they do not
        use one tensor is made. Number k + 1 is that of step begin + k.
        """
        indexed, numbers = self._indexed, self.order[begin:stop]
        place = places_of(indexed, numbers)
        stay_before = [tensor for tensor in place if self._is_there(tensor, begin)]
        stay_after = [tensor for tensor in place if self._is_there(tensor, stop)]
        rest_units = self._resident_units[begin] - indexed.room.units_of_all(stay_before)
        rest, alignment_bytes = len(place), indexed.room.alignment_bytes
        writes = [*(place[tensor] for tensor in stay_before), rest]
        reads = [*(place[tensor] for tensor in stay_after), rest]
        first = PeakOperator(reads=(), writes=writes, predecessors=())
        last = PeakOperator(reads=reads, writes=(), predecessors=range(len(numbers) + 1))
        sizes_bytes = (*(indexed.sizes_bytes[tensor] for tensor in place), rest_units * alignment_bytes)
        return PeakProgram((first, *operators_of(indexed, numbers, place, 1), last), sizes_bytes, alignment_bytes)

    def put(self, begin: int, program: PeakProgram, order: Sequence[int]) -> None:
        """Put the steps of a program that was stated from `begin` on into an order of it."""
        steps = [self.order[begin + number - 1] for number in order[1:-1]]
        stop = begin + len(steps)
        self.order[begin:stop] = steps
        self.needs_bytes[begin:stop] = program.needs_bytes(order)[1:-1]
        for step in range(begin, stop):
            self._step_of[self.order[step]] = step
        tensors = places_of(self._indexed, steps)
        rest = self._resident_units[begin] - self._units_at(tensors, begin)
        self._find_uses(tensors)
        for step in range(begin + 1, stop):
            self._resident_units[step] = rest + self._units_at(tensors, step)

    def _find_uses(self, tensors: Sequence[int] | dict[int, int]) -> None:
        """A tensor is there from its writer, or first reader, to its last reader; at once gone if nobody reads it."""
        for tensor in tensors:
            writer = self._indexed.producer[tensor]
            steps = [self._step_of[reader] for reader in self._indexed.reader_lists[tensor]]
            self._last[tensor] = max(steps, default=-1)
            self._first[tensor] = self._step_of[writer] if writer >= 0 else min(steps, default=0)

    def _units_before_steps(self) -> list[int]:
        changes = [0] * (len(self.order) + 1)
        for units, first, last in zip(self._indexed.room.units, self._first, self._last, strict=True):
            if first < last:
                changes[first + 1] += units
                changes[last + 1] -= units
        return list(accumulate(changes))

    def _units_at(self, tensors: Sequence[int] | dict[int, int], step: int) -> int:
        return self._indexed.room.units_of_all(tensor for tensor in tensors if self._is_there(tensor, step))

    def _is_there(self, tensor: int, step: int) -> bool:
        """Whether it is resident between this step and the one before."""
        return self._first[tensor] < step <= self._last[tensor]
