"""Methods for one scratchpad all end at their time limit with true claims, if the search is exponential.

A method that ignores its limit runs for hours here, so the test hangs. No test measures how late a method is.
"""

from __future__ import annotations

import pytest

from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.memory.methods import METHODS
from onchip.model.capacity.bounds import greatest_need
from onchip.search.budget.limits import Limits, MipSolver, Run
from support.crowds import crowd
from support.series import series

LIMIT_SECONDS = 0.3
ASKED = [
    ("exact", Order.FREE, Objective.TRAFFIC),
    ("exact", Order.GIVEN, Objective.TRAFFIC),
    ("exact", Order.MIN_PEAK, Objective.TRAFFIC),
    ("exact", Order.FREE, Objective.PEAK),
    ("divide", Order.FREE, Objective.TRAFFIC),
    ("paper", Order.FREE, Objective.TRAFFIC),
    ("paper", Order.GIVEN, Objective.TRAFFIC),
    ("belady", Order.GIVEN, Objective.TRAFFIC),
    ("greedy", Order.GIVEN, Objective.TRAFFIC),
    ("pinning", Order.GIVEN, Objective.TRAFFIC),
    ("onsram", Order.GIVEN, Objective.TRAFFIC),
]


@pytest.fixture(scope="module", autouse=True)
def _everything_is_loaded() -> None:
    """Import and compile everything first, so that this does not count as a method's time."""
    for name, order, objective in ASKED:
        graph = crowd(0, 4, 3)
        METHODS[name].solve(Problem(graph, (Memory("sram", 40),), objective, order), Run())


@pytest.mark.parametrize(("waiting", "reads"), [(40, 2), (150, 2)])
@pytest.mark.parametrize("greatest_size", series([9, 1], 1))
@pytest.mark.parametrize(("name", "order", "objective"), ASKED)
def test_a_method_ends_when_its_time_is_up(
    name: str, order: Order, objective: Objective, greatest_size: int, waiting: int, reads: int
) -> None:
    graph = crowd(3, waiting, greatest_size, reads)
    need = greatest_need(Problem(graph, (Memory("sram", 1),))).need_bytes
    problem = Problem(graph, (Memory("sram", need + need // 4),), objective, order)
    result = METHODS[name].solve(problem, Run(Limits(LIMIT_SECONDS, solver=MipSolver.CP_SAT)))

    assert result.objective_value is None or result.lower_bound <= result.objective_value
    assert result.answer is not None or objective is Objective.PEAK or name in ("paper", "pinning")
    assert result.status is not Status.INFEASIBLE or objective is Objective.PEAK
