"""A mapping of the same layer for other homes: the same loops, without or with the memories that changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from math import isfinite

from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import Operand
from onchip.ir.layer import Layer
from onchip.model.layer.batch import LayerCosts
from onchip.verify.mapping import verify_mapping


def best_adapted(
    problem: LayerProblem, similar: Iterable[LayerMapping], objective: MappingObjective
) -> LayerMapping | None:
    """The best of those that are legal once they are adapted, the first of equals; None where none is.

    Raises AcceleratorError where the accelerator says too little, InputError for loops of more than 65,535.
    """
    executed: defaultdict[Layer, list[LayerMapping]] = defaultdict(list)
    for mapping in dict.fromkeys(adapted(other, problem) for other in similar):
        if not verify_mapping(problem, mapping):
            executed[mapping.layer(problem.layer)].append(mapping)
    valued = [
        (objective.of(float(energy_pj), float(cycles)), mapping)
        for layer, mappings in executed.items()
        for costs in (LayerCosts(problem, layer).of(mappings),)
        for mapping, energy_pj, cycles in zip(mappings, costs.energy_pj, costs.cycles, strict=True)
        if isfinite(energy_pj)
    ]
    return min(valued, key=lambda one: one[0], default=(0.0, None))[1]


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
