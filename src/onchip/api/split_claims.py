"""Claims of a plan whose operators may be split: they hold for every split, not for the split that was chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from onchip.answer.document import Reading, Split
from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status
from onchip.api.durations import MAPPING
from onchip.api.networks import MODEL_SUFFIXES
from onchip.arch.accelerator import Accelerator
from onchip.bounds.latency.latency_bounds import LatencyBounds
from onchip.bounds.latency.merged_latency import merged_problem
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.model.timeline.mac_count import MacCount
from onchip.model.timeline.operator_cycles import MACS
from onchip.ops.derive.layers_of import Precision
from onchip.ops.derive.nests_of_operator import nests_of_operator
from onchip.ops.registry.kinds import geometry_of
from onchip.scheduling.candidates.in_steps import steps_of
from onchip.scheduling.candidates.split import can_split

THIS_SPLIT: Final = "plans of this split"
NO_PLAN: Final = "no plan of this split fits; another split may"


def splits_are_open(problem: Problem, source: str, reading: Reading) -> bool:
    """Return True if the reading lets operators be split, and some operator of the whole network can be."""
    if reading.split is Split.NEVER or reading.cap_tensors:
        return False
    return can_split(problem, is_model=source.endswith(MODEL_SUFFIXES))


def for_all_splits(result: Result[Plan], least: int) -> Result[Plan]:
    """Return a result of one split with a status and a bound that hold for all splits.

    `least` is a bound of all splits. `optimal_among` keeps what is proven of this split.
    """
    if result.status is Status.INFEASIBLE:
        return replace(result, status=Status.UNKNOWN, lower_bound=least, why_not=NO_PLAN)
    if result.objective_value is None:
        return replace(result, lower_bound=least)
    if result.objective_value == least:
        return replace(result, status=Status.OPTIMAL, lower_bound=least)
    among = THIS_SPLIT if result.status is Status.OPTIMAL else result.optimal_among
    return replace(result, status=Status.FEASIBLE, lower_bound=least, optimal_among=among)


def bound_of_all_splits(problem: Problem, source: str, accelerator: Accelerator, cost: str) -> int:
    """Return a lower bound on the objective for all splits of a problem of whole operators.

    It is 0 for objectives that count non-compulsory transfers, and for the peak. A latency is at least that of all
    multiply-accumulates on a full array, and that of the transfers that every split makes. Operators that may be taken
    apart into steps count for nothing.
    """
    if problem.objective is not Objective.LATENCY:
        return 0
    is_model, graph = source.endswith(MODEL_SUFFIXES), problem.graph
    whole = [each for each in graph.operators if steps_of(each, graph, is_model=is_model) is None]
    cycles = {each.name: _least_cycles(graph, each, accelerator, cost) for each in whole}
    cycles |= dict.fromkeys(graph.operator.keys() - cycles.keys(), 0)
    durations = replace(problem.known_durations, cycles=cycles)
    ways = WaysToRun(merged_problem(replace(problem, durations=durations)))
    loaded, stored = set[str](), set[str]()
    if not graph.states and not graph.shares_bytes:
        loaded = {name for each in whole for name in _read_by_all_splits(problem, each, is_model=is_model)}
        stored = {tensor.name for tensor in problem.counted_tensors if tensor.role is Role.OUTPUT}
    return LatencyBounds(ways).least_of_parts(loaded, stored)


def _least_cycles(graph: Graph, operator: Operator, accelerator: Accelerator, cost: str) -> int:
    """Return a lower bound on the cycles of all tiles of an operator without stated cycles."""
    if accelerator.array is None or cost not in (MAPPING, MACS):
        return 0
    if cost == MACS:
        macs = MacCount(graph).macs(operator)
    else:
        nests = nests_of_operator(graph, operator, Precision(None).on(accelerator))
        macs = sum(layer.macs * times for layer, times in nests)
    return -(-macs // accelerator.array.macs)


def _read_by_all_splits(problem: Problem, operator: Operator, *, is_model: bool) -> Iterator[str]:
    """Yield the operands that the tiles of an operator read completely, whatever the tiles."""
    geometry = geometry_of(operator, problem.graph, is_model=is_model)
    reads_all = dict.fromkeys(operator.reads, True)
    for access in () if geometry is None else geometry.reads:
        axes = [span.axis for span in access.spans if span.axis is not None]
        begins = all(span.axis is None or span.offset <= 0 for span in access.spans)
        reads_all[access.tensor] &= begins and len(set(axes)) == len(axes)
    yield from (name for name, is_all in reads_all.items() if is_all and problem.counts(problem.graph.tensor[name]))
