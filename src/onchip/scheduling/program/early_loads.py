"""Loads that begin one operator earlier, so that the DMA fills memory while the array computes.

A queue takes its copies in the order of the program. A load that stands behind the stores of the operator before waits
for them, and so for that operator; in front of it the load and the operator run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, Memory
from onchip.ir.graph import Graph


def with_early_loads(
    instructions: Sequence[Instruction], memories: Sequence[Memory], size_of: Callable[[str, str], int], graph: Graph
) -> list[Instruction]:
    """Return a program with each load in front of the Compute before it, if memories have enough free bytes.

    `size_of` returns the bytes of a tensor in a memory; `graph` is the tile graph. A load does not pass an instruction
    that reads, writes, moves, or frees its tensor. So the homes of operands and the copies in DRAM do not change.
    """
    capacity = {memory.name: memory.capacity_bytes for memory in memories}
    found: list[Instruction] = []
    free: list[Mapping[str, int]] = []  # bytes of each memory behind each instruction of `found`
    at = 0
    while at < len(instructions):
        one, after = instructions[at], instructions[at + 1] if at + 1 < len(instructions) else None
        moved, place = [one], len(found)
        if isinstance(one, Allocate) and isinstance(after, Copy) and (after.tensor, after.source) == (one.tensor, DRAM):
            moved.append(after)
            place = _place(found, free, one, size_of(one.tensor, one.memory), graph)
        found[place:place] = moved
        free[place:place] = [capacity] * len(moved)
        for number in range(place, len(found)):
            free[number] = _after(found[number], free[number - 1] if number else capacity, size_of)
        at += len(moved)
    return found


def _place(
    found: Sequence[Instruction], free: Sequence[Mapping[str, int]], load: Allocate, size_bytes: int, graph: Graph
) -> int:
    """Return where a load may stand: in front of the last Compute and all that is allocated for it, else at the end.

    `free` are the free bytes behind each instruction of `found`; an empty memory has enough.
    """
    place, is_earlier = len(found), False
    while place and not (is_earlier and not isinstance(found[place - 1], Allocate)):
        place -= 1
        lacks_bytes = place > 0 and free[place - 1][load.memory] < size_bytes
        if _touches(found[place], load.tensor, graph) or lacks_bytes:
            return len(found)
        is_earlier |= isinstance(found[place], Compute)
    return place if is_earlier else len(found)


def _touches(one: Instruction, tensor: str, graph: Graph) -> bool:
    """Return True if an instruction is about a tensor, or an operator reads or writes it."""
    if isinstance(one, Compute):
        operator = graph.operator[one.operator]
        return tensor in operator.reads or tensor in operator.outputs
    return one.tensor == tensor


def _after(one: Instruction, free: Mapping[str, int], size_of: Callable[[str, str], int]) -> dict[str, int]:
    """Return the free bytes of each memory behind an instruction."""
    left = dict(free)
    match one:
        case Allocate(tensor, memory):
            left[memory] -= size_of(tensor, memory)
        case Free(tensor, memory):
            left[memory] += size_of(tensor, memory)
    return left
