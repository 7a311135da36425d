"""Cost of a tile's loop nest from its mapping, for the verifier of fusion strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM
from onchip.model.accounting.accounting import Accounting
from onchip.model.accounting.conventions import OURS, Conventions
from onchip.model.layer.cost import layer_cost


@dataclass(frozen=True, slots=True)
class MappedTileCost:
    """The cost of a mapped tile: energies in pJ by memory and operand and of the MACs, cycles, DRAM traffic in bits.

    An energy is None if the accelerator does not state it.
    """

    memory_energy_pj: Mapping[tuple[str, str], float | None]
    mac_energy_pj: float | None
    cycles: float
    dram_bits: int


def tile_prices_by(
    accounting: Accounting, conventions: Conventions = OURS
) -> Callable[[LayerProblem, LayerMapping], MappedTileCost]:
    """Return the cost model for an accounting; it raises MappingError for a mapping that does not fit.

    Equal layers of different groups are costed once.
    """

    @cache
    def price(problem: LayerProblem, mapping: LayerMapping) -> MappedTileCost:
        cost = layer_cost(problem, mapping, accounting)
        dram_bits = sum(one.elements * one.bits for one in cost.accesses if one.memory == DRAM)
        cycles = cost.cycles - (cost.latency.offload if conventions.offloading_is_free else 0)
        unknown = dict.fromkeys((one.memory, one.operand) for one in cost.accesses)
        return MappedTileCost(unknown | cost.memory_energy_pj, cost.mac_energy_pj, cycles, dram_bits)

    return price
