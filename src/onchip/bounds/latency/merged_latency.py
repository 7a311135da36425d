"""A lower bound on the latency with several scratchpads: that of one scratchpad with their total capacity.

*Proof.* A bound for one scratchpad adds up only work that every program has: each tensor read from DRAM is loaded once,
each output is stored once, operators run once and one after another, and tensors that do not fit on chip while an
operator runs are loaded after it. All of this holds with several scratchpads too. DRAM still serves one transfer at a
time, whichever scratchpad it goes to, and none is faster than the fastest; copies over links use queues in addition.
Tensors on chip occupy disjoint bytes of the total capacity; alignment only reduces it. A tensor in several scratchpads
takes more of it (docs/latency.md).
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
    """Return the greatest lower bound on the latency with one or several scratchpads; all operators must fit.

    A tensor that the array cannot read from any memory it can write it to goes through DRAM, if no link leads on. It
    ends as a network output, and returns as an input. The bounds of both graphs hold. Raises UsageError if the duration
    of an operator is unknown.
    """
    if len(problem.memories) == 1:
        return LatencyBounds(WaysToRun(problem)).greatest
    merged = merged_problem(problem)
    graphs = [merged.graph, pooled(IndexedProblem.of(_without_limits_of_size(problem))).indexed.problem.graph]
    bounds = (LatencyBounds(WaysToRun(replace(merged, graph=graph))).greatest for graph in graphs)
    return max(bounds, key=lambda bound: bound.cycles)


def _without_limits_of_size(problem: Problem) -> Problem:
    """Return the problem with larger memories if operators run in bands, as bands fit where whole tensors do not."""
    if all(operator.stated.splits is None for operator in problem.graph.operators):
        return problem
    total_bytes = sum(tensor.size_bytes for tensor in problem.counted_tensors)
    memories = (replace(memory, capacity_bytes=memory.capacity_bytes + total_bytes) for memory in problem.memories)
    return replace(problem, memories=tuple(memories))


def merged_problem(problem: Problem) -> Problem:
    """Return the problem with one scratchpad of the total capacity, without alignment and with the fastest rates."""
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
    """Return a rate that is nowhere above any of these: the least of all, or one of whole cycles per unit begun.

    A transfer of b bits takes whole cycles, and at least b times the cycles per bit at the fastest rate. It therefore
    takes at least one cycle per unit begun, if a unit has at most the bits that the fastest rate transfers in a cycle.
    """
    known = list(dict.fromkeys(rates))
    setup = min(rate.setup for rate in known)
    for rate in known:
        if all(_is_nowhere_above(rate, other) for other in known):
            return replace(rate, setup=setup)
    cycles_of_bit = min(sum(Fraction(cost, unit) for unit, cost in rate.terms) for rate in known)
    return Rate(setup, ((-(-1 // cycles_of_bit), 1),)) if cycles_of_bit else Rate(setup, ((1, 0),))


def _is_nowhere_above(rate: Rate, other: Rate) -> bool:
    """Return True if each term of the rate has a unit no smaller and a cost no higher."""
    return len(rate.terms) == len(other.terms) and all(
        unit >= other_unit and cost <= other_cost
        for (unit, cost), (other_unit, other_cost) in zip(rate.terms, other.terms, strict=True)
    )
