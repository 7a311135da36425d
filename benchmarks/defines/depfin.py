"""DeFiNES's figure 11: networks on DepFiN, a chip that runs layers depth-first, line by line, and was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from defines.fsrcnn import conventions_of
from defines.mappers import PARTIAL_BITS, Answers, TileMapper, machine, network
from shared.runner import Row

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.group.cost import StackCost, stack_cost
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.search.fusion import best_strategy
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.stacks import LayerSpan, stack_of

MACHINE: Final = "depfin"
REFERENCE: Final = "reference"
NETWORKS: Final = ("fsrcnn", "mc-cnn", REFERENCE)


def reference_graph() -> Graph:
    """Return the paper's network (section IV): ten layers of 32 filters of 3x3, then 16 of 1x1, on 1280 x 720 x 3."""
    rows, columns, channels = 720, 1280, 3
    tensors = [Tensor.of_shape("image", (1, channels, rows, columns), 8, Role.INPUT)]
    operators = []
    for at, (filters, taps) in enumerate([*([(32, 3)] * 10), (16, 1)]):
        source, weight = tensors[-1].name, f"weight{at}"
        pads: dict[str, AttributeValue] = {"pads": [taps // 2] * 4}
        operators.append(Operator(f"conv{at}", "Conv", (source,), (f"map{at}",), (weight,), pads))
        tensors.append(Tensor.of_shape(weight, (filters, channels, taps, taps), 8, Role.PARAMETER))
        role = Role.ACTIVATION if at < 10 else Role.OUTPUT
        tensors.append(Tensor.of_shape(f"map{at}", (1, filters, rows, columns), 8, role))
        channels = filters
    return Graph(REFERENCE, tuple(tensors), tuple(operators))


def depfin(given: TileMapper, seconds: float) -> Iterator[Row]:
    """Yield each network line by line, as the chip runs it, and in the tile that a search with LOMA finds.

    Cycles are by their parts; `status` and `gap` are those of the search. Mapping every tile exactly takes longer than
    the search has, so `exact` maps the lines alone.
    """
    mapper = TileMapper(given.name, MappingObjective.LATENCY, given.limit)
    accelerator, conventions = machine(MACHINE), conventions_of(mapper)
    for name in NETWORKS:
        reference = fusable_of(reference_graph(), Precision(8, PARTIAL_BITS))
        layers = reference if name == REFERENCE else network(name)
        stack, answers = stack_of(layers, LayerSpan(0, len(layers.layers))), Answers(mapper)
        line = Tiling(stack.output.columns, 1, OverlapMode.FULLY_CACHED)
        whole = stack_cost(stack, accelerator, line, answers, conventions)
        found: list[tuple[Tiling, StackCost, str, float | None]] = [(line, whole, "", None)]
        if seconds and mapper.name != "exact":
            costs = StackCosts(layers, accelerator, FusionObjective.LATENCY, answers, conventions)
            run = Run(Limits(time_limit_seconds=seconds))
            searched = best_strategy(costs, FusionOptions(groups="one"), run)
            status = str(searched.result.status), searched.result.gap
            found += [(choice.tiling, cost, *status) for choice, cost in searched.stacks]
        for tiling, cost, state, gap in found:
            parts = {part: float(value) for part, value in asdict(cost.sums.latency).items()}
            head = {"network": name, "mapper": mapper.name, "tiling": str(tiling), "cycles": sum(parts.values())}
            yield head | {"parts": parts, "status": state, "gap": gap}
