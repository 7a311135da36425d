"""Tensors that stand in for each other: while an operation may run early or late, its input or its output must wait.

A normalisation's gradient subtracts a mean from a convolution's output. The subtraction may run in the forward or in
the backward pass, but in between either the difference or its inputs wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from onchip.model.lifetimes.indexed import IndexedProblem, mask_of
from onchip.model.lifetimes.precedence import Precedence, uses_of

FEWEST_OPERATORS: Final = 6
"""Least number of additional operators during which a tensor surely waits, for two tensors to be counted as one."""


@dataclass(frozen=True)
class Descent:
    """The parent of each tensor, an input of its producer, or -1 if it has none.

    A *line* is a tensor, its parent, and so on to the first tensor of its *family*.
    """

    parents: tuple[int, ...]

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """Return the first tensor of each tensor's line, which identifies its family."""
        return tuple(self.line(tensor)[-1] for tensor in range(len(self.parents)))

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """Return all families, each with its tensors in ascending order."""
        members: dict[int, list[int]] = {}
        for tensor, first in enumerate(self.firsts):
            members.setdefault(first, []).append(tensor)
        return tuple(map(tuple, members.values()))

    def line(self, tensor: int) -> tuple[int, ...]:
        """Return a tensor and its ancestors, ending with the first of the family."""
        line = [tensor]
        while self.parents[line[-1]] >= 0:
            line.append(self.parents[line[-1]])
        return tuple(line)


def no_descent(indexed: IndexedProblem) -> Descent:
    """Return the descent in which each tensor is a separate family."""
    return Descent((-1,) * len(indexed.tensors))


def descent_of(indexed: IndexedProblem, precedence: Precedence) -> Descent:
    """Choose parents: an input of the producer, not larger, if both together surely wait longer than either.

    They do while an operator runs that surely follows a use of the parent and surely precedes a reader of the child.
    Operators during which both surely wait count against it, because the two tensors would count as one.
    """
    waits = [_Wait.of(indexed, precedence, tensor) for tensor in range(len(indexed.tensors))]
    parents, firsts, units = [-1] * len(waits), list(range(len(waits))), indexed.room.units
    for tensor in _as_written(indexed, precedence):
        most = FEWEST_OPERATORS - 1
        for read in indexed.read_lists[indexed.producer[tensor]]:
            gain = waits[read].gain_with(waits[tensor])
            if gain > most and units[firsts[read]] <= units[tensor]:
                most, parents[tensor], firsts[tensor] = gain, read, firsts[read]
    return Descent(tuple(parents))


def _as_written(indexed: IndexedProblem, precedence: Precedence) -> Sequence[int]:
    """Return the written tensors, each after the inputs of its operator."""
    written = (tensor for tensor, producer in enumerate(indexed.producer) if producer >= 0)
    return sorted(written, key=lambda tensor: precedence.before[indexed.producer[tensor]].bit_count())


@dataclass(frozen=True, slots=True)
class _Wait:
    """Masks of operators that surely run after a use of a tensor, and of those surely before a reader of it."""

    begun: int
    awaited: int

    @classmethod
    def of(cls, indexed: IndexedProblem, precedence: Precedence, tensor: int) -> _Wait:
        begun = awaited = 0
        for use in uses_of(indexed, tensor):
            begun |= precedence.after[use]
        for reader in indexed.reader_lists[tensor]:
            awaited |= precedence.before[reader]
        return cls(begun, awaited & ~mask_of(uses_of(indexed, tensor)))

    def gain_with(self, made: _Wait) -> int:
        """Return the additional operators during which one of the two waits, less those during which both do."""
        own, others = self.begun & self.awaited, made.begun & made.awaited
        return (self.begun & made.awaited & ~own & ~others).bit_count() - (own & others).bit_count()
