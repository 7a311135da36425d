"""Legality checks of a mapping on an accelerator: names, array, capacities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import prod

from onchip.answer.layer_mapping import LayerMapping, MappingError, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.errors import AcceleratorError
from onchip.ir.layer import OUTPUT, Layer
from onchip.model.accounting.accounting import INTERPRETER, Accounting
from onchip.model.layer.accesses import bits_below, output_bits_in
from onchip.model.layer.ragged import Crossed, boundaries
from onchip.model.layer.tiles import Boundary


def checked_boundaries(problem: LayerProblem, mapping: LayerMapping, accounting: Accounting = INTERPRETER) -> Crossed:
    """Return the boundaries that tiles cross, of the layer as executed or, in parts, as requested.

    Raises MappingError if the mapping does not fit, AcceleratorError if there is no array or no path upwards.
    """
    check_memories(problem, mapping)
    _check_loops_divide(problem.layer, mapping, accounting)
    check_array(problem.accelerator, mapping)
    executed = mapping.layer(problem.layer)
    crossed = boundaries(problem.layer if accounting.counts_from_bounds else executed, problem, mapping, accounting)
    _check_capacities(problem, needed_bits(problem, crossed))
    return crossed


def misfit(
    problem: LayerProblem, mapping: LayerMapping, *, may_pad: bool = False, counts_room: bool = True
) -> MappingError | None:
    """Return why a mapping is illegal, or None; without `counts_room`, capacities do not matter.

    With `may_pad` the loops may iterate beyond the layer's bounds.
    """
    try:
        _check_iterations(problem.layer, mapping, may_pad=may_pad)
        if not counts_room:
            check_memories(problem, mapping)
            check_array(problem.accelerator, mapping)
        else:
            checked_boundaries(problem, mapping)
    except MappingError as error:
        return error
    return None


def _check_iterations(layer: Layer, mapping: LayerMapping, *, may_pad: bool) -> None:
    """Raise MappingError for loops that do not cover a bound, or do so without their last iteration."""
    for name, bound in layer.bounds.items():
        sizes = [loop.size for loop in mapping.nest if loop.dimension == name and loop.size > 1]
        iterations = prod(sizes)
        without_last = iterations - prod(sizes[:-1]) if sizes else 0
        is_too_long = without_last >= bound if name in mapping.ragged else iterations > bound and not may_pad
        if iterations < bound or is_too_long:
            raise MappingError(f"loop {name} has {iterations} iterations", place="mapping", expected=f"{bound}")


def array_of(accelerator: Accelerator) -> ComputeArray:
    """Return the accelerator's array; raises AcceleratorError if there is none."""
    if accelerator.array is None:
        place = f"accelerator {accelerator.name!r}"
        raise AcceleratorError("it has no array to map loops on", place=place, expected="`array` in its file")
    return accelerator.array


def _check_loops_divide(layer: Layer, mapping: LayerMapping, accounting: Accounting) -> None:
    """Raise MappingError for loops that end short, except in the interpreter's accounting."""
    for name in mapping.ragged if accounting.counts_from_bounds else ():
        if mapping.bounds[name] > layer.bounds[name]:
            detail = f"loop {name} ends short: {mapping.bounds[name]} iterations for {layer.bounds[name]}"
            expected = "loops that divide the bound, or the interpreter's accounting"
            raise MappingError(detail, place="mapping", expected=expected)


def check_memories(problem: LayerProblem, mapping: LayerMapping) -> None:
    """Raise MappingError unless each memory holds its operand, and farther ones serve all that nearer ones do."""
    levels = {level.memory.name: level for level in problem.levels}
    order = list(levels)
    for operand in Operand:
        names = [kept.memory for kept in mapping.kept(operand)]
        if names and operand not in problem.layer.operands:
            raise MappingError(f"the layer has no {operand}", place="mapping", expected="it to be kept nowhere")
        for name in names:
            if name not in levels:
                raise MappingError(f"there is no memory {name!r}", place=f"{operand}", expected=_one_of(levels))
            holds = levels[name].memory.holds
            if operand not in holds:
                raise MappingError(f"memory {name!r} does not hold it", place=f"{operand}", expected=_one_of(holds))
            if levels[name] not in problem.below_home(operand):
                detail = f"memory {name!r} is not below {problem.home(operand)!r}, where all of it lies"
                raise MappingError(detail, place=f"{operand}", expected="it to be kept below")
        for lower, upper in pairwise(names):
            served, needed = levels[upper].serves, levels[lower].serves
            serves_less = served is not None and (needed is None or not set(needed) <= set(served))
            if order.index(lower) >= order.index(upper) or serves_less:
                detail = f"memory {lower!r} cannot be filled from memory {upper!r}"
                expected = "one farther from the MACs that serves at least the same"
                raise MappingError(detail, place=f"{operand}", expected=expected)


def check_array(accelerator: Accelerator, mapping: LayerMapping) -> None:
    """Raise MappingError unless each dimension allows its spatial loops and has enough units."""
    array = array_of(accelerator)
    for dimension in dict.fromkeys(loop.along for loop in mapping.nest if loop.along is not None):
        if dimension not in array.sizes:
            raise MappingError(
                f"the array has no dimension {dimension!r}", place="array", expected=_one_of(array.sizes)
            )
        loops = [loop for loop in mapping.nest if loop.along == dimension and loop.size > 1]
        for loop in loops:
            if loop.dimension not in loops_along(array, dimension):
                detail = f"{loop.dimension} cannot be unrolled along {dimension!r}"
                raise MappingError(detail, place="array", expected=_one_of(loops_along(array, dimension)))
        need = prod(loop.size for loop in loops)
        if need > array.sizes[dimension]:
            detail = f"{' x '.join(map(str, loops))} need {need} units"
            raise MappingError(detail, place=f"array: {dimension}", expected=f"at most {array.sizes[dimension]}")


def _check_capacities(problem: LayerProblem, needs: Mapping[tuple[str, str], int]) -> None:
    """Raise MappingError if the operands together exceed a memory's capacity."""
    for level in problem.levels:
        need = {operand: bits for (memory, operand), bits in needs.items() if memory == level.memory.name}
        capacity = problem.usable_bits(level.memory.name)
        if sum(need.values()) > capacity:
            greatest = max(need, key=lambda operand: need[operand])
            raise MappingError(
                f"tiles need {sum(need.values())} bits, {need[greatest]} of them {greatest}",
                place=f"memory {level.memory.name!r}",
                expected=f"at most {capacity} bits",
            )


def needed_bits(problem: LayerProblem, crossed: Crossed) -> dict[tuple[str, str], int]:
    """Return the bits that one instance of each memory needs for each operand."""
    needs = {}
    for operand, own in crossed.items():
        layer = own[0].layer
        if (home := problem.home(operand)) != DRAM:
            bits = output_bits_in(own[-1]) if operand == OUTPUT else layer.bits(operand)
            needs[home, operand] = layer.elements(operand) * bits
        for below, boundary in pairwise(own):
            level = boundary.lower.level
            bits = bits_below(boundary, below) if operand == OUTPUT else layer.bits(operand)
            needs[boundary.lower.memory, operand] = boundary.lower_room() * bits * _copies(level, boundary)
    return needs


def _copies(level: MemoryLevel | None, boundary: Boundary) -> int:
    """Return 2 for a double-buffered memory with several tiles, else 1."""
    return 2 if level is not None and level.double_buffered and boundary.episodes > 1 else 1


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}"
