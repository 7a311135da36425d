"""The mapping that any layer has where there is room for an element of each operand: one product after the other."""

from __future__ import annotations

from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand

SUMMED: Final = ("S", "R", "C")
INNERMOST_FIRST: Final = (*SUMMED, "Q", "P", "K", "G", "N")
"""Loops over what is summed up come first, so that sums in the making stay near the MACs."""


def one_by_one(problem: LayerProblem) -> LayerMapping:
    """One multiply-accumulate after the other; each memory keeps an element of what it holds, whether it has room."""
    bounds = problem.layer.bounds
    loops = tuple(Loop(name, bounds[name]) for name in INNERMOST_FIRST if bounds[name] > 1)
    summed = sum(loop.dimension in SUMMED for loop in loops)
    kept = (
        tuple(Kept(level.memory.name, summed if operand is Operand.OUTPUT else 0) for level in keepers)
        for operand in Operand
        for keepers in (problem.keepers(operand) if operand in problem.layer.operands else (),)
    )
    return LayerMapping(loops, *kept)
