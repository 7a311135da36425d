"""The cycle model of a plan's operators: the simple rule, or a plug-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from onchip.answer.problem import Problem
from onchip.arch.accelerator import Accelerator
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.model.timeline.mac_count import SimpleCost
from onchip.plugins import PluginError, PluginGroup

MACS: Final = "macs"
"""Name of the model `SimpleCost`."""
OPERATOR_COSTS: Final = PluginGroup[[Graph, Accelerator], Mapping[str, int]]("onchip.costs", Mapping)
"""Cycle models by name; each returns whole cycles, at least 1, for each operator of the graph."""


def cycles_by_model(name: str, graph: Graph, accelerator: Accelerator) -> Callable[[Operator], int]:
    """Return the function from an operator of the graph to its cycles in the named cost model.

    Cycles in an operator's file override the model. Raises UsageError for an unknown name, AcceleratorError if `macs`
    has no array, PluginError for a plug-in that is broken or omits an operator.
    """
    if all(operator.stated.cycles is not None for operator in graph.operators):
        return _stated_or(lambda _: 0)
    return _stated_or(_by_model(name, graph, accelerator))


def cycles_of_plan(problem: Problem, accelerator: Accelerator, cost: str | None) -> Callable[[Operator], int]:
    """Return the function from an operator of a plan to its cycles, by the named model or by the plan itself.

    A plan without durations is counted by `macs`. Raises the errors of `cycles_by_model`, and UsageError for an
    operator that a plan with durations omits.
    """
    if cost is None and problem.durations is not None:
        return problem.durations.of_operator
    return cycles_by_model(cost or MACS, problem.graph, accelerator)


def _stated_or(model: Callable[[Operator], int]) -> Callable[[Operator], int]:
    return lambda operator: model(operator) if operator.stated.cycles is None else operator.stated.cycles


def _by_model(name: str, graph: Graph, accelerator: Accelerator) -> Callable[[Operator], int]:
    if name == MACS:
        return SimpleCost(graph, accelerator).cycles
    model = OPERATOR_COSTS.find(name)
    if model is None:
        expected = ", ".join((MACS, *OPERATOR_COSTS.names))
        raise UsageError(f"no cost model is called {name!r}", place="--cost", expected=expected)
    cycles = model(graph, accelerator)
    for operator in graph.operators:
        said = cycles.get(operator.name)
        if not isinstance(said, int) or said < 1:
            place, expected = f"plug-in {name!r} of {OPERATOR_COSTS.name}", "whole cycles, at least 1"
            raise PluginError(f"it says {said!r} for operator {operator.name!r}", place=place, expected=expected)
    return lambda operator: cycles[operator.name]
