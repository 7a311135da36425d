"""The best mapping of a layer where its operands are, in the room that is left: what composes schedules asks."""

from __future__ import annotations

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Result
from onchip.solve.mapping.cache import MappingCache
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.registry import method_named
from onchip.solve.run.limits import Run


def map_layer_at(
    problem: LayerProblem,
    objective: MappingObjective,
    run: Run,
    method: str = "exact",
    cache: MappingCache | None = None,
) -> Result[LayerMapping]:
    """Legal within the room of the problem, by one method of the registry; what is proven may be kept between runs.

    Raises UsageError for another method, AcceleratorError where the accelerator says too little, InputError for a
    layer that the method refuses.
    """
    solve = method_named(method)
    return solve(problem, objective, run) if cache is None else cache.solve(solve, problem, objective, run)
