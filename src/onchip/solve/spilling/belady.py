"""Farthest next use: for a given order, what leaves is what is needed again last."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from onchip.facts.indexed import IndexedProblem, Overwritable
from onchip.solve.run.compose import SearchMove


def belady_moves(indexed: IndexedProblem, order: Sequence[int]) -> tuple[SearchMove, ...]:
    """Return the order with Belady's evictions (Belady 1966): the farthest next use leaves first.

    Every operator must fit by itself. Ties go to the larger tensor. A heap entry is (next use, units, tensor), both
    negated; it is out of date once the tensor has left or been used, and a later one has been made. What nobody reads
    again is overwritten where it may be, and other inputs of the operator where nothing else is left to leave.
    """
    uses: list[list[int]] = [[] for _ in indexed.tensors]
    for step in range(len(order) - 1, -1, -1):
        for tensor in indexed.operand_lists[order[step]]:
            uses[tensor].append(step)
    room, used = indexed.room, 0
    resident: set[int] = set()
    farthest: list[tuple[int, int, int]] = []
    moves: list[SearchMove] = []
    for operator in order:
        operands = indexed.operand_lists[operator]
        used += room.units_of_all(tensor for tensor in operands if tensor not in resident)
        resident.update(operands)
        evicted: list[int] = []
        overwritten: list[int] = []
        dead, living = _overwritable(indexed, operator, uses)
        saved = sum(one.units for one in dead)
        while not room.holds_all(resident, used - saved):
            if not farthest:
                one = living.pop()
                saved += one.units
                overwritten.append(one.tensor)
                continue
            next_use, _, tensor = heappop(farthest)
            if tensor in resident and tensor not in operands and uses[tensor][-1] == -next_use:
                evicted.append(tensor)
                resident.remove(tensor)
                used -= room.units[tensor]
        moves.append(SearchMove(operator, tuple(sorted(evicted)), tuple(sorted(overwritten))))
        for tensor in operands:
            uses[tensor].pop()
            if uses[tensor] and tensor not in overwritten:
                heappush(farthest, (-uses[tensor][-1], -room.units[tensor], tensor))
            else:
                resident.remove(tensor)
                used -= room.units[tensor]
    return tuple(moves)


def _overwritable(
    indexed: IndexedProblem, operator: int, uses: Sequence[Sequence[int]]
) -> tuple[list[Overwritable], list[Overwritable]]:
    """Return what an operator overwrites since it is read last, and what else it may: one of each group of inputs."""
    last: dict[int, Overwritable] = {}
    later: dict[int, Overwritable] = {}
    for one in indexed.overwritable_lists[operator]:
        (last if len(uses[one.tensor]) == 1 else later).setdefault(one.group, one)
    return list(last.values()), [one for group, one in later.items() if group not in last]
