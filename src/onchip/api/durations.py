"""How long everything lasts on an accelerator: as files state, by a rule, or by mappings with all on the chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, prod
from typing import Final

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.problem import Durations
from onchip.answer.schedule import Homes
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import with_assumed_energies
from onchip.arch.memory import Operand
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.region import size_of
from onchip.mapping.methods.layer_at import best_mapping_at
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest
from onchip.model.program.nest_cost import nest_cost
from onchip.model.timeline.durations import durations_on
from onchip.model.timeline.mac_count import MacCount
from onchip.model.timeline.operator_cycles import cycles_by_model
from onchip.ops.derive.banded_operands import operands_of
from onchip.ops.derive.layers_of import Precision
from onchip.ops.derive.nests_of_operator import nests_of_operator
from onchip.search.budget.limits import Run

MAPPING: Final = "mapping"
"""The name of this way to count."""
SHARE_OF_TIME: Final = 0.3
"""Of a limited run, for all layers together."""
ROOM_FOR_SUMS: Final = 64
"""An element of one bit may be a sum of so many bits in the making."""


@phase("counting cycles")
def durations_of(graph: Graph, accelerator: Accelerator, cost: str, run: Run) -> Durations:
    """Return what operators of which files say nothing last by the cost model of that name, and what transfers do.

    Raises AcceleratorError where the accelerator, UsageError or PluginError where `cost` says too little.
    """
    unstated = [operator for operator in graph.operators if operator.stated.cycles is None]
    if not unstated:
        return durations_on(accelerator, {})
    if cost == MAPPING:
        cycles = cycles_by_mapping(graph, accelerator, run)
    else:
        cycles_of = cycles_by_model(cost, graph, accelerator)
        cycles = {operator.name: cycles_of(operator) for operator in unstated}
    return durations_on(accelerator, {operator.name: cycles[operator.name] for operator in unstated})


def cycles_by_mapping(graph: Graph, accelerator: Accelerator, run: Run) -> Mapping[str, int]:
    """Return by operator the latency of the best mappings found of its loop nests, from and to the scratchpads.

    Those have room for all operands there. A tile takes its share of what the whole operator takes; what has no loop
    nest moves its operands once over the slowest port. Raises AcceleratorError where the accelerator has no array, says
    too little, or fits a layer in no way.
    """
    if accelerator.array is None:
        raise AcceleratorError(
            "it has no array, so nothing says how many cycles operators take",
            place=f"accelerator {accelerator.name!r}",
            expected="`array` in its file, or a network whose file states cycles",
        )
    precision = Precision(None).on(accelerator)
    nests = {one.name: tuple(nests_of_operator(graph, one, precision)) for one in graph.operators}
    distinct = {layer: name for name, own in reversed(nests.items()) for layer, _ in own}
    chip = with_assumed_energies(_with_room_for(graph, accelerator))
    cycles: dict[Layer, int] = {}
    for number, (layer, name) in enumerate(distinct.items()):
        seconds = run.seconds_left * SHARE_OF_TIME / (len(distinct) - number)
        cycles[layer] = _cycles_of_layer(layer, name, chip, run.within(seconds))
    return {
        operator.name: _share(graph, operator, sum(cycles[layer] * times for layer, times in nests[operator.name]))
        if nests[operator.name]
        else _cycles_of_moves(graph, operator, accelerator)
        for operator in graph.operators
    }


def _share(graph: Graph, operator: Operator, cycles: int) -> int:
    """Of the whole operator's cycles those of a tile: its share of the outputs, and of what is summed up."""
    tile = operator.tile
    if tile is None:
        return cycles
    part = Fraction(
        sum(size_of(region) for region in tile.regions),
        sum(prod(tile.shape[name]) for name in tile.outputs),
    )
    count = MacCount(graph)
    own, whole = count.loops(operator), count.loops_of_whole(operator)
    if tile.reduction is not None and own and whole:
        part *= Fraction(own["C"], whole["C"])
    return ceil(cycles * part)


def _with_room_for(graph: Graph, accelerator: Accelerator) -> Accelerator:
    """The accelerator with scratchpads in which all operands of an operator have room, with sums in the making."""
    room = ROOM_FOR_SUMS * sum(tensor.size_bytes for tensor in graph.tensors)
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=max(level.memory.capacity_bytes, room)))
        if level.is_scratchpad
        else level
        for level in accelerator.levels
    )
    return replace(
        accelerator, levels=levels, scratchpads=tuple(level.memory for level in levels if level.is_scratchpad)
    )


def _home(accelerator: Accelerator, operand: Operand) -> str | None:
    """The scratchpad nearest the MACs that holds the operand."""
    return next((memory.name for memory in accelerator.scratchpads if operand in memory.holds), None)


def _cycles_of_layer(layer: Layer, name: str, accelerator: Accelerator, run: Run) -> int:
    homes = Homes(**{str(operand): _home(accelerator, operand) for operand in Operand if operand in layer.operands})
    problem = LayerProblem(layer, accelerator, homes)
    mapping = best_mapping_at(problem, MappingObjective.LATENCY, run).answer
    if mapping is None:
        place = f"accelerator {accelerator.name!r}"
        raise AcceleratorError(f"no mapping of operator {name!r} was found", place=place, expected="--cost macs")
    return max(1, nest_cost(problem, mapping).cycles)


def _cycles_of_moves(graph: Graph, operator: Operator, accelerator: Accelerator) -> int:
    operands = operands_of(graph, operator)
    at_home = (OperandAtHome(one.operand, one.bits, 0, _home(accelerator, one.operand)) for one in operands)
    return max(1, cost_without_nest(at_home, accelerator).cycles)
