"""For one order, cuts learnt from failed packings prove the optimum with addresses."""

from __future__ import annotations

import pytest

from onchip.answer.problem import Order, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.memory.decisions import PlanIncumbent
from onchip.memory.retention.kept_gaps import ConflictLearning
from onchip.memory.spill.min_peak import min_peak_bytes
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_traffic, long_lived_graph

LONG = (17, 22, 38, 46, 49, 58)
"""Seeds that take a second or more."""


@pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in range(60)])
def test_learning_from_conflicts_proves_the_optimum_of_the_given_order(seed: int) -> None:
    graph = long_lived_graph(seed, operators=9)
    alignment = 1 + seed % 3
    roomy = Problem(graph, (Memory("sram", 10**6, alignment),), order=Order.GIVEN)
    least, most = greatest_need(roomy).need_bytes, min_peak_bytes(roomy, Run()).objective_value
    assert most is not None
    problem = Problem(graph, (Memory("sram", least + (most - least) * (seed % 4) // 3, alignment),), order=Order.GIVEN)
    incumbent = PlanIncumbent(IndexedProblem.of(problem), Run())
    ConflictLearning(incumbent, range(9), is_the_only_order=True).solve(incumbent.run)
    result = incumbent.result("learning")
    assert result.status is Status.OPTIMAL
    assert result.objective_value == least_traffic(problem)
    assert result.answer is not None
    assert verify(problem, result.answer).violations == ()
