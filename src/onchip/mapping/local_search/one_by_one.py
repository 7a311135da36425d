"""The serial mapping: one product after the other, with a single element of each operand in each memory."""

from __future__ import annotations

from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand

SUMMED: Final = ("S", "R", "C")
INNERMOST_FIRST: Final = (*SUMMED, "Q", "P", "K", "G", "N")
"""Reduction loops are innermost, so that partial sums stay near the MACs."""


def one_by_one(problem: LayerProblem) -> LayerMapping:
    """Return the serial mapping; each memory keeps one element of each operand it holds, without a capacity check."""
    bounds = problem.layer.bounds
    loops = tuple(Loop(name, bounds[name]) for name in INNERMOST_FIRST if bounds[name] > 1)
    summed = sum(loop.dimension in SUMMED for loop in loops)
    kept = (
        tuple(Kept(level.memory.name, summed if operand is Operand.OUTPUT else 0) for level in keepers)
        for operand in Operand
        for keepers in (problem.keepers(operand) if operand in problem.layer.operands else (),)
    )
    return LayerMapping(loops, *kept)
