"""Mappings made without a search, in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, prod
from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.layer import INPUT, RELEVANT
from onchip.mapping.baselines.best import BestRow
from onchip.mapping.baselines.loma import filled_orders, inside_first
from onchip.model.accounting.accounting import INTERPRETER
from onchip.model.layer.tables import LayerCosts
from onchip.model.unrolling.unrolling import Unrolled, unrolled_greedily

SUMMED: Final = ("S", "R", "C")
INNERMOST_FIRST: Final = (*SUMMED, "Q", "P", "K", "G", "N")
"""Reduction loops are innermost, so that partial sums stay near the MACs."""
FACTORS: Final = 4
"""Factors into which the temporal loops are joined: at most 24 orders."""


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


def greedy_mapping(problem: LayerProblem, objective: MappingObjective) -> LayerMapping | None:
    """Return the best of LOMA's fillings of a few orders and of `one_by_one`; None if none fits.

    The array unrolls no more than all memories have room for. Raises AcceleratorError if the accelerator's description
    is incomplete, InputError for loops of more than 65,535.
    """
    unrolled, serial = _unrolled(problem), one_by_one(problem)
    best = BestRow(problem, objective, INTERPRETER, unrolled)
    for chosen in filled_orders(problem, unrolled, FACTORS, INTERPRETER, has_stored_room=True):
        best.offer(chosen)
    costs = LayerCosts(problem).of([serial])
    energy_pj, cycles = float(costs.energy_pj[0]), float(costs.cycles[0])
    value = objective.of(energy_pj, cycles) if isfinite(energy_pj) else inf
    return serial if value < best.value else best.mapping


def _unrolled(problem: LayerProblem) -> Unrolled:
    """Return LOMA's spatial unrolling, limited to tiles of one array iteration that fit all memories."""

    def may_stand(beside: Sequence[Loop]) -> bool:
        return all(_has_room(problem, level, beside) for level in problem.levels)

    return inside_first(problem, unrolled_greedily(problem.layer, problem.accelerator, may_stand))


def _has_room(problem: LayerProblem, level: MemoryLevel, beside: Sequence[Loop]) -> bool:
    """Return True if a memory has room for its tiles of one iteration besides the operands that reside whole in it."""
    layer, name = problem.layer, level.memory.name
    sizes = dict.fromkeys(layer.bounds, 1)
    for loop in beside:
        if level.serves is None or loop.along in level.serves:
            sizes[loop.dimension] *= loop.size
    room = problem.usable_bits(name)
    room -= sum(layer.elements(one) * _bits(problem, one) for one in layer.operands if problem.home(one) == name)
    kept = (one for one in layer.operands if level in problem.keepers(one))
    need = sum(_elements(problem, one, sizes) * _bits(problem, one) for one in kept)
    return need <= (room // 2 if level.double_buffered else room)


def _bits(problem: LayerProblem, operand: str) -> int:
    return problem.layer.partial_bits if operand == Operand.OUTPUT else problem.layer.bits(operand)


def _elements(problem: LayerProblem, operand: str, sizes: dict[str, int]) -> int:
    if operand != INPUT:
        return prod(sizes[name] for name in RELEVANT[operand])
    positions = 1
    for axis in problem.layer.axes:
        outputs, filters = sizes[axis.output_loop], sizes[axis.filter_loop]
        positions *= min((outputs - 1) * axis.stride + (filters - 1) * axis.dilation + 1, axis.size)
    return sizes["N"] * sizes["C"] * sizes["G"] * positions
