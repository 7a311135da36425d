"""The ways in which operators can run at the same time as transfers, and the orders of bands.

Both are computed for many operators at once, in one forward or backward pass over rows of marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.problem import Order, Problem
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor, size_in_bytes
from onchip.model.capacity.bounds import packed_bytes
from onchip.ops.layers_of import Channels

WHOLE: Final = 1

Parts: TypeAlias = tuple[int, ...]
"""Number of bands of each operator; 1 means whole."""


@dataclass(frozen=True, slots=True)
class OperatorWays:
    """An operator's inputs and outputs by number, the operands that bands divide (`cut`), and the cost of a band.

    `cycles` maps a number of parts to the cycles of one part. With `cuts_inputs` the inputs are cut too.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    cut: frozenset[int]
    cycles: Mapping[int, int]
    cuts_inputs: bool

    @property
    def least_cycles(self) -> int:
        """Return the least total cycles of all bands, over the numbers of parts."""
        return min(parts * cycles for parts, cycles in self.cycles.items())


@dataclass(frozen=True)
class WaysToRun:
    """The ways of all operators of a problem with durations; operators and tensors are numbered.

    Raises UsageError if the duration of an operator is unknown.
    """

    problem: Problem

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that plans contain."""
        return self.problem.counted_tensors

    @cached_property
    def channels(self) -> tuple[int | None, ...]:
        """Return the number of channels of each tensor; None for a tensor without a shape."""
        return tuple(map(self._channels.count, self.tensors))

    @cached_property
    def _channels(self) -> Channels:
        return Channels(self.problem.graph)

    @cached_property
    def operators(self) -> tuple[OperatorWays, ...]:
        """Return the ways of each operator."""
        number = {tensor.name: index for index, tensor in enumerate(self.tensors)}
        return tuple(self._ways(operator, number) for operator in self.problem.graph.operators)

    @cached_property
    def writer(self) -> Mapping[int, int]:
        """Return the operator that writes each tensor."""
        return {tensor: number for number, one in enumerate(self.operators) for tensor in one.writes}

    @cached_property
    def readers(self) -> Mapping[int, tuple[int, ...]]:
        """Return the operators that read each tensor."""
        readers: dict[int, list[int]] = {}
        for number, one in enumerate(self.operators):
            for tensor in one.reads:
                readers.setdefault(tensor, []).append(number)
        return {tensor: tuple(numbers) for tensor, numbers in readers.items()}

    @property
    def capacities_bytes(self) -> tuple[int, ...]:
        """Return the capacity of each scratchpad, rounded up to its alignment, as tensor sizes are."""
        memories = self.problem.memories
        return tuple(self.aligned(memory.capacity_bytes, number) for number, memory in enumerate(memories))

    def least_need_bytes(self, operator: int, parts: int) -> int:
        """Return the least bytes of the first scratchpad that hold all operands of one band."""
        one = self.operators[operator]
        sizes = (self.operand_bytes(operator, tensor, parts) for tensor in (*one.reads, *one.writes))
        return packed_bytes(sizes, self.problem.memories[0].alignment_bytes)

    def possible_parts(self, operator: int) -> tuple[int, ...]:
        """Return the numbers of parts for which one part fits into all scratchpads together; all if none fits."""
        one, room = self.operators[operator], sum(memory.capacity_bytes for memory in self.problem.memories)
        operands = (*one.reads, *one.writes)
        needs = {parts: sum(self.operand_bytes(operator, each, parts) for each in operands) for parts in one.cycles}
        return tuple(parts for parts, need in needs.items() if need <= room) or tuple(one.cycles)

    def operand_bytes(self, operator: int, tensor: int, parts: int) -> int:
        """Return the bytes of an operand that one of `parts` bands needs: a part of a cut operand, else all of it."""
        channels = self.channels[tensor] or 1
        return self.band_bytes(tensor, channels // (parts if tensor in self.operators[operator].cut else 1))

    def band_bytes(self, tensor: int, width: int) -> int:
        """Return the bytes of `width` channels of a tensor."""
        whole, channels = self.tensors[tensor], self.channels[tensor] or 1
        if width == channels or whole.shape is None or whole.bits is None:
            return whole.size_bytes
        return size_in_bytes((prod(whole.shape) // channels, width), whole.bits)

    def aligned(self, size_bytes: int, memory: int = 0) -> int:
        """Return the bytes, rounded up to the alignment of the scratchpad with that number."""
        alignment_bytes = self.problem.memories[memory].alignment_bytes
        return -(-size_bytes // alignment_bytes) * alignment_bytes

    def _ways(self, operator: Operator, number: Mapping[str, int]) -> OperatorWays:
        splits = operator.stated.splits
        reads, writes = _numbers(operator.reads, number), _numbers(operator.outputs, number)
        cuts_inputs = splits is not None and splits.cuts_inputs
        named = (*operator.outputs, *operator.parameters, *(operator.inputs if cuts_inputs else ()))
        channels = [self._channels.count(self.problem.graph.tensor[name]) for name in named]
        listed = splits.ways if splits else ()
        divided = {
            parts: one for parts, one in listed if all(each is not None and not each % parts for each in channels)
        }
        cycles = {WHOLE: self.problem.known_durations.of_operator(operator), **divided}
        return OperatorWays(reads, writes, frozenset(_numbers(named, number)), cycles, cuts_inputs)


def _numbers(names: Iterable[str], number: Mapping[str, int]) -> tuple[int, ...]:
    """Return the distinct numbers of the tensors that plans contain."""
    return tuple(dict.fromkeys(number[name] for name in names if name in number))


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
