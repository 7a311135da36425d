"""Lower bounds on an operator's memory need in every order without spills: operands and tensors that surely wait."""

from __future__ import annotations

from typing import Final

import numpy as np

from onchip.model.lifetimes.indexed import IndexedProblem

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
