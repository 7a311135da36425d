"""An operand's chain of holders, from the units up to its home, and the boundaries between them."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.cost.layer.accounting import INTERPRETER, Accounting
from onchip.cost.layer.parts import sizes_in_parts
from onchip.cost.layer.ragged import RaggedBoundary, ends_short
from onchip.cost.layer.tiles import MACS, Boundary, Holder
from onchip.ir.layer import Layer


def chain_of(problem: LayerProblem, mapping: LayerMapping, operand: str) -> tuple[Holder, ...]:
    """The MACs, the memories that keep tiles of the operand, its home."""
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
    layer: Layer, problem: LayerProblem, mapping: LayerMapping, operand: str, accounting: Accounting = INTERPRETER
) -> tuple[Boundary, ...]:
    """From the MACs up to the operand's home; `layer` is the one executed or, in parts, asked for."""
    chain = chain_of(problem, mapping, operand)
    if ends_short(layer, mapping):
        return _ragged_boundaries(layer, mapping, operand, chain)
    cuts = (0, *(holder.cut for holder in chain))
    sizes = None
    if accounting.units_in_parts and layer.bounds != mapping.bounds:
        sizes = sizes_in_parts(layer, mapping)
    return tuple(
        Boundary(layer, mapping, operand, lower, upper, inner_cut, accounting, sizes_in_parts=sizes)
        for (lower, upper), inner_cut in zip(pairwise(chain), cuts, strict=False)
    )


@lru_cache(maxsize=8)
def _ragged_boundaries(
    layer: Layer, mapping: LayerMapping, operand: str, chain: tuple[Holder, ...]
) -> tuple[RaggedBoundary, ...]:
    """Of the last few mappings: room, accesses and time ask for the same ones, one after the other."""
    return tuple(
        RaggedBoundary(layer, mapping, operand, lower, upper, chain=chain, number=number)
        for number, (lower, upper) in enumerate(pairwise(chain))
    )
