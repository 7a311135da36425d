"""The least latency of several scratchpads: no program ends before a bound on one that is as large as all together.

*Proof.* A bound on one scratchpad adds up what every program has to do, and nothing else: it loads what is read of DRAM
once, stores each output once, runs each operator once and one after another; what has no room on the chip while an
operator runs is loaded after it. With several scratchpads it does all of that, too. DRAM takes its transfers in turns
as before, whichever scratchpad they go to, each as long as at its fastest or longer; copies over links take queues
besides. Tensors on the chip lie on different bytes, of which there are as many as in all scratchpads together; where
they are aligned there is less room. One that is in several takes more of it (docs/latency.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from onchip.answer.problem import Problem, Rate, Transfers
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.bounds.latency.latency_bounds import LatencyBound, LatencyBounds
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.bounds.retention.merged_scratchpads import pooled
from onchip.model.lifetimes.indexed import IndexedProblem


def least_latency_bound(problem: Problem) -> LatencyBound:
    """Return the greatest bound on the latency of a problem of one scratchpad or several; all operators fit.

    What the array can write nowhere where it can read it goes through DRAM, if no link leads on: it ends as a network
    output does, and comes back as an input. The bounds of both graphs hold. Raises UsageError where nothing says how
    long an operator lasts.
    """
    if len(problem.memories) == 1:
        return LatencyBounds(WaysToRun(problem)).greatest
    merged = merged_problem(problem)
    graphs = [merged.graph, pooled(IndexedProblem.of(_without_limits_of_size(problem))).indexed.problem.graph]
    bounds = (LatencyBounds(WaysToRun(replace(merged, graph=graph))).greatest for graph in graphs)
    return max(bounds, key=lambda bound: bound.cycles)


def _without_limits_of_size(problem: Problem) -> Problem:
    """Where operators run in bands, a tensor lies also where it does not fit whole."""
    if all(operator.stated.splits is None for operator in problem.graph.operators):
        return problem
    total_bytes = sum(tensor.size_bytes for tensor in problem.counted_tensors)
    memories = (replace(memory, capacity_bytes=memory.capacity_bytes + total_bytes) for memory in problem.memories)
    return replace(problem, memories=tuple(memories))


def merged_problem(problem: Problem) -> Problem:
    """Return the problem with one scratchpad as large as all, which aligns nothing and is as fast as the fastest."""
    memories = problem.memories
    name = "+".join(memory.name for memory in memories)
    loaded = _that_hold(problem, Operand.INPUT, Operand.WEIGHT)
    stored = _that_hold(problem, Operand.OUTPUT)
    rates = problem.transfers.rates
    merged = {
        (DRAM, name): no_slower(rates[DRAM, one] for one in loaded),
        (name, DRAM): no_slower(rates[one, DRAM] for one in stored),
    }
    room = Memory(name, sum(memory.capacity_bytes for memory in memories))
    return replace(problem, memories=(room,), transfers=Transfers((), merged))


def _that_hold(problem: Problem, *operands: Operand) -> list[str]:
    """Return the scratchpads that hold one of these operands; all if links lead on, or if none holds any."""
    names = [one.name for one in problem.memories]
    holding = [one.name for one in problem.memories if {*one.holds} & {*operands}]
    return names if problem.transfers.links or not holding else holding


def no_slower(rates: Iterable[Rate]) -> Rate:
    """Return a rate that is nowhere above any of these: the least of all, or one of whole cycles for each unit begun.

    A transfer of b bits takes whole cycles, and at least b times the cycles of a bit at the fastest; so it takes as
    many as there are units of b bits begun, if in each of the units a cycle is at most what it takes at the fastest.
    """
    known = list(dict.fromkeys(rates))
    setup = min(rate.setup for rate in known)
    for rate in known:
        if all(_is_nowhere_above(rate, other) for other in known):
            return replace(rate, setup=setup)
    cycles_of_bit = min(sum(Fraction(cost, unit) for unit, cost in rate.terms) for rate in known)
    return Rate(setup, ((-(-1 // cycles_of_bit), 1),)) if cycles_of_bit else Rate(setup, ((1, 0),))


def _is_nowhere_above(rate: Rate, other: Rate) -> bool:
    """Whether it is so term by term: larger units that cost no more."""
    return len(rate.terms) == len(other.terms) and all(
        unit >= other_unit and cost <= other_cost
        for (unit, cost), (other_unit, other_cost) in zip(rate.terms, other.terms, strict=True)
    )
