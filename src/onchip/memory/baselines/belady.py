"""Farthest next use: for a given order, what leaves is what is needed again last."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from onchip.memory.decisions.compose import SearchMove
from onchip.model.lifetimes.indexed import IndexedProblem, Overwritable


def belady_moves(indexed: IndexedProblem, order: Sequence[int]) -> tuple[SearchMove, ...]:
    """Return the order with Belady's evictions (Belady 1966): the farthest next use leaves first.

    Every operator must fit by itself. Ties go to the larger tensor. A heap entry is (next use, units, tensor), both
    negated; it is out of date once the tensor has left or been used, and a later one has been made. What nobody reads
    again is overwritten where it may be, and other inputs of the operator where nothing else is left to leave.
    """
    policy = _Belady(indexed, order)
    return tuple(policy.run(operator) for operator in order)


class _Belady:
    """What is resident, and the steps of each tensor's uses that are to come, the next one last."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int]) -> None:
        self._indexed = indexed
        self._room = indexed.room
        self._used = 0
        self._resident: set[int] = set()
        self._farthest: list[tuple[int, int, int]] = []
        self._uses: list[list[int]] = [[] for _ in indexed.tensors]
        for step in range(len(order) - 1, -1, -1):
            for tensor in indexed.operand_lists[order[step]]:
                self._uses[tensor].append(step)

    def run(self, operator: int) -> SearchMove:
        """Make room for the operands, run the operator, and let go of what is not needed again."""
        operands = self._indexed.operand_lists[operator]
        self._used += self._room.units_of_all(tensor for tensor in operands if tensor not in self._resident)
        self._resident.update(operands)
        evicted, overwritten = self._make_room(operator, operands)
        for tensor in operands:
            self._uses[tensor].pop()
            if self._uses[tensor] and tensor not in overwritten:
                heappush(self._farthest, (-self._uses[tensor][-1], -self._room.units[tensor], tensor))
            else:
                self._leave(tensor)
        return SearchMove(operator, tuple(sorted(evicted)), tuple(sorted(overwritten)))

    def _make_room(self, operator: int, operands: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return what is evicted and, where nothing else is left to leave, overwritten though it is read again."""
        evicted: list[int] = []
        overwritten: list[int] = []
        dead, living = self._overwritable(operator)
        saved = sum(one.units for one in dead)
        while not self._room.holds_all(self._resident, self._used - saved):
            if not self._farthest:
                one = living.pop()
                saved += one.units
                overwritten.append(one.tensor)
                continue
            next_use, _, tensor = heappop(self._farthest)
            if tensor in self._resident and tensor not in operands and self._uses[tensor][-1] == -next_use:
                evicted.append(tensor)
                self._leave(tensor)
        return evicted, overwritten

    def _leave(self, tensor: int) -> None:
        self._resident.remove(tensor)
        self._used -= self._room.units[tensor]

    def _overwritable(self, operator: int) -> tuple[list[Overwritable], list[Overwritable]]:
        """Return what is overwritten since it is read last, and what else may be: one of each group of inputs."""
        last: dict[int, Overwritable] = {}
        later: dict[int, Overwritable] = {}
        for one in self._indexed.overwritable_lists[operator]:
            (last if len(self._uses[one.tensor]) == 1 else later).setdefault(one.group, one)
        return list(last.values()), [one for group, one in later.items() if group not in last]
