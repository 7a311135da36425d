"""Where the operands of a loop nest may come from, and whether its output goes, whatever the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onchip.bounds.layer.needed import is_element_by_element
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role

FROM_OUTSIDE: Final = (Role.INPUT, Role.PARAMETER)
"""What only DRAM has before it is read."""


@dataclass(frozen=True, slots=True)
class NestOrigins:
    """Which operands of a nest may come from DRAM alone, so that units may take them there; whether its output goes.

    Of a weight with `weight_has_other_readers` what is on the chip may serve these, too.
    """

    input_is_in_dram: bool
    weight_is_in_dram: bool
    weight_is_an_input: bool
    output_leaves: bool
    weight_has_other_readers: bool = False


def origins_of(graph: Graph, operator: Operator, layer: Layer, nests: Sequence[Layer]) -> NestOrigins:
    """Return those of one of an operator's `nests`: of two maps, and element by element, either may be its input."""
    roles = [graph.tensor[name].role for name in operator.inputs]
    comes = any(role in FROM_OUTSIDE for role in roles)
    either = is_element_by_element(layer) and bool(operator.parameters)
    outside = [name for name in operator.reads if graph.tensor[name].role in FROM_OUTSIDE]
    return NestOrigins(
        input_is_in_dram=comes or either,
        weight_is_in_dram=comes or bool(operator.parameters),
        weight_is_an_input=not operator.parameters,
        output_leaves=graph.tensor[operator.outputs[0]].role is Role.OUTPUT,
        weight_has_other_readers=any(len(graph.readers[name]) > 1 for name in outside)
        or _several_nests_read_a_weight(graph, operator, nests),
    )


def _several_nests_read_a_weight(graph: Graph, operator: Operator, nests: Sequence[Layer]) -> bool:
    """Whether nests of the operator share weights: together they have more elements of these than there are."""
    kept = [graph.tensor[name] for name in operator.parameters]
    elements = max((tensor.size_bytes * 8 // (tensor.bits or 8) for tensor in kept), default=0)
    return len(nests) > 1 and sum(layer.elements(WEIGHT) for layer in nests) > elements
