"""A mapping of the same layer for other homes: the same loops, without or with the memories that changed."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand


def adapted(mapping: LayerMapping, problem: LayerProblem) -> LayerMapping:
    """The same loops; every memory of the problem keeps what it holds, a new one the tile of the memory below it.

    The tiles may be larger than the room: whether it is legal is for the verifier.
    """
    return replace(
        mapping,
        input=_kept(mapping, problem, Operand.INPUT),
        weight=_kept(mapping, problem, Operand.WEIGHT),
        output=_kept(mapping, problem, Operand.OUTPUT),
    )


def _kept(mapping: LayerMapping, problem: LayerProblem, operand: Operand) -> tuple[Kept, ...]:
    if operand not in problem.layer.operands:
        return ()
    loops_of = {one.memory: one.loops for one in mapping.kept(operand)}
    kept: list[Kept] = []
    for level in problem.keepers(operand):
        below = kept[-1].loops if kept else 0
        kept.append(Kept(level.memory.name, loops_of.get(level.memory.name, below)))
    return tuple(kept)
