"""The memories that keep tiles of an operand: those with capacity for an element, found by trying every choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.memory import DRAM, MemoryLevel, Operand


@dataclass(frozen=True)
class StandingLevels:
    """The memory levels that divide the loop nest, and by operand those that keep its tiles."""

    levels: Sequence[MemoryLevel]
    keepers: Mapping[str, Sequence[MemoryLevel]]


def standing_levels(problem: LayerProblem) -> StandingLevels:
    """Return the levels without those that have no capacity for any element and are no operand's home."""
    streamed = levels_with_room(replace(problem, homes=Homes(), room_bytes={}))
    useful = [level for levels in streamed.values() for level in levels]
    homes = [home for _, home in problem.homes]
    left = [level for level in problem.levels if level in useful or level.memory.name in homes]
    return StandingLevels(left or problem.levels, levels_with_room(problem))


def levels_with_room(problem: LayerProblem) -> dict[str, list[MemoryLevel]]:
    """Return, by operand, the levels below its home in which one element fits, or two if double buffered.

    Of all sets of operands that fit a memory with one element each, the level keeps one with outputs if possible, then
    with inputs, then with weights. In the first memory that keeps outputs, sums arrive with partial width if there is
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
