"""The bytes that a mapping takes of an addressed memory, by section 5 of docs/schedule.md, counted by position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import RELEVANT, Axis, Layer


def workspace(problem: LayerProblem, mapping: LayerMapping, memory: str) -> int:
    """Return the bytes of all tiles in the memory, with double buffering, and of wider sums at their home."""
    layer, bits = problem.layer, 0
    is_doubled = any(one.double_buffered for one in problem.levels if one.memory.name == memory)
    for operand in layer.operands:
        is_wide = operand == "output" and arrives_incomplete(mapping, memory)
        for kept in mapping.kept(operand):
            if kept.memory == memory:
                elements, changes = tile_elements(layer, mapping, operand, kept.loops)
                wide = layer.partial_bits if is_wide else layer.bits(operand)
                bits += elements * wide * (2 if is_doubled and changes else 1)
        if is_wide and problem.home(operand) == memory:
            bits += layer.elements(operand) * (layer.partial_bits - layer.output_bits)
    return -(-bits // 8)


def tile_elements(layer: Layer, mapping: LayerMapping, operand: str, cut: int) -> tuple[int, bool]:
    """Return the most elements of an operand's tile in a memory for all units, and True if the tile changes."""
    nest = mapping.nest
    is_inside = [at < cut or loop.along is not None for at, loop in enumerate(nest)]
    sizes = dict.fromkeys(layer.bounds, 1)
    for loop, inside in zip(nest, is_inside, strict=True):
        sizes[loop.dimension] *= loop.size if inside else 1
    changes = any(
        loop.size > 1 and loop.dimension in RELEVANT[operand] and not inside
        for loop, inside in zip(nest, is_inside, strict=True)
    )
    if operand != "input":
        return prod(sizes[loop] for loop in RELEVANT[operand]), changes
    found = sizes["N"] * sizes["C"] * sizes["G"]
    for axis in layer.axes:
        digits = tuple(
            (loop.dimension == axis.output_loop, loop.size, _step(nest, at), is_inside[at])
            for at, loop in enumerate(nest)
            if loop.dimension in (axis.output_loop, axis.filter_loop) and loop.size > 1
        )
        found *= longest_block(axis, digits)
    return found, changes


@lru_cache(maxsize=100_000)
def longest_block(axis: Axis, digits: tuple[tuple[bool, int, int, bool], ...]) -> int:
    """Return the most positions from the first to the last touched, over all tiles, without padding.

    Each digit: True for an output (else a tap), its size, its weight in the index, True if the tile spans it.
    """
    outside = [one for one in digits if not one[3]]
    inside = [one for one in digits if one[3]]
    most = 0
    for above in product(*(range(size) for _, size, _, _ in outside)):
        places = set()
        for within in product(*(range(size) for _, size, _, _ in inside)):
            index = {True: 0, False: 0}
            for (is_output, _, step, _), digit in zip((*outside, *inside), (*above, *within), strict=True):
                index[is_output] += step * digit
            places.add(index[True] * axis.stride + index[False] * axis.dilation - axis.padding)
        most = max(most, min(max(places), axis.size - 1) - max(min(places), 0) + 1)
    return most


def _step(nest: Sequence[Loop], at: int) -> int:
    """Return the weight of a loop's digit: inner loops of the same dimension are less significant."""
    return prod(inner.size for inner in nest[:at] if inner.dimension == nest[at].dimension)


def arrives_incomplete(mapping: LayerMapping, memory: str) -> bool:
    """Return True if a temporal reduction loop remains above the tile that sums arrive from.

    Spatial ones add up on the way.
    """
    below = 0
    for kept in mapping.kept("output"):
        if kept.memory == memory:
            break
        below = kept.loops
    above = [loop for loop in mapping.nest[below:] if loop.along is None]
    return any(loop.size > 1 and loop.dimension not in RELEVANT["output"] for loop in above)
