"""An operand's chain of holders, from the MACs to its home, and the boundaries between them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import INTERPRETER, Accounting
from onchip.model.layer.ragged import RaggedBoundary, ends_short
from onchip.model.layer.tiles import MACS, Boundary, Holder
from onchip.model.unrolling.parts import sizes_in_parts

Crossed: TypeAlias = Mapping[str, tuple[Boundary, ...]]
"""The boundaries of each operand, from the MACs up to its home."""


def chain_of(problem: LayerProblem, mapping: LayerMapping, operand: str) -> tuple[Holder, ...]:
    """Return the MACs, the memories that keep tiles of the operand, and its home."""
    levels = {level.memory.name: level for level in problem.levels}
    home = problem.home(operand)
    return (
        Holder(MACS, 0, ()),
        *(
            Holder(kept.memory, kept.loops, levels[kept.memory].serves, levels[kept.memory])
            for kept in mapping.kept(operand)
        ),
        Holder(home, len(mapping.nest), None, levels.get(home)),
    )


def boundaries(
    layer: Layer, problem: LayerProblem, mapping: LayerMapping, accounting: Accounting = INTERPRETER
) -> Crossed:
    """Return each operand's boundaries from the MACs to its home; `layer` has executed or, in parts, requested bounds.

    Capacity, accesses and time share these objects, which cache their tile counts.
    """
    chains = {operand: chain_of(problem, mapping, operand) for operand in layer.operands}
    if ends_short(layer, mapping):
        return {operand: _ragged_boundaries(layer, mapping, operand, chain) for operand, chain in chains.items()}
    sizes = None
    if accounting.units_in_parts and layer.bounds != mapping.bounds:
        sizes = sizes_in_parts(layer, mapping)
    return {
        operand: tuple(
            Boundary(layer, mapping, operand, lower, upper, inner_cut, accounting, sizes_in_parts=sizes)
            for (lower, upper), inner_cut in zip(pairwise(chain), (0, *(holder.cut for holder in chain)), strict=False)
        )
        for operand, chain in chains.items()
    }


def _ragged_boundaries(
    layer: Layer, mapping: LayerMapping, operand: str, chain: tuple[Holder, ...]
) -> tuple[RaggedBoundary, ...]:
    return tuple(
        RaggedBoundary(layer, mapping, operand, lower, upper, chain=chain, number=number)
        for number, (lower, upper) in enumerate(pairwise(chain))
    )
