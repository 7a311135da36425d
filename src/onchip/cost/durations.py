"""How long operators and transfers last on an accelerator, as plans of least latency have to know."""

from __future__ import annotations

from onchip.answer.problem import Durations
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Direction, Dma
from onchip.cost.operator_cycles import MACS, cycles_by_model
from onchip.ir.graph import Graph


def durations_of(graph: Graph, accelerator: Accelerator, cost: str = MACS) -> Durations:
    """Return the durations of a graph's operators, by the cost model of that name where none are stated, and of DMA's.

    Raises AcceleratorError where the accelerator, UsageError or PluginError where `cost` says too little.
    """
    cycles_of = cycles_by_model(cost, graph, accelerator)
    unstated = [operator for operator in graph.operators if operator.stated.cycles is None]
    dma = accelerator.dma or Dma()
    ports = accelerator.dram.ports if accelerator.dram else ()
    has_one_channel = any(port.direction is Direction.READ_WRITE for port in ports)
    cycles = {operator.name: cycles_of(operator) for operator in unstated}
    return Durations(cycles, dma.queues, dma.setup_cycles, has_one_channel)
