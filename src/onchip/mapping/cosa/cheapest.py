"""CoSA's schedule, with ties in its objective broken by the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Result
from onchip.errors import AcceleratorError, InputError
from onchip.mapping.cosa.cosa import solve_as_cosa
from onchip.mapping.cosa.machine import CosaWeights
from onchip.model.layer.tables import LayerCosts
from onchip.search.budget.limits import Run


def solve_as_cosa_by_cost(
    problem: LayerProblem, objective: MappingObjective, run: Run, weights: CosaWeights | None = None
) -> Result[LayerMapping]:
    """Return CoSA's optimum with the least cost in the cost model; a mapping that does not fit costs infinity.

    Raises the errors of `solve_as_cosa`, and AcceleratorError if the accelerator lacks data for the cost model.
    """
    try:
        batch = LayerCosts(problem)
    except AcceleratorError:
        raise
    except InputError:  # loops too long for the cost model
        return solve_as_cosa(problem, run, weights=weights)

    def costs(mappings: Sequence[LayerMapping]) -> list[float]:
        found = batch.of(mappings)
        values = [objective.of(*one) for one in zip(found.energy_pj.tolist(), found.cycles.tolist(), strict=True)]
        return [value if isfinite(energy) else inf for value, energy in zip(values, found.energy_pj, strict=True)]

    return solve_as_cosa(problem, run, tie_break=costs, weights=weights)
