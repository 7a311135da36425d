"""Third-party networks: plans are proven where the proof is quick, and legal at any time limit."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Order, Problem
from onchip.answer.result import Status
from onchip.api.networks import read_network
from onchip.api.plan import Request, plan_network, plan_problem
from onchip.api.target import CapacityBudget, Target
from onchip.arch.memory import Memory
from onchip.model.capacity.bounds import greatest_need
from onchip.search.budget.limits import Limits
from support.onnx_networks import LIGHT_MODELS
from support.series import with_slow

QUICK_MODELS = [
    path for path in LIGHT_MODELS if path.stem in ("light_squeezenet", "light_shufflenet", "light_densenet121")
]
BUNDLED = ("amoebanetd_18_256", "darts_v2", "nasnetalarge", "pnasnet5large")
AMPLE = Limits(time_limit_seconds=60)


@pytest.mark.parametrize("granularity", Granularity)
@pytest.mark.parametrize(
    "path", with_slow(QUICK_MODELS, lambda path: "densenet" in path.stem), ids=lambda path: path.stem
)
def test_a_light_model_is_planned_optimally_at_every_budget(path: Path, granularity: Granularity) -> None:
    """The pipeline raises for a plan that the verifier does not pass."""
    reading = Reading(bits=8, granularity=granularity)
    values = []
    for budget in CapacityBudget:
        outcome = plan_network(Request(str(path), reading, Target(budget), limits=AMPLE))
        assert outcome.result.status is Status.OPTIMAL
        assert outcome.figures is not None
        assert outcome.figures.arena_bytes <= outcome.capacity_bytes
        values.append(outcome.figures.non_compulsory)
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0


@pytest.mark.parametrize(
    ("name", "order"), with_slow(product(BUNDLED, (Order.FREE, Order.GIVEN)), lambda case: case[0] == "pnasnet5large")
)
def test_one_second_leaves_a_legal_plan_of_a_searched_architecture(name: str, order: Order) -> None:
    graph = read_network(name, Reading(bits=8))
    need_bytes = greatest_need(Problem(graph, (Memory("sram", 1),))).need_bytes
    problem = Problem(graph, (Memory("sram", need_bytes),), order=order)
    result = plan_problem(problem, limits=Limits(time_limit_seconds=1))

    assert result.answer is not None
    assert result.objective_value is not None
    assert result.lower_bound <= result.objective_value
