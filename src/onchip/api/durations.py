"""Durations of operators and transfers on an accelerator: stated in files, by a rule, or from on-chip mappings."""

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
from onchip.ir.tile import size_of
from onchip.mapping.methods.cache import best_mapping_at
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest, nest_cost
from onchip.model.timeline.mac_count import MacCount, cycles_by_model, durations_on
from onchip.ops.layers_of import Precision
from onchip.ops.nests import nests_of_operator, operands_of
from onchip.search.budget.limits import Run

MAPPING: Final = "mapping"
"""Name of the cost model by mappings."""
SHARE_OF_TIME: Final = 0.3
"""Share of a limited run's time for the mappings of all layers."""
ROOM_FOR_SUMS: Final = 64
"""Maximum width in bits of a partial sum of one-bit elements."""


@phase("counting cycles")
def durations_of(graph: Graph, accelerator: Accelerator, cost: str, run: Run) -> Durations:
    """Return the durations of operators without stated cycles, by the named cost model, and of transfers.

    Raises AcceleratorError if the accelerator, and UsageError or PluginError if `cost`, lacks information.
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
    """Return by operator the latency of the best mappings found for its loop nests, with all operands in scratchpads.

    The scratchpads are enlarged to hold all operands. A tile takes its share of the whole operator's cycles; an
    operator without a loop nest moves its operands once over the slowest port. Raises AcceleratorError if the
    accelerator has no array, lacks information, or cannot run a layer.
    """
    if accelerator.array is None:
        raise AcceleratorError(
            "the accelerator has no array, so the cycles of operators are unknown",
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
    """Return the cycles of a tile: the whole operator's, times its share of the outputs and of the reduction."""
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
    """Return the accelerator with scratchpads that hold all operands of an operator, partial sums included."""
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
    """Return the scratchpad nearest the MACs that holds the operand."""
    return next((memory.name for memory in accelerator.scratchpads if operand in memory.holds), None)


def _cycles_of_layer(layer: Layer, name: str, accelerator: Accelerator, run: Run) -> int:
    homes = Homes(**{str(operand): _home(accelerator, operand) for operand in Operand if operand in layer.operands})
    problem = LayerProblem(layer, accelerator, homes)
    mapping = best_mapping_at(problem, MappingObjective.LATENCY, run).answer
    if mapping is None:
        place = f"accelerator {accelerator.name!r}"
        raise AcceleratorError(
            f"unmappable operator: no mapping of {name!r} was found", place=place, expected="`cost='macs'`"
        )
    return max(1, nest_cost(problem, mapping).cycles)


def _cycles_of_moves(graph: Graph, operator: Operator, accelerator: Accelerator) -> int:
    operands = operands_of(graph, operator)
    at_home = (OperandAtHome(one.operand, one.bits, 0, _home(accelerator, one.operand)) for one in operands)
    return max(1, cost_without_nest(at_home, accelerator).cycles)
