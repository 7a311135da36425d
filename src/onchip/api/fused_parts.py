"""What `fuse` shows of a strategy beside its sums: stacks with their tilings, and operators that it cannot fuse."""

from __future__ import annotations

from math import prod

from onchip.answer.strategy import FusionStrategy
from onchip.arch.accelerator import Accelerator
from onchip.ir.graph import Graph
from onchip.model.group.moved import moved_sums
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.derive.fusable import FusableNetwork
from onchip.ops.derive.fusable_of import PartlyFusable
from onchip.ops.derive.moved_operators import macs_of_nests
from onchip.reports.stack.outcome import CostedStack, OutsideOperator, TilingValue
from onchip.scheduling.choice.solve import FusionResult
from onchip.transform.groups.stacks import stack_of


def outside_operators(graph: Graph, fusable: PartlyFusable, accelerator: Accelerator) -> tuple[OutsideOperator, ...]:
    """Return the operators that cannot be fused, with what they move, write and multiply."""
    sums, left_out = moved_sums(fusable.network.moved, accelerator), fusable.outside
    written = (graph.operator[one.operator].outputs for one in left_out)
    elements = (sum(prod(graph.tensor[name].shape or (1,)) for name in names) for names in written)
    operators, count = [graph.operator[one.operator] for one in left_out], MacCount(graph)
    macs = [max(macs_of_nests(graph, operator), count.macs(operator)) for operator in operators]
    return tuple(OutsideOperator(*each) for each in zip(left_out, sums, elements, macs, strict=True))


def costed_stacks(network: FusableNetwork, strategy: FusionStrategy, found: FusionResult) -> tuple[CostedStack, ...]:
    """Return the stacks of a strategy, each with its cost and the values of all tilings that were looked at for it."""
    tilings: dict[object, list[TilingValue]] = {}
    for other, value in found.values().items():
        tilings.setdefault(other.without_tiles, []).append(TilingValue(other.tiling, *value))
    return tuple(
        CostedStack(one, stack_of(network, choice.span), cost, tuple(tilings.get(choice.without_tiles, ())))
        for one, (choice, cost) in zip(strategy.stacks, found.stacks, strict=True)
    )
