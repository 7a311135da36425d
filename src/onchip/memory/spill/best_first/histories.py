"""What of a plan so far matters for addresses: what is there, and what it has met, if that still constrains it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.decisions.compose import PlannedResidency
from onchip.model.lifetimes.indexed import IndexedProblem

Name: TypeAlias = tuple[int, int]
"""A tensor, and how many residencies of it come before this one."""


@dataclass(frozen=True, slots=True)
class ResidencyHistory:
    """The residencies that have `ended`, and those that go on: (tensor, step in which it began)."""

    ended: tuple[PlannedResidency, ...] = ()
    begun: tuple[tuple[int, int], ...] = ()

    def until(self, stop: int) -> tuple[PlannedResidency, ...]:
        """Return all residencies, those that go on as far as `stop`."""
        return (*self.ended, *(PlannedResidency(tensor, start, stop) for tensor, start in self.begun))

    def pairs(self, stop: int) -> frozenset[tuple[Name, Name]]:
        """Return which residencies have been there together, one of them ended: all that packing is about.

        Those that go on are together, whatever came before.
        """
        named = list(_named(self.ended))
        going_on = [((tensor, -1), PlannedResidency(tensor, start, stop)) for tensor, start in self.begun]
        return frozenset(
            (name, other)
            for index, (name, one) in enumerate(named)
            for other, another in named[index + 1 :] + going_on
            if _meet(one, another)
        )


START = ResidencyHistory()


class Histories:
    """Carries histories of one problem on from step to step."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self._indexed = indexed
        units, room = indexed.room.units, indexed.room
        unit = gcd(*units) or 1
        self._sizes = [size // unit for size in units]
        self._capacity = room.capacity_units // unit

    def with_operands(self, history: ResidencyHistory, operator: int, step: int) -> ResidencyHistory:
        """Return the history with an operator's operands there, those that were not begin in its step."""
        there = {tensor for tensor, _ in history.begun}
        new = ((tensor, step) for tensor in self._indexed.operand_lists[operator] if tensor not in there)
        return ResidencyHistory(history.ended, (*history.begun, *new))

    def packing_problem(self, history: ResidencyHistory, stop: int) -> PackingProblem:
        """Return the packing of all that the history still knows of."""
        memory, sizes = self._indexed.memory, self._indexed.sizes_bytes
        buffers = tuple(Buffer(one.start, one.stop, sizes[one.tensor]) for one in history.until(stop))
        return PackingProblem(buffers, memory.capacity_bytes, memory.alignment_bytes)

    def after(self, history: ResidencyHistory, kept: int, stop: int) -> ResidencyHistory:
        """Return what still matters of a history that packs, where all but `kept` leaves.

        For whatever follows, all of it packs exactly if what still matters does.
        """
        begun = tuple(sorted((tensor, start) for tensor, start in history.begun if kept >> tensor & 1))
        left = (PlannedResidency(tensor, start, stop) for tensor, start in history.begun if not kept >> tensor & 1)
        ended = self._constraining((*history.ended, *left), begun, stop)
        return ResidencyHistory(
            tuple(sorted(_connected(ended, begun, stop), key=lambda one: (one.start, one.tensor))), begun
        )

    def _constraining(
        self, ended: Iterable[PlannedResidency], begun: Iterable[tuple[int, int]], stop: int
    ) -> list[PlannedResidency]:
        """Leave out what always finds a place beside all that it ever meets, again and again (`Core`)."""
        rest = list(ended)
        others = [PlannedResidency(tensor, start, stop) for tensor, start in begun]
        while (free := next((one for one in rest if self._finds_a_place(one, (*rest, *others))), None)) is not None:
            rest.remove(free)
        return rest

    def _finds_a_place(self, one: PlannedResidency, everyone: Iterable[PlannedResidency]) -> bool:
        size = self._sizes[one.tensor]
        taken = sum(
            self._sizes[other.tensor] + size - 1 for other in everyone if other is not one and _meet(one, other)
        )
        return self._capacity - size + 1 > taken


def _named(residencies: Iterable[PlannedResidency]) -> Iterator[tuple[Name, PlannedResidency]]:
    """Name residencies that come in order of time."""
    earlier: dict[int, int] = {}
    for one in residencies:
        earlier[one.tensor] = earlier.get(one.tensor, -1) + 1
        yield (one.tensor, earlier[one.tensor]), one


def _connected(ended: Iterable[PlannedResidency], begun: Iterable[tuple[int, int]], stop: int) -> set[PlannedResidency]:
    """Return what has met what goes on, or has met what has, and so on."""
    waiting = [PlannedResidency(tensor, start, stop) for tensor, start in begun]
    rest = set(ended)
    connected: set[PlannedResidency] = set()
    while waiting:
        one = waiting.pop()
        met = {other for other in rest if _meet(one, other)}
        rest -= met
        connected |= met
        waiting += met
    return connected


def _meet(one: PlannedResidency, other: PlannedResidency) -> bool:
    return one.start < other.stop and other.start < one.stop
