"""Of which operands a memory has room for tiles at all: an element may be wider than a register."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.layer import Layer

FIRST_SERVED: Final = (Operand.OUTPUT, Operand.INPUT, Operand.WEIGHT)
"""Where elements of all do not fit beside each other. So a weight that is a second input changes nothing for others."""


def operands_kept(levels: Sequence[MemoryLevel], layer: Layer) -> tuple[frozenset[Operand], ...]:
    """Return, for each of the levels, nearest the MACs first, the operands that it holds and has room for.

    It has room where one instance can hold an element of the operand, two if it is double buffered, beside those of
    the operands that are FIRST_SERVED. An element of an output in the nearest memory that keeps outputs is a sum in the
    making, unless nothing is added up; what comes from there may be complete. So one element at a time of every
    operand that is kept always fits, and whether an operand is kept depends on no tile, home or room.
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
    """Whether a level holds an operand of the layer and has no room for it."""
    kept = operands_kept(levels, layer)
    wanted = set(layer.operands)
    return any(wanted & set(level.memory.holds) - own for level, own in zip(levels, kept, strict=True))
