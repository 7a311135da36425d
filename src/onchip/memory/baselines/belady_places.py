"""Farthest next use with several scratchpads: what leaves makes room where least is lost by it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from typing import TypeAlias

from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.model.capacity.fitting import places_of_operands
from onchip.model.lifetimes.bit_masks import bits
from onchip.model.lifetimes.indexed import IndexedProblem

NEVER = 1 << 60
Room: TypeAlias = tuple[tuple[int, int], int, tuple[int, ...]]
"""What it costs and how little is left over, the scratchpad, who leaves."""


def belady_schedule(indexed: IndexedProblem, order: Sequence[int]) -> OperatorSchedule:
    """Return the order with places and evictions, one step after the other; addresses aside, it always fits.

    Every operator must fit by itself.
    """
    return _Placing(indexed, order, None).schedule()


def placed_schedule(indexed: IndexedProblem, pooled: OperatorSchedule) -> OperatorSchedule:
    """Return a schedule made for one scratchpad as large as all, with places; where there are none, more leaves."""
    return _Placing(indexed, pooled.order, pooled).schedule()


class _Placing:
    def __init__(self, indexed: IndexedProblem, order: Sequence[int], guide: OperatorSchedule | None) -> None:
        self._indexed = indexed
        self._order = tuple(order)
        self._uses = indexed.uses(order)
        self._rooms = [view.room for view in indexed.views]
        self._there: list[set[int]] = [set() for _ in self._rooms]
        self._used = [0] * len(self._rooms)
        self._memory_of: dict[int, int] = {}
        self._began: dict[int, int] = {}
        self._residencies: list[PlannedResidency] = []
        self._leaves = {(r.tensor, r.stop - 1) for r in guide.residencies} if guide else set()

    def schedule(self) -> OperatorSchedule:
        for step, operator in enumerate(self._order):
            self._make_resident(step, operator)
            for tensor in self._indexed.operand_lists[operator]:
                if self._next_use(tensor, step) == NEVER or (tensor, step) in self._leaves:
                    self._leave(tensor, step + 1)
        return OperatorSchedule(self._order, tuple(sorted(self._residencies, key=lambda r: (r.start, r.tensor))))

    def _make_resident(self, step: int, operator: int) -> None:
        indexed, written = self._indexed, self._indexed.write_lists[operator]
        operands = indexed.operand_lists[operator]
        taken_in = {
            tensor: (indexed.written_in if tensor in written else indexed.read_in)[tensor] for tensor in operands
        }
        for tensor in taken_in:
            if tensor in self._memory_of and not taken_in[tensor] >> self._memory_of[tensor] & 1:
                self._leave(tensor, step)
        missing = [tensor for tensor in taken_in if tensor not in self._memory_of]
        for tensor in sorted(missing, key=lambda t: (taken_in[t].bit_count(), -indexed.sizes_bytes[t])):
            choices = [self._room_for(tensor, memory, operands, step) for memory in bits(taken_in[tensor])]
            possible = [choice for choice in choices if choice is not None]
            if not possible:
                self._start_anew(step, operator)
                return
            _, memory, evicted = min(possible)
            self._enter(tensor, memory, evicted, step)

    def _room_for(self, tensor: int, memory: int, operands: Collection[int], step: int) -> Room | None:
        """Return how to make room, the farthest next uses first; None if the operands leave too little."""
        room, used = self._rooms[memory], self._used[memory] + self._rooms[memory].units[tensor]
        if used <= room.capacity_units:
            return (0, room.capacity_units - used), memory, ()
        there = {*self._there[memory], tensor}
        evicted, cost = [], 0
        others = sorted(sorted(there.difference(operands)), key=lambda t: self._next_use(t, step))
        while not room.holds_all(there, used):
            if not others:
                return None
            leaving = others.pop()
            evicted.append(leaving)
            there.remove(leaving)
            used -= room.units[leaving]
            cost += self._indexed.load_costs[leaving]
        return (cost, room.capacity_units - used), memory, tuple(evicted)

    def _start_anew(self, step: int, operator: int) -> None:
        """The operands in place leave too little room for the others: all are placed together."""
        operands = self._indexed.operand_lists[operator]
        places = places_of_operands(self._indexed, operator) or {}
        for tensor, memory in places.items():
            if self._memory_of.get(tensor, memory) != memory:
                self._leave(tensor, step)
        for tensor, memory in places.items():
            if tensor not in self._memory_of:
                choice = self._room_for(tensor, memory, operands, step)
                self._enter(tensor, memory, choice[2] if choice else (), step)

    def _enter(self, tensor: int, memory: int, evicted: tuple[int, ...], step: int) -> None:
        for other in evicted:
            self._leave(other, step)
        self._memory_of[tensor], self._began[tensor] = memory, step
        self._there[memory].add(tensor)
        self._used[memory] += self._rooms[memory].units[tensor]

    def _leave(self, tensor: int, before: int) -> None:
        """The residency ends with the last use before that step, if there has been one."""
        memory, began = self._memory_of.pop(tensor), self._began.pop(tensor)
        self._there[memory].remove(tensor)
        self._used[memory] -= self._rooms[memory].units[tensor]
        if began < before:
            last_use = self._uses[tensor][bisect_left(self._uses[tensor], before) - 1]
            self._residencies.append(PlannedResidency(tensor, began, last_use + 1, memory))

    def _next_use(self, tensor: int, step: int) -> int:
        uses = self._uses[tensor]
        following = bisect_right(uses, step)
        return uses[following] if following < len(uses) else NEVER
