"""How much later one operator ends than another at least: what runs between, and what comes between for want of room.

From the end of the last band of an operator to that of one that comes after it (docs/latency.md has the arguments):

* the array runs all bands of what begins wholly after the first and has to end before the last band of the second;
* what these read is on the chip when the first ends, beside the first's other operands, or is loaded from then on;
  where each band of the second reads its inputs whole, all of that but the bands of its parameters before its first.

Intervals that follow each other add up, so ends are longest paths over operators: of each operator as many ends as it
has ways, for of how many bands it has depends how long they take, and how much room the last one leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.problem import Rate
from onchip.bounds.latency.band_orders import Border, Marks, groups_of_borders
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.ir.tensor import Role

MOST_WORK: Final = 300_000_000
"""Of pairs of borders times operators, tensors and ways, a second: of larger graphs not every operator is a border."""
NEVER: Final = 2**60
"""The end of an operator in a way that it cannot run in, in cycles."""

Counts: TypeAlias = NDArray[np.int64]
Ends: TypeAlias = Mapping[int, int]
"""Of an operator: by in how many parts it runs, when its last band ends at the earliest, in cycles."""


def most_borders(ways: WaysToRun) -> int:
    """Return how many borders there may be: of all of these pairs are looked at."""
    most_ways = max((len(one.cycles) for one in ways.operators), default=0)
    each = 1 + len(ways.operators) + len(_shared(ways)) + most_ways
    return max(int((MOST_WORK / each) ** 0.5), 1)


@dataclass(frozen=True)
class LatencyChains:
    """What lies between borders; `load` is the rate of loads.

    For each that is the last of several there are one for each of the others, and one of each by itself.
    """

    ways: WaysToRun
    borders: Sequence[Border]
    load: Rate

    def ends(self, alone: Sequence[Ends]) -> list[Ends]:
        """The earliest ends of the borders' last bands, by their ways.

        Each is at least as it is `alone`, as much after that of any before it as lies between, and, of the last of
        several, at least as without the others.
        """
        found = np.full(self._band_cycles.shape, NEVER, np.int64)
        for row, parts, one in zip(found, self.parts, alone, strict=True):
            row[: len(parts)] = [one[each] for each in parts]
        by_itself = {one.operator: at for at, one in enumerate(self.borders) if not one.others}
        for group in groups_of_borders(self.borders):
            for at in group:
                np.maximum(found[at], found[by_itself[self.borders[at].operator]], out=found[at])
            follows = np.minimum.reduce([self.after(at, found[at]) for at in group])
            np.maximum(found, follows, out=found)
        return [dict(zip(parts, map(int, row), strict=False)) for parts, row in zip(self.parts, found, strict=True)]

    def after(self, at: int, ends: Counts) -> Counts:
        """By border and way when its last band ends at the earliest, if that of one border ends as is said by its way.

        0 where the border need not come after that one.
        """
        missing = self._missing(at)
        loaded = (ends[:, None] + self._loading(missing)).min(axis=0)[:, None]
        loaded_first = (ends[:, None] + self._loading(missing - self._later)).min(axis=0)[:, None]
        follows = np.where(self._after[at, self._own][:, None], self._all_cycles, self._band_cycles)
        found = np.maximum(ends.min() + self._between[at][:, None] + follows, loaded + self._band_cycles)
        in_order = np.where(self._reads_whole[:, None], loaded_first + self._all_cycles, 0)
        latest: Counts = np.where(self._before[:, self._own[at]][:, None], np.maximum(found, in_order), 0)
        return latest

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """By border in how many parts it may run."""
        return tuple(self.ways.possible_parts(one.operator) for one in self.borders)

    @cached_property
    def _own(self) -> Counts:
        """By border its operator."""
        return np.array([one.operator for one in self.borders], np.int64)

    @cached_property
    def _reads_whole(self) -> Marks:
        """By border whether all that is before it has ended when its first band begins."""
        wholes = (not one.others and not self.ways.operators[one.operator].cuts_inputs for one in self.borders)
        return np.fromiter(wholes, np.bool_, len(self.borders))

    @cached_property
    def _band_cycles(self) -> Counts:
        """By border and way the cycles of one band; none at all of ways that are not there."""
        found = np.zeros((len(self.borders), max(map(len, self.parts), default=0)), np.int64)
        for row, operator, parts in zip(found, self._own, self.parts, strict=True):
            row[: len(parts)] = [self.ways.operators[operator].cycles[each] for each in parts]
        return found

    @cached_property
    def _all_cycles(self) -> Counts:
        """The same of all bands together."""
        found = self._band_cycles.copy()
        for row, parts in zip(found, self.parts, strict=True):
            row[: len(parts)] *= parts
        return found

    @cached_property
    def _after(self) -> Marks:
        return self._marks(one.after for one in self.borders)

    @cached_property
    def _before(self) -> Marks:
        return self._marks(one.before for one in self.borders)

    @cached_property
    def _up_to(self) -> Marks:
        return self._marks((*one.before, one.operator) for one in self.borders)

    def _marks(self, sets: Iterable[Sequence[int]]) -> Marks:
        """By border and operator."""
        found = np.zeros((len(self.borders), len(self.ways.operators)), np.bool_)
        for row, members in zip(found, sets, strict=True):
            row[list(members)] = True
        return found

    @cached_property
    def _between(self) -> Counts:
        """By pair of borders the cycles of what begins wholly after the first, and before the second's last band."""
        least = np.array([one.least_cycles for one in self.ways.operators], np.float64)
        found: Counts = ((self._after * least) @ self._before.T.astype(np.float64)).astype(np.int64)
        return found

    def _loading(self, missing: Counts) -> Counts:
        """The cycles in which so many bytes are loaded; none for less than one."""
        found: Counts = np.zeros_like(missing)
        for unit_bits, cycles in self.load.terms:
            found = found + -(-np.maximum(missing, 0) * 8 // unit_bits) * cycles
        return found

    def _missing(self, at: int) -> Counts:
        """Of bytes that are waited for those that have no room beside the last band of a border, by its way and border.

        Below 0 where room is left.
        """
        missing: Counts = self._waited_for[at] - (self.ways.problem.memories[0].capacity_bytes - self._taken(at))
        return missing

    @cached_property
    def _later(self) -> Counts:
        """By border the most bytes of what it reads that may come after its first band has begun, its inputs whole."""
        return np.array([self._parameters_later(operator) for operator in self._own], np.int64)

    def _parameters_later(self, operator: int) -> int:
        one, parts = self.ways.operators[operator], max(self.ways.operators[operator].cycles)
        cut = [tensor for tensor in one.reads if tensor in one.cut]
        return sum(self.ways.tensors[each].size_bytes - self.ways.operand_bytes(operator, each, parts) for each in cut)

    def _taken(self, at: int) -> Counts:
        """By way and border: bytes of what the last band of a border has, and nobody up to the other waits for."""
        operator, parts = self.borders[at].operator, self.parts[at]
        one = self.ways.operators[operator]
        found = np.zeros((self._band_cycles.shape[1], len(self.borders)), np.int64)
        for tensor in (*one.reads, *one.writes):
            taken = np.array([self.ways.operand_bytes(operator, tensor, each) for each in parts], np.int64)
            found[: len(parts)] += taken[:, None] * ~self._is_waited_for(tensor, at)
        return found

    @cached_property
    def _waited_for(self) -> Counts:
        """By pair of borders bytes of what somebody between them reads, and nobody after the first writes."""
        found: Counts = ((self._after * self._read_once) @ self._up_to.T.astype(np.float64)).astype(np.int64)
        for tensor in _shared(self.ways):
            found += self._is_waited_for(tensor) * self.ways.tensors[tensor].size_bytes
        return found

    @property
    def _read_once(self) -> NDArray[np.float64]:
        """By operator the bytes of what comes from outside for it alone."""
        found = np.zeros(len(self.ways.operators))
        for tensor, readers in self.ways.readers.items():
            if _is_from_outside(self.ways, tensor) and len(readers) == 1:
                found[readers[0]] += self.ways.tensors[tensor].size_bytes
        return found

    def _is_waited_for(self, tensor: int, border: int | None = None) -> Marks:
        """By pair of borders, or for one as the first."""
        rows = slice(None) if border is None else slice(border, border + 1)
        readers, writer = list(self.ways.readers.get(tensor, ())), self.ways.writer.get(tensor)
        after, up_to = self._after[rows][:, readers], self._up_to[:, readers]
        found: Marks = (after.astype(np.float32) @ up_to.T.astype(np.float32)) > 0
        if writer is not None:
            found &= self._up_to[rows][:, writer][:, None]
        return found


def _is_from_outside(ways: WaysToRun, tensor: int) -> bool:
    return ways.tensors[tensor].role in (Role.INPUT, Role.PARAMETER)


def _shared(ways: WaysToRun) -> list[int]:
    """What is written, and what several operators read."""
    return [
        tensor for tensor, readers in ways.readers.items() if len(readers) > 1 or not _is_from_outside(ways, tensor)
    ]
