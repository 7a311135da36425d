"""A relaxation of several scratchpads to one, whose optimum no plan can beat, in any order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.model.lifetimes.indexed import IndexedProblem, bits


@dataclass(frozen=True, slots=True)
class PooledProblem:
    """The relaxation `indexed`, with the problem's orders; `forced_cost` is an additional cost of every plan."""

    indexed: IndexedProblem
    forced_cost: int


def pooled(indexed: IndexedProblem) -> PooledProblem:
    """Return one scratchpad with the total capacity, in which every operand can be read and written.

    A tensor that the array cannot read from any scratchpad it can write it to goes through DRAM, if no link leads on.
    It ends as a network output, and returns as an input.
    """
    forced_cost, detours = 0, dict[str, str]()
    for tensor, readers in enumerate(indexed.reader_lists):
        written_in, read_in = indexed.written_in[tensor], indexed.read_in[tensor]
        if indexed.producer[tensor] < 0 or not readers or written_in & read_in or indexed.links:
            continue
        detours[indexed.tensors[tensor].name] = f"{indexed.tensors[tensor].name} (read back)"
        forced_cost += min(indexed.views[m].load_costs[tensor] for m in bits(read_in))
        if indexed.tensors[tensor].role is not Role.OUTPUT:
            forced_cost += min(indexed.views[m].store_costs[tensor] for m in bits(written_in))
    if not detours:
        return PooledProblem(indexed, 0)
    problem = replace(indexed.problem, graph=_with_detours(indexed.problem.graph, detours))
    return PooledProblem(replace(IndexedProblem.of(problem), predecessor_lists=indexed.predecessor_lists), forced_cost)


def _with_detours(graph: Graph, detours: dict[str, str]) -> Graph:
    tensors = [replace(one, role=Role.OUTPUT) if one.name in detours else one for one in graph.tensors]
    tensors += [replace(graph.tensor[name], name=back, role=Role.INPUT, aliases=()) for name, back in detours.items()]
    return replace(graph, tensors=tuple(tensors), operators=tuple(_reading(one, detours) for one in graph.operators))


def _reading(operator: Operator, detours: dict[str, str]) -> Operator:
    return replace(operator, inputs=tuple(detours.get(name, name) for name in operator.inputs))
