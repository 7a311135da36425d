"""How much later one operator ends than another at least: what runs between, and what comes between for want of room.

From the end of the last band of an operator to that of one that comes after it (docs/latency.md has the arguments):

* the array runs all bands of what begins wholly after the first and has to end before the last band of the second;
* what these read is on the chip when the first ends, beside its operands, or is loaded from then on; where each band of
  the second reads its inputs whole, all of that but the bands of its parameters before the first of its bands.

Intervals that follow each other add up, so ends are longest paths over operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.problem import Rate
from onchip.facts.ways_to_run import WaysToRun
from onchip.ir.tensor import Role

MOST_WORK: Final = 300_000_000
"""Of pairs of borders times operators and tensors, about a second: of larger graphs not every operator is a border."""

Counts: TypeAlias = NDArray[np.int64]
Marks: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Border:
    """An operator, all that has ended when its last band begins, and all that begins when its last band has ended."""

    operator: int
    before: Sequence[int]
    after: Sequence[int]


def most_borders(ways: WaysToRun) -> int:
    """Return how many borders there may be: of all of these pairs are looked at."""
    return max(int((MOST_WORK / (1 + len(ways.operators) + len(_shared(ways)))) ** 0.5), 1)


@dataclass(frozen=True)
class LatencyChains:
    """What lies between borders, which stand in the order of the graph; `load` is the rate of loads."""

    ways: WaysToRun
    borders: Sequence[Border]
    load: Rate

    def ends(self, alone: Sequence[int]) -> list[int]:
        """The earliest ends of the borders' last bands, in cycles.

        Each is at least as it is `alone`, and as much after that of any before it as lies between.
        """
        between, found = self.cycles, np.array(alone, np.int64)
        for at in range(len(found)):
            found[at] = max(found[at], (found + between[:, at])[between[:, at] >= 0].max(initial=0))
        return [int(end) for end in found]

    @property
    def cycles(self) -> Counts:
        """By pair of borders from the end of one's last band to that of the other's; -1 where it is not before that."""
        own = [one.operator for one in self.borders]
        operators = [self.ways.operators[one] for one in own]
        last_band = np.array([one.least_band_cycles for one in operators])
        bands = np.array([0 if one.cuts_inputs else one.least_cycles for one in operators])
        missing = self._missing(self._waited_for)
        missing_first = self._missing(self._waited_for - np.array([self._parameters_later(one) for one in own]))
        found = np.maximum(self._computing, np.where(missing > 0, self._loading(missing) + last_band, 0))
        with_bands = np.where((missing_first > 0) & (bands > 0), self._loading(missing_first) + bands, 0)
        return np.where(self._before[:, own].T, np.maximum(found, with_bands), -1)

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

    @property
    def _computing(self) -> Counts:
        """What begins wholly after the first and is up to the second; of the second at least its last band."""
        own = [one.operator for one in self.borders]
        least = np.array([one.least_cycles for one in self.ways.operators], np.float64)
        band = np.array([self.ways.operators[one].least_band_cycles for one in own], np.int64)
        between = ((self._after * least) @ self._before.T.astype(np.float64)).astype(np.int64)
        found: Counts = between + np.where(self._after[:, own], least[own].astype(np.int64), band)
        return found

    def _loading(self, missing: Counts) -> Counts:
        """The cycles in which so many bytes are loaded."""
        found: Counts = np.zeros_like(missing)
        for unit_bits, cycles in self.load.terms:
            found = found + -(-missing * 8 // unit_bits) * cycles
        return found

    def _missing(self, waited_for: Counts) -> Counts:
        """Of bytes that are waited for those that have no room beside the operands of the first border."""
        room = self.ways.problem.memories[0].capacity_bytes
        free = np.array([room - self._taken(one.operator) for one in self.borders], np.int64)
        missing: Counts = np.maximum(waited_for - free[:, None], 0)
        return missing

    def _parameters_later(self, operator: int) -> int:
        """The most bytes of what it reads that may come after its first band has begun, its inputs being whole."""
        one, parts = self.ways.operators[operator], max(self.ways.operators[operator].cycles)
        cut = [tensor for tensor in one.reads if tensor in one.cut]
        return sum(self.ways.tensors[each].size_bytes - self.ways.operand_bytes(operator, each, parts) for each in cut)

    def _taken(self, operator: int) -> int:
        """By its operands while its last band runs."""
        one = self.ways.operators[operator]
        operands = (*one.reads, *one.writes)
        return min(sum(self.ways.operand_bytes(operator, each, parts) for each in operands) for parts in one.cycles)

    @cached_property
    def _waited_for(self) -> Counts:
        """Bytes of what somebody between them reads, and nobody after the first writes; but not its own operands."""
        once, shared = self._read_once, _shared(self.ways)
        found: Counts = ((self._after * once) @ self._up_to.T.astype(np.float64)).astype(np.int64)
        for tensor in shared:
            found += self._is_waited_for(tensor) * self.ways.tensors[tensor].size_bytes
        for at, border in enumerate(self.borders):
            one = self.ways.operators[border.operator]
            for tensor in one.reads:
                waited = self._is_waited_for(tensor, at)[0]
                found[at] -= waited * self.ways.tensors[tensor].size_bytes
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
            found &= self._before[rows][:, writer][:, None]
        return found


def _is_from_outside(ways: WaysToRun, tensor: int) -> bool:
    return ways.tensors[tensor].role in (Role.INPUT, Role.PARAMETER)


def _shared(ways: WaysToRun) -> list[int]:
    """What is written, and what several operators read."""
    return [
        tensor for tensor, readers in ways.readers.items() if len(readers) > 1 or not _is_from_outside(ways, tensor)
    ]
