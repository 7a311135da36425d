"""Precedences of operators, the tensors that are surely needed, and windows of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of

MOST_OPERATORS: Final = 20_000
"""Operator limit: above it, the precedence table takes more than 100 MB."""


def sure_needs_bytes(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return by operator a lower bound on the packed bytes resident during it, over all orders without spills.

    A tensor is surely resident if its writer or a reader precedes the operator in every order, and another reader
    follows it. Above `MOST_OPERATORS` operators, the bound covers their operands alone.
    """
    count = indexed.operator_count
    operands = np.array([indexed.required_bytes(operator) for operator in range(count)], dtype=np.int64)
    if count > MOST_OPERATORS:
        return tuple(operands.tolist())
    room = indexed.room
    units = np.zeros(count, dtype=np.int64)
    padding_bytes = np.zeros(count, dtype=np.int64)
    for tensor, mask in enumerate(_sure_while(indexed)):
        steps = flags_of(mask, count)
        units[steps] += room.units[tensor]
        padding_bytes[steps] = np.maximum(padding_bytes[steps], room.padding_bytes[tensor])
    for operator in range(count):
        units[operator] -= room.units_of_all(indexed.inside_others(operator))
    return tuple(np.maximum(operands, units * room.alignment_bytes - padding_bytes).tolist())


def _sure_while(indexed: IndexedProblem) -> list[int]:
    """Return by tensor the mask of operators during which it is resident in every order, including its users."""
    before, after = surely_before(indexed), surely_after(indexed)
    masks = []
    for tensor, readers in enumerate(indexed.reader_lists):
        writer = indexed.producer[tensor]
        own = begun = awaited = 0
        for reader in readers:
            own |= 1 << reader
            awaited |= before[reader]
            begun |= after[reader]
        if writer >= 0:
            own |= 1 << writer
            begun |= after[writer]
        masks.append(own | begun & awaited)
    return masks


def surely_before(indexed: IndexedProblem) -> list[int]:
    """Return by operator the mask of operators that run before it in every order."""
    masks: list[int] = []
    for befores in indexed.predecessor_lists:
        mask = 0
        for before in befores:
            mask |= masks[before] | 1 << before
        masks.append(mask)
    return masks


def surely_after(indexed: IndexedProblem) -> list[int]:
    """Return by operator the mask of operators that run after it in every order."""
    masks = [0] * indexed.operator_count
    for operator in reversed(range(indexed.operator_count)):
        for successor in indexed.successors[operator]:
            masks[operator] |= masks[successor] | 1 << successor
    return masks


def flags_of(mask: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the mask as an array of `count` booleans."""
    flags = np.frombuffer(mask.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
    return np.unpackbits(flags, bitorder="little")[:count].astype(np.bool_)


class Precedence:
    """The precedence relation over all orders: by operator, the masks of operators before and after."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self.before = surely_before(indexed)
        self.after = surely_after(indexed)

    def first_of(self, operators: int) -> Iterator[int]:
        """Yield the operators of a mask that have no certain predecessor in it."""
        return (one for one in bits(operators) if not self.before[one] & operators)

    def last_of(self, operators: int) -> Iterator[int]:
        """Yield the operators of a mask that have no certain successor in it."""
        return (one for one in bits(operators) if not self.after[one] & operators)


def uses_of(indexed: IndexedProblem, tensor: int) -> tuple[int, ...]:
    """Return the operators that write or read a tensor, the writer first."""
    writer, readers = indexed.producer[tensor], indexed.reader_lists[tensor]
    return readers if writer < 0 else (writer, *readers)


@dataclass(frozen=True)
class Windows:
    """The time windows of operators and tensors, from the mask of all ancestors of each operator."""

    indexed: IndexedProblem
    ancestors: tuple[int, ...]

    @classmethod
    def of(cls, indexed: IndexedProblem) -> Windows:
        """Return the windows from the transitive closure; operators are indexed in a topological order."""
        ancestors: list[int] = []
        for befores in indexed.predecessor_lists:
            closed = mask_of(befores)
            for before in befores:
                closed |= ancestors[before]
            ancestors.append(closed)
        return cls(indexed, tuple(ancestors))

    @cached_property
    def steps(self) -> tuple[range, ...]:
        """Return for each operator its steps from the earliest to the latest."""
        after = [0] * len(self.ancestors)
        for befores in self.ancestors:
            for before in bits(befores):
                after[before] += 1
        count = len(self.ancestors)
        return tuple(
            range(befores.bit_count(), count - behind) for befores, behind in zip(self.ancestors, after, strict=True)
        )

    @cached_property
    def users(self) -> tuple[int, ...]:
        """Return for each tensor the mask of its producer and its readers."""
        producers = (1 << producer if producer >= 0 else 0 for producer in self.indexed.producer)
        return tuple(made | read for made, read in zip(producers, self.indexed.readers, strict=True))

    @cached_property
    def lifetimes(self) -> tuple[range, ...]:
        """Return for each tensor the steps from its earliest to its latest use; empty without a use."""
        return tuple(self._lifetime(users) for users in self.users)

    def _lifetime(self, users: int) -> range:
        windows = [self.steps[operator] for operator in bits(users)]
        return range(min(w.start for w in windows), max(w.stop for w in windows)) if windows else range(0)

    @cached_property
    def _common_ancestors(self) -> tuple[int, ...]:
        """Return for each tensor the operators that must run before all of its users."""
        common = []
        for users in self.users:
            mask = -1
            for operator in bits(users):
                mask &= self.ancestors[operator]
            common.append(mask)
        return tuple(common)

    def shared_steps(self, first: int, second: int) -> range:
        """Return the steps in which both tensors may be used.

        Empty if every use of one must precede every use of the other in any order.
        """
        for before, after in ((first, second), (second, first)):
            if not self.users[before] & ~self._common_ancestors[after]:
                return range(0)
        ours, theirs = self.lifetimes[first], self.lifetimes[second]
        return range(max(ours.start, theirs.start), max(0, min(ours.stop, theirs.stop)))
