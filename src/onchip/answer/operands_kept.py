"""The operands that a memory can store at all: an element may be wider than a register."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.layer import Layer

FIRST_SERVED: Final = (Operand.OUTPUT, Operand.INPUT, Operand.WEIGHT)
"""Priority if not all operands fit; a weight that is a second input thus does not affect the other operands."""


def operands_kept(levels: Sequence[MemoryLevel], layer: Layer) -> tuple[frozenset[Operand], ...]:
    """Return, for each of the levels, nearest the MACs first, the operands that it holds and can store.

    A level can store an operand if one instance has capacity for one of its elements, two if double buffered, in
    addition to elements of the operands earlier in FIRST_SERVED. An output element in the nearest memory that keeps
    outputs is a partial sum, unless there is no reduction; elements beyond that memory may be complete. One element of
    every kept operand therefore always fits, and the result is independent of tiles, homes and capacities for tiles.
    """
    found = []
    sums_are_complete = layer.c * layer.r * layer.s == 1
    for level in levels:
        left_bits, kept = 8 * level.memory.capacity_bytes, list[Operand]()
        for operand in FIRST_SERVED:
            if operand not in level.memory.holds or operand not in layer.operands:
                continue
            is_partial = operand is Operand.OUTPUT and not sums_are_complete
            element_bits = layer.partial_bits if is_partial else layer.bits(operand)
            need_bits = element_bits * (2 if level.double_buffered else 1)
            if need_bits <= left_bits:
                left_bits -= need_bits
                kept.append(operand)
        sums_are_complete |= Operand.OUTPUT in kept
        found.append(frozenset(kept))
    return tuple(found)


def leaves_something_out(levels: Sequence[MemoryLevel], layer: Layer) -> bool:
    """Return True if a level holds an operand of the layer but cannot store an element of it."""
    kept = operands_kept(levels, layer)
    wanted = set(layer.operands)
    return any(wanted & set(level.memory.holds) - own for level, own in zip(levels, kept, strict=True))
