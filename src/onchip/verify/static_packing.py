"""Checks that a static packing is legal: each memory obeys the rules of packings, and each pin names its memory."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.static_packing import StaticPacking, StaticPackingProblem
from onchip.verify.packing import ALL_BUFFERS, verify_packing
from onchip.verify.rules import Rule, Violation


def verify_static_packing(problem: StaticPackingProblem, packing: StaticPacking) -> tuple[Violation, ...]:
    """Return all violations of a static packing; it is legal exactly when there are none."""
    if len(packing.places) != len(problem.buffers):
        detail = f"{len(packing.places)} places for {len(problem.buffers)} buffers"
        return (Violation(Rule.OFFSETS_MISCOUNTED, ALL_BUFFERS, detail),)
    violations: list[Violation] = []
    for index, place in enumerate(packing.places):
        if not 0 <= place.memory < len(problem.memories):
            violations.append(Violation(Rule.NO_SUCH_MEMORY, _name(index), f"it lies in memory {place.memory}"))
            continue
        pin = problem.pinned[index]
        if pin is not None and pin != place.memory:
            detail = f"it lies in memory {place.memory}, and is pinned to {pin}"
            violations.append(Violation(Rule.NOT_HELD, _name(index), detail))
        reserved = problem.memories[place.memory].reserved_bytes
        if 0 <= place.offset_bytes < reserved:
            detail = f"it is at {place.offset_bytes}, the first {reserved} bytes are taken"
            violations.append(Violation(Rule.OVERLAP, _name(index), detail))
    for memory in range(len(problem.memories)):
        violations += _within(problem, packing, memory)
    return tuple(violations)


def _within(problem: StaticPackingProblem, packing: StaticPacking, memory: int) -> list[Violation]:
    """Return the violations in one memory, with buffers named by their index in the whole problem."""
    inside = [index for index, place in enumerate(packing.places) if place.memory == memory]
    offsets = [packing.places[index].offset_bytes for index in inside]
    buffers = [problem.buffers[index] for index in inside]
    highest = max((offset + one.size_bytes for offset, one in zip(offsets, buffers, strict=True)), default=0)
    capacity = problem.memories[memory].capacity_bytes
    alone = PackingProblem(
        tuple(buffers), highest if capacity is None else capacity, problem.memories[memory].alignment_bytes
    )
    names = {_name(number): index for number, index in enumerate(inside)}
    return [
        replace(one, subject=_name(names[one.subject]), detail=f"among those in memory {memory}, {one.detail}")
        for one in verify_packing(alone, Packing(tuple(offsets)))
    ]


def _name(index: int) -> str:
    return f"buffer {index}"
