"""A comparison of the exact mapper with the least over all mappings of a tiny layer."""

from __future__ import annotations

from math import isfinite

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Status
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import least_values


def ensure_best(problem: LayerProblem, most_mappings: int) -> None:
    """Fail unless the best mapping for each objective is found and proven; skip if there are too many mappings."""
    best = least_values(problem, most_mappings)
    if best is None:
        pytest.skip("too many mappings to look at each")
    for objective, value in best.items():
        result = solve_exactly(problem, objective, Run())
        if not isfinite(value):
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is Status.OPTIMAL
        assert result.answer is not None
        assert result.objective_value == pytest.approx(value, rel=1e-9, abs=1)
        assert verify_mapping(problem, result.answer) == ()
