"""Cost of one loop nest of a schedule, in the form that a Compute adds up."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM
from onchip.model.layer.cost import layer_cost
from onchip.model.program.compute_cost import NestCost

_READS: Final = (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)
_DIGITS: Final = 6


def nest_cost(problem: LayerProblem, mapping: LayerMapping) -> NestCost:
    """Return the cost of a nest at its homes; DRAM bits are those of operands without a home.

    Raises MappingError if the mapping does not fit, AcceleratorError if the accelerator's description is incomplete.
    """
    cost = layer_cost(problem, mapping)
    at_dram = [one for one in cost.accesses if one.memory == DRAM]
    return NestCost(
        cost.stated_energy_pj,
        # The model's cycles are a whole number, computed as a sum of fractions.
        ceil(round(cost.cycles, _DIGITS)),
        sum(one.elements * one.bits for one in at_dram if one.move in _READS),
        sum(one.elements * one.bits for one in at_dram if one.move not in _READS),
        workspace_bytes(problem, cost.needed_bits),
        cost.mac_energy_pj,
        cost.memory_energy_pj,
    )


def workspace_bytes(problem: LayerProblem, needs: Mapping[tuple[str, str], int]) -> Mapping[str, int]:
    """Return the workspace by addressed memory, for tiles and for partial sums wider than the output at their home.

    `needs` are the `needed_bits` of a legal mapping. Memories without a need are omitted.
    """
    found: dict[str, int] = {}
    for level in problem.accelerator.addressed:
        name = level.memory.name
        bits = sum(need for (memory, _), need in needs.items() if memory == name) - problem.resident_bits(name)
        if bits:
            found[name] = -(-bits // 8)
    return found
