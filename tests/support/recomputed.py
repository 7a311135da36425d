"""Small plans in which an operator runs again."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.problem import Objective, Recomputation
from onchip.ir.graph import Graph
from support.programs import SPILLED, Case, sram

PRICES = Recomputation({"f": 3, "g": 5, "h": 7})

RECOMPUTED = replace(
    SPILLED.of(recomputation=PRICES),
    program="""
    allocate x sram 0
    copy x dram sram
    allocate a sram 4
    compute f
    free a sram
    allocate b sram 4
    compute g
    allocate a sram 8
    compute f
    free x sram
    allocate y sram 0
    compute h
    copy y sram dram
    """,
)
"""The first operator's output is evicted, and the operator runs again at another offset: that costs 3."""

UNSPILLED = RECOMPUTED.of(objective=Objective.RECOMPUTATION)
"""The same without spills."""

ROOMY = RECOMPUTED.of(memories=sram(16))
"""The same with capacity for a second copy."""


def of_kind(case: Case, operator: str, kind: str) -> Case:
    """Return the same network with an operator of another kind."""
    graph = case.problem.graph
    operators = tuple(replace(one, kind=kind) if one.name == operator else one for one in graph.operators)
    return case.of(graph=Graph(graph.name, graph.tensors, operators, graph.states))
