"""Which memories keep tiles of an operand: those with room for an element of it, found by looking at every choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.memory import DRAM, MemoryLevel, Operand


@dataclass(frozen=True)
class StandingLevels:
    """The levels between which loops stand, and by operand those of them that keep tiles of it."""

    levels: Sequence[MemoryLevel]
    keepers: Mapping[str, Sequence[MemoryLevel]]


def standing_levels(problem: LayerProblem) -> StandingLevels:
    """Without the levels that have room for nothing and are nobody's home."""
    streamed = levels_with_room(replace(problem, homes=Homes(), room_bytes={}))
    useful = [level for levels in streamed.values() for level in levels]
    homes = [home for _, home in problem.homes]
    left = [level for level in problem.levels if level in useful or level.memory.name in homes]
    return StandingLevels(left or problem.levels, levels_with_room(problem))


def levels_with_room(problem: LayerProblem) -> dict[str, list[MemoryLevel]]:
    """By operand the levels below its home in which one element fits, two if double buffered, beside the others'.

    Of all sets of operands of which a memory has room for an element, it keeps one with outputs rather than without,
    then with inputs, then with weights. In the first memory that keeps outputs sums arrive in the making, if there is
    more than one product.
    """
    layer, found = problem.layer, {str(operand): list[MemoryLevel]() for operand in Operand}
    for level in problem.levels:
        held = [one for one in Operand if one in level.memory.holds and one in layer.operands]
        bits = {one: layer.bits(one) for one in held}
        if Operand.OUTPUT in bits and not found["output"] and layer.c * layer.r * layer.s > 1:
            bits[Operand.OUTPUT] = layer.partial_bits
        copies, capacity_bits = 1 + level.double_buffered, 8 * level.memory.capacity_bytes
        sets = [one for size in range(len(held) + 1) for one in combinations(held, size)]
        fitting = [one for one in sets if copies * sum(bits[operand] for operand in one) <= capacity_bits]
        for operand in max(fitting, key=lambda one: [wanted in one for wanted in ("output", "input", "weight")]):
            found[operand].append(level)
    names = [level.memory.name for level in problem.levels]
    for name, levels in found.items():
        home = problem.home(name)
        if home != DRAM:
            found[name] = [one for one in levels if names.index(one.memory.name) < names.index(home)]
    return found
