"""The search space of the compiled exact mapper: bounds, memories of each operand, and spatial unrollings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Final

from onchip.answer.layer_mapping import loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import MemoryLevel
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import INPUT, LOOPS, RELEVANT, Layer
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import OPERANDS, native_layer, native_machine
from onchip.model.unrolling.unrolling import choices_within, divisors, prime_counts
from onchip.native import ExactSpace

NO_CLASS: Final = 3
CLASSES: Final = tuple(
    next((at for at, operand in enumerate(OPERANDS) if loop not in RELEVANT[operand]), NO_CLASS) for loop in LOOPS
)
"""The operand to which each loop is irrelevant (K: input; N, P, Q: weight; C, R, S: output); G has none."""
MOST_TILES: Final = 1 << 17


def space_of(problem: LayerProblem) -> ExactSpace:
    """Return the search space of a problem.

    Raises AcceleratorError if an operand's memories are no chain, InputError for a layer with too many tiles.
    """
    layer, accelerator = problem.layer, problem.accelerator
    copies = [count for bound in layer.bounds.values() for count in prime_counts(bound).values()]
    if prod(count + 1 for count in copies) > MOST_TILES:
        detail = f"it has more than {MOST_TILES} tile shapes"
        raise InputError(detail, place="layer", expected="bounds with fewer divisors")
    holds = [_held(problem, operand) for operand in OPERANDS]
    for held in holds:
        _check_chain(problem.levels, held)
    return ExactSpace(
        layer=native_layer(layer, accelerator),
        machine=native_machine(problem),
        bounds=list(layer.bounds.values()),
        holds=holds,
        touched=[_touched(layer, operand) for operand in OPERANDS],
        ways=ways_of(problem),
    )


def ways_of(problem: LayerProblem) -> list[list[tuple[int, ...]]]:
    """Return for each dimension of the array the possible unrollings along it, with sizes in LOOPS order."""
    array = array_of(problem.accelerator)
    ways = []
    for along, units in array.sizes.items():
        allowed = loops_along(array, along)
        of_bounds = [divisors(bound) if loop in allowed else [1] for loop, bound in problem.layer.bounds.items()]
        ways.append(list(choices_within(of_bounds, units)))
    return ways


def _touched(layer: Layer, operand: str) -> float:
    if operand != INPUT:
        return float(layer.elements(operand))
    found = layer.n * layer.c * layer.g
    for axis in layer.axes:
        outputs, filters = layer.bounds[axis.output_loop], layer.bounds[axis.filter_loop]
        positions = {o * axis.stride + f * axis.dilation - axis.padding for o in range(outputs) for f in range(filters)}
        found *= sum(0 <= position < axis.size for position in positions)
    return float(found)


def _held(problem: LayerProblem, operand: str) -> list[bool]:
    keepers = problem.keepers(operand) if operand in problem.layer.operands else ()
    return [level in keepers for level in problem.levels]


def _check_chain(levels: Sequence[MemoryLevel], held: Sequence[bool]) -> None:
    """Raise AcceleratorError unless each of an operand's memories serves at least the units of the one below."""
    for lower, upper in pairwise(at for at, is_held in enumerate(held) if is_held):
        served, needed = levels[upper].serves, levels[lower].serves
        if served is not None and (needed is None or not set(needed) <= set(served)):
            raise AcceleratorError(
                f"it cannot be filled from {levels[upper].memory.name!r}",
                place=f"memory {levels[lower].memory.name!r}",
                expected="the next that holds the same operand to serve at least the same",
            )
