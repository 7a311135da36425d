"""Random problems for the joint search in very tight scratchpads, and the cost of its moves."""

from __future__ import annotations

from onchip.answer.problem import Count, Order, Problem
from onchip.arch.memory import Memory
from onchip.memory.decisions import non_compulsory_cost, schedule_of_moves
from onchip.memory.spill.min_peak import min_peak_bytes
from onchip.memory.spill.search import BestFirstSearch, SearchOutcome
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from oracles.one_scratchpad import random_graph


def tight_problem(seed: int) -> IndexedProblem:
    """Return a graph of up to 24 operators, between M_R and M_P, sometimes aligned or in the given order."""
    graph = random_graph(seed, operators=24, window=8)
    count = Count.ALL if seed % 3 == 0 else Count.ACTIVATIONS
    order = Order.GIVEN if seed % 5 == 0 else Order.FREE
    roomy = Problem(graph, (Memory("sram", 10**6, 1 + seed % 4),), order=order, count=count)
    least, most = greatest_need(roomy).need_bytes, min_peak_bytes(roomy, Run()).objective_value
    assert most is not None
    capacity = least + (most - least) * (seed % 7) // 7
    return IndexedProblem.of(Problem(graph, (Memory("sram", capacity, 1 + seed % 4),), order=order, count=count))


def cost_of(indexed: IndexedProblem, outcome: SearchOutcome) -> int:
    """Return the actual cost of an outcome's moves."""
    assert outcome.moves is not None
    assert sorted(move.operator for move in outcome.moves) == list(range(indexed.operator_count))
    return non_compulsory_cost(indexed, schedule_of_moves(indexed, outcome.moves))


def least_cost(indexed: IndexedProblem) -> int:
    """Return the optimum that one worker finds without options, which tests compare with brute force."""
    cost = BestFirstSearch(indexed, Run()).solve().cost
    assert cost is not None
    return cost
