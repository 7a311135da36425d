"""Which tensor stands in for which: of what is made early or late, as one likes, something waits all the while.

A normalisation's gradient subtracts a mean from what a convolution has written. Nothing says whether that is done on
the way forward or on the way back; but all the time in between either the difference waits or what it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from onchip.model.lifetimes.bit_masks import mask_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.precedence import Precedence, uses_of

FEWEST_OPERATORS: Final = 6
"""While so many more run something surely waits. For fewer it is not worth that two tensors count as one."""


@dataclass(frozen=True)
class Descent:
    """By tensor the one that it descends from, -1 for none: an input of the operator that writes it.

    A *line* is a tensor, what that descends from, and so on to the first of its *family*.
    """

    parents: tuple[int, ...]

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """Return by tensor the first of its line, by which its family is known."""
        return tuple(self.line(tensor)[-1] for tensor in range(len(self.parents)))

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """Return all families, each with its tensors in ascending order."""
        members: dict[int, list[int]] = {}
        for tensor, first in enumerate(self.firsts):
            members.setdefault(first, []).append(tensor)
        return tuple(map(tuple, members.values()))

    def line(self, tensor: int) -> tuple[int, ...]:
        """Return a tensor and all that it descends from, the first of the family last."""
        line = [tensor]
        while self.parents[line[-1]] >= 0:
            line.append(self.parents[line[-1]])
        return tuple(line)


def no_descent(indexed: IndexedProblem) -> Descent:
    """Return that in which each tensor is a family of its own."""
    return Descent((-1,) * len(indexed.tensors))


def descent_of(indexed: IndexedProblem, precedence: Precedence) -> Descent:
    """Let a tensor descend from an input it is made of, no larger, where the two together surely wait for longer.

    They do so while an operator runs that surely follows a use of the one, and surely is before a reader of the other.
    While both wait surely, two would count as one: that is set against it.
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
    """Return the tensors that operators write, each after those that its operator reads."""
    written = (tensor for tensor, producer in enumerate(indexed.producer) if producer >= 0)
    return sorted(written, key=lambda tensor: precedence.before[indexed.producer[tensor]].bit_count())


@dataclass(frozen=True, slots=True)
class _Wait:
    """Operators (masks) that surely run after a use of a tensor, and those surely before a reader of it."""

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
        """Return during how many operators more something waits if one stands in for what is made of it."""
        own, others = self.begun & self.awaited, made.begun & made.awaited
        return (self.begun & made.awaited & ~own & ~others).bit_count() - (own & others).bit_count()
