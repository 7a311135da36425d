"""Where a memory has room for two tiles of an operand, so that the next may come while one is in use."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Final

from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT
from onchip.model.layer.accesses import bits_below
from onchip.model.layer.chains import Crossed
from onchip.model.layer.tiles import Boundary

ORDER: Final = (OUTPUT, WEIGHT, INPUT)
"""Who takes the room that is left first."""


def with_room_for_two(problem: LayerProblem, crossed: Crossed) -> frozenset[tuple[str, str]]:
    """Pairs of a memory and an operand.

    What counts of a tile is the part in use at a time: without the outermost of its loops along which it moves on.
    Where all operands of a memory together leave half of it free, each has room; else one after the other takes what
    is left.
    """
    in_use: dict[tuple[str, str], int] = {}
    for operand in (operand for operand in ORDER if operand in crossed):
        for below, boundary in pairwise(crossed[operand]):
            bits = bits_below(boundary, below) if operand == OUTPUT else boundary.layer.bits(operand)
            ((size, _),) = boundary.lower_sizes()[-1:]
            in_use[boundary.lower.memory, operand] = size * bits // _outermost_steps(boundary)
    taken = {level.memory.name: 0 for level in problem.levels}
    for (memory, _), bits in in_use.items():
        taken[memory] += bits
    capacities = {level.memory.name: problem.usable_bits(level.memory.name) for level in problem.levels}
    found = set()
    for (memory, operand), bits in in_use.items():
        if 2 * taken[memory] <= capacities[memory]:
            found.add((memory, operand))
        elif bits <= capacities[memory] - taken[memory]:
            found.add((memory, operand))
            taken[memory] += bits
    return frozenset(found)


def _outermost_steps(boundary: Boundary) -> int:
    overlapping = {loop for axis in boundary.axes for loop in (axis.output_loop, axis.filter_loop)}
    whole = [loop for loop in RELEVANT[boundary.operand] if loop not in overlapping]
    own = [
        loop
        for loop in boundary.mapping.nest[boundary.inner_cut : boundary.lower.cut]
        if loop.along is None and loop.size > 1
    ]
    kept = list(own)
    while kept and kept[-1].dimension in whole:
        kept.pop()
    return prod(loop.size for loop in own[len(kept) :])
