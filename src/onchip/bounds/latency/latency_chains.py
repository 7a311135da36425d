"""Lower bounds on the time between the ends of two operators: operators in between, and loads that had no capacity.

From the end of an operator's last band to that of a later operator (docs/latency.md has the proofs):

* the array runs all bands of operators that begin wholly after the first and must end before the second's last band;
* the inputs of these operators are on chip when the first ends, next to the first's other operands, or are loaded
  later; if each band of the second reads its inputs whole, all but its parameters' bands precede its first band.

Consecutive intervals add up, so ends are longest paths over operators. Each operator has an end for each number of
bands, because that determines its duration and the capacity that its last band leaves.
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
"""Most work, in pairs of borders times operators, tensors and ways, about a second; larger graphs get fewer borders."""
NEVER: Final = 2**60
"""End, in cycles, for a number of parts that an operator cannot run in."""

Counts: TypeAlias = NDArray[np.int64]
Ends: TypeAlias = Mapping[int, int]
"""Earliest end of an operator's last band in cycles, by number of parts."""


def most_borders(ways: WaysToRun) -> int:
    """Return the most borders allowed, as all pairs of them are examined."""
    most_ways = max((len(one.cycles) for one in ways.operators), default=0)
    each = 1 + len(ways.operators) + len(_shared(ways)) + most_ways
    return max(int((MOST_WORK / each) ** 0.5), 1)


@dataclass(frozen=True)
class LatencyChains:
    """The intervals between borders; `load` is the rate of loads.

    For each border that is the last of several, there is one for each of the others, and one for each operator alone.
    """

    ways: WaysToRun
    borders: Sequence[Border]
    load: Rate

    def ends(self, alone: Sequence[Ends]) -> list[Ends]:
        """Return the earliest ends of the borders' last bands, by number of parts.

        Each end is at least its value `alone`, at least the end of any earlier border plus the interval between them,
        and, for the last of several, at least the value without the others.
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
        """Return, by border and way, the earliest end of its last band after the given ends of border `at` by way.

        The value is 0 if the border need not follow border `at`.
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
        """Return the possible numbers of parts of each border's operator."""
        return tuple(self.ways.possible_parts(one.operator) for one in self.borders)

    @cached_property
    def _own(self) -> Counts:
        """Return the operator of each border."""
        return np.array([one.operator for one in self.borders], np.int64)

    @cached_property
    def _reads_whole(self) -> Marks:
        """Return, by border, True if all earlier operators have ended when its first band begins."""
        wholes = (not one.others and not self.ways.operators[one.operator].cuts_inputs for one in self.borders)
        return np.fromiter(wholes, np.bool_, len(self.borders))

    @cached_property
    def _band_cycles(self) -> Counts:
        """Return the cycles of one band by border and way; 0 for ways that do not exist."""
        found = np.zeros((len(self.borders), max(map(len, self.parts), default=0)), np.int64)
        for row, operator, parts in zip(found, self._own, self.parts, strict=True):
            row[: len(parts)] = [self.ways.operators[operator].cycles[each] for each in parts]
        return found

    @cached_property
    def _all_cycles(self) -> Counts:
        """Return the cycles of all bands together by border and way."""
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
        """Return marks by border and operator."""
        found = np.zeros((len(self.borders), len(self.ways.operators)), np.bool_)
        for row, members in zip(found, sets, strict=True):
            row[list(members)] = True
        return found

    @cached_property
    def _between(self) -> Counts:
        """Return, by pair of borders, the cycles of operators wholly after the first and before the second."""
        least = np.array([one.least_cycles for one in self.ways.operators], np.float64)
        found: Counts = ((self._after * least) @ self._before.T.astype(np.float64)).astype(np.int64)
        return found

    def _loading(self, missing: Counts) -> Counts:
        """Return the cycles to load `missing` bytes; 0 for negative numbers."""
        found: Counts = np.zeros_like(missing)
        for unit_bits, cycles in self.load.terms:
            found = found + -(-np.maximum(missing, 0) * 8 // unit_bits) * cycles
        return found

    def _missing(self, at: int) -> Counts:
        """Return, by way and other border, the awaited bytes that do not fit next to the last band of border `at`.

        Negative if capacity is left.
        """
        missing: Counts = self._waited_for[at] - (self.ways.problem.memories[0].capacity_bytes - self._taken(at))
        return missing

    @cached_property
    def _later(self) -> Counts:
        """Return, by border, the most input bytes that may arrive after its first band begins.

        Used for borders that read their inputs whole: only the later bands of cut operands may arrive then.
        """
        return np.array([self._parameters_later(operator) for operator in self._own], np.int64)

    def _parameters_later(self, operator: int) -> int:
        one, parts = self.ways.operators[operator], max(self.ways.operators[operator].cycles)
        cut = [tensor for tensor in one.reads if tensor in one.cut]
        return sum(self.ways.tensors[each].size_bytes - self.ways.operand_bytes(operator, each, parts) for each in cut)

    def _taken(self, at: int) -> Counts:
        """Return, by way and other border, the bytes of the last band's operands that are not awaited up to it."""
        operator, parts = self.borders[at].operator, self.parts[at]
        one = self.ways.operators[operator]
        found = np.zeros((self._band_cycles.shape[1], len(self.borders)), np.int64)
        for tensor in (*one.reads, *one.writes):
            taken = np.array([self.ways.operand_bytes(operator, tensor, each) for each in parts], np.int64)
            found[: len(parts)] += taken[:, None] * ~self._is_waited_for(tensor, at)
        return found

    @cached_property
    def _waited_for(self) -> Counts:
        """Return, by pair of borders, bytes of tensors read between them and not written after the first."""
        found: Counts = ((self._after * self._read_once) @ self._up_to.T.astype(np.float64)).astype(np.int64)
        for tensor in _shared(self.ways):
            found += self._is_waited_for(tensor) * self.ways.tensors[tensor].size_bytes
        return found

    @property
    def _read_once(self) -> NDArray[np.float64]:
        """Return, by operator, the bytes of external tensors that only this operator reads."""
        found = np.zeros(len(self.ways.operators))
        for tensor, readers in self.ways.readers.items():
            if _is_from_outside(self.ways, tensor) and len(readers) == 1:
                found[readers[0]] += self.ways.tensors[tensor].size_bytes
        return found

    def _is_waited_for(self, tensor: int, border: int | None = None) -> Marks:
        """Return marks by pair of borders, or with `border` as the first: the tensor is awaited between them."""
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
    """Return the tensors that are written, or that several operators read."""
    return [
        tensor for tensor, readers in ways.readers.items() if len(readers) > 1 or not _is_from_outside(ways, tensor)
    ]
