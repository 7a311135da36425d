"""The mapping methods by name; whichever is asked, its mapping is verified before it is handed out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import TypeAlias

from onchip.answer import layer_mapping as plan
from onchip.answer.result import Result
from onchip.arch.accelerator import Accelerator
from onchip.errors import AcceleratorError, InputError, InternalError, UsageError
from onchip.ir.layer import Layer
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.run.limits import Run
from onchip.verify.mapping import verify_mapping

Solve: TypeAlias = Callable[[Layer, Accelerator, MappingObjective, Run], Result[plan.LayerMapping]]


@dataclass(frozen=True, slots=True)
class MappingMethod:
    """`objective_value` is in the unit of the objective, for `cosa` CoSA's own."""

    name: str
    summary: str
    solve: Solve
    is_random: bool = False

    def __call__(
        self, layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run
    ) -> Result[plan.LayerMapping]:
        """Raises InternalError for a mapping that is not legal."""
        result = self.solve(layer, accelerator, objective, run)
        violations = verify_mapping(layer, accelerator, result.answer) if result.answer is not None else ()
        if violations:
            raise InternalError(f"its mapping is not legal: {violations[0]}", place=f"--method {self.name}")
        return result


def _exact(layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run) -> Result[plan.LayerMapping]:
    from onchip.solve.mapping.exact.exact import solve_exactly

    return solve_exactly(layer, accelerator, objective, run)


def _random(layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run) -> Result[plan.LayerMapping]:
    from onchip.solve.mapping.baselines.best_of_random import solve_at_random

    return solve_at_random(layer, accelerator, objective, run)


def _hybrid(layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run) -> Result[plan.LayerMapping]:
    from onchip.solve.mapping.baselines.hybrid import solve_as_hybrid

    return solve_as_hybrid(layer, accelerator, objective, run)


def _loma(layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run) -> Result[plan.LayerMapping]:
    from onchip.solve.mapping.baselines.loma import solve_as_loma

    return solve_as_loma(layer, accelerator, objective, run)


def _cosa(layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run) -> Result[plan.LayerMapping]:
    """Of schedules that are equal to CoSA the one that costs least; one that does not fit costs infinitely much."""
    from onchip.cost.layer.batch import LayerCosts
    from onchip.solve.mapping.cosa.cosa import solve_as_cosa

    try:
        batch = LayerCosts(layer, accelerator)
    except AcceleratorError:
        raise
    except InputError:  # loops too long for it
        return solve_as_cosa(layer, accelerator, run)

    def costs(mappings: Sequence[plan.LayerMapping]) -> list[float]:
        found = batch.of(mappings)
        values = [objective.of(*one) for one in zip(found.energy_pj.tolist(), found.cycles.tolist(), strict=True)]
        return [value if isfinite(energy) else inf for value, energy in zip(values, found.energy_pj, strict=True)]

    return solve_as_cosa(layer, accelerator, run, tie_break=costs)


METHODS: Mapping[str, MappingMethod] = {
    method.name: method
    for method in (
        MappingMethod("exact", "the best mapping of its mapspace, proven", _exact),
        MappingMethod("cosa", "CoSA's formulation (ISCA 2021), ties broken by the cost model", _cosa),
        MappingMethod("hybrid", "Timeloop-Hybrid's rule: random tilings, pruned orders of loops", _hybrid, True),
        MappingMethod("random", "the best of a few random mappings that fit", _random, True),
        MappingMethod("loma", "all orders of the prime factors, memories filled from the units up", _loma),
    )
}


def method_named(name: str) -> MappingMethod:
    """Raises UsageError for another name."""
    if name not in METHODS:
        raise UsageError(f"there is no method {name!r}", place="--method", expected=f"one of {', '.join(METHODS)}")
    return METHODS[name]
