"""Legal plans to export, small ones by hand and random ones with spills, and the reassembly of exported plans."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from onchip.answer.problem import Count, Order, Problem
from onchip.answer.program import Instruction, Plan
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import greatest_need
from onchip.verify.figures import Figures
from onchip.verify.verifier import verify
from support.programs import CHAIN, CHAIN_WITH_PARAMETER, HELD, MOVED, SPILLED, TWO_OUTPUTS, TWO_SCRATCHPADS, UNREAD
from support.strategies import graphs

BY_HAND = {
    "chain": CHAIN,
    "parameter": CHAIN_WITH_PARAMETER,
    "spilled": SPILLED,
    "two outputs": TWO_OUTPUTS,
    "unread": UNREAD,
    "two scratchpads": TWO_SCRATCHPADS,
    "moved": MOVED,
    "held": HELD,
}


def tight_problem(graph: Graph, alignment_bytes: int = 1, count: Count = Count.ACTIVATIONS) -> Problem:
    """Return the problem in the smallest scratchpad that fits every operator: many plans have to spill."""
    roomy = Problem(graph, (Memory("sram", 1, alignment_bytes),), count=count)
    memory = Memory("sram", greatest_need(roomy).need_bytes, alignment_bytes)
    return Problem(graph, (memory,), order=Order.GIVEN, count=count)


@st.composite
def planned(draw: st.DrawFn) -> tuple[Problem, Plan]:
    """Draw a random network with a plan that the pipeline has verified."""
    problem = tight_problem(draw(graphs()), draw(st.sampled_from((1, 4))), draw(st.sampled_from(Count)))
    plan = plan_problem(problem, "belady").answer
    return (problem, plan) if plan is not None else (SPILLED.problem, SPILLED.plan)


def figures_of(problem: Problem, plan: Plan) -> Figures:
    """Return the verifier's figures of a plan, which must be legal."""
    verdict = verify(problem, plan)
    assert verdict.is_legal
    return verdict.figures


def put_together(found: Mapping[int, Instruction]) -> tuple[Instruction, ...]:
    """Return the instructions by number; none may be missing."""
    assert sorted(found) == list(range(len(found)))
    return tuple(found[index] for index in range(len(found)))
