"""How long everything lasts on an accelerator: as files state, by a rule, or by mappings with all on the chip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.problem import Durations
from onchip.answer.schedule import Homes
from onchip.app.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.cost.durations import durations_on
from onchip.cost.operator_cycles import cycles_by_model
from onchip.cost.schedule.compute_cost import OperandAtHome, cost_without_nest
from onchip.cost.schedule.nest_cost import nest_cost
from onchip.cost.schedule.operands import operands_of
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.lower.layers.layers_of import Precision, layers_of
from onchip.lower.schedule.precise import with_elements_of
from onchip.solve.mapping.layer_at import best_mapping_at
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.limits import Run

MAPPING: Final = "mapping"
"""The name of this way to count."""
SHARE_OF_TIME: Final = 0.3
"""Of a limited run, for all layers together."""


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
    """Return by operator the latency of the best mapping found of its loop nest, from and to the scratchpads.

    What has no loop nest moves its operands once over the slowest port. Raises AcceleratorError where the accelerator
    has no array, says too little, or fits a layer in no way.
    """
    if accelerator.array is None:
        raise AcceleratorError(
            "it has no array, so nothing says how many cycles operators take",
            place=f"accelerator {accelerator.name!r}",
            expected="`array` in its file, or a network whose file states cycles",
        )
    found = layers_of(with_elements_of(graph, None))
    homes = Homes(**{str(operand): _home(accelerator, operand) for operand in Operand})
    precision = Precision(None).on(accelerator)
    distinct = found.distinct
    cycles: dict[str, int] = {}
    for number, (layer, names) in enumerate(distinct.items()):
        seconds = run.seconds_left * SHARE_OF_TIME / (len(distinct) - number)
        one = _cycles_of_layer(precision.of(layer), names[0], accelerator, homes, run.within(seconds))
        cycles |= {name: one * found.times.get(name, 1) for name in names}
    rest = (operator for operator in graph.operators if operator.name not in cycles)
    return cycles | {operator.name: _cycles_of_moves(graph, operator, accelerator) for operator in rest}


def _home(accelerator: Accelerator, operand: Operand) -> str | None:
    """The scratchpad nearest the MACs that holds the operand."""
    return next((memory.name for memory in accelerator.scratchpads if operand in memory.holds), None)


def _cycles_of_layer(layer: Layer, name: str, accelerator: Accelerator, homes: Homes, run: Run) -> int:
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
