"""What the operators of a network that no loop nest describes cost where everything comes from DRAM, as in `map`."""

from __future__ import annotations

from onchip.arch.accelerator import Accelerator
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.derive.banded_operands import operands_of
from onchip.ops.derive.layers_of import NetworkLayers
from onchip.ops.derive.visited_elements import elements_visited
from onchip.reports.mapping.coverage import MovedOperator


def moved_operators(layers: NetworkLayers, accelerator: Accelerator) -> tuple[MovedOperator, ...]:
    """Return them in the network's order; raises AcceleratorError where DRAM does not say what an access costs.

    Each reads every operand once and writes every output once, as in a schedule that streams all of them.
    """
    graph = layers.graph
    if graph is None:
        return ()
    found, count = [], MacCount(graph)
    for one in layers.left_out:
        operator = graph.operator[one.operator]
        operands = operands_of(graph, operator)
        cost = cost_without_nest((OperandAtHome(each.operand, each.bits, 0, None) for each in operands), accelerator)
        found.append(
            MovedOperator(
                one.operator,
                one.kind,
                one.why,
                max(elements_visited(graph, operator), count.macs(operator)),
                cost.energy_fj / FEMTOJOULES_PER_PICOJOULE,
                cost.cycles,
                cost.dram_read_bits,
                cost.dram_written_bits,
            )
        )
    return tuple(found)
