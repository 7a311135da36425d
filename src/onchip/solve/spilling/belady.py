"""Farthest next use: for a given order, what leaves is what is needed again last."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.facts.indexed import IndexedProblem, bits
from onchip.solve.run.compose import SearchMove


def belady_moves(indexed: IndexedProblem, order: Sequence[int]) -> tuple[SearchMove, ...]:
    """Return the order with Belady's evictions (Belady 1966): the farthest next use leaves first.

    Every operator must fit by itself. Ties go to the larger tensor.
    """
    uses: list[list[int]] = [[] for _ in indexed.tensors]
    for step in range(len(order) - 1, -1, -1):
        for tensor in indexed.operand_lists[order[step]]:
            uses[tensor].append(step)
    room, resident, used = indexed.room, 0, 0
    moves: list[SearchMove] = []
    for operator in order:
        operands = indexed.operands[operator]
        used += room.units_of(operands & ~resident)
        resident |= operands
        evicted = 0
        while not room.holds(resident, used):
            farthest = max(bits(resident & ~operands), key=lambda tensor: (uses[tensor][-1], room.units[tensor]))
            evicted |= 1 << farthest
            resident &= ~(1 << farthest)
            used -= room.units[farthest]
        moves.append(SearchMove(operator, evicted))
        for tensor in indexed.operand_lists[operator]:
            uses[tensor].pop()
            if not uses[tensor]:
                resident &= ~(1 << tensor)
                used -= room.units[tensor]
    return tuple(moves)
