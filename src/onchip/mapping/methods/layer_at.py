"""The best mapping of a layer at given operand placements and free capacities, for schedule search."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Result, Status, Stop
from onchip.errors import InputError, InternalError
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import MappingMethod, composing_method, method_named
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping

SECONDS_OF_LOMA: Final = 1.0
"""Time limit of LOMA in a limited run, in seconds; it mostly takes milliseconds."""
NODES_OF_A_FIRST_LOOK: Final = 100
"""Node limit of a first search: some hundredths of a second, and mostly within a few per cent of the best."""


def map_layer_at(
    problem: LayerProblem,
    objective: MappingObjective,
    run: Run,
    method: str = "exact",
    cache: MappingCache | None = None,
) -> Result[LayerMapping]:
    """Return a mapping that fits the problem's free capacities; proofs may be cached between runs.

    `exact` stands for the best even mapping. Raises UsageError for an unknown method, AcceleratorError if the
    accelerator's description is incomplete, InputError for a layer that the method refuses.
    """
    return _asked(composing_method(method), problem, objective, run, cache)


def best_mapping_at(
    problem: LayerProblem, objective: MappingObjective, run: Run, cache: MappingCache | None = None
) -> Result[LayerMapping]:
    """Return LOMA's mapping, or a better even mapping.

    OPTIMAL means that no even mapping is better and that LOMA was not cut short. LOMA can beat `exact`, since it cuts
    each operand separately. Raises AcceleratorError if the accelerator's description is incomplete, InputError for a
    layer that both refuse.
    """
    return _asked(_EXACT_FROM_LOMA, problem, objective, run, cache)


def first_mapping_at(problem: LayerProblem, objective: MappingObjective, run: Run) -> Result[LayerMapping]:
    """Return LOMA's mapping, or a better one found by a short deterministic search for even mappings.

    OPTIMAL is as in `best_mapping_at`. Raises AcceleratorError if the accelerator's description is incomplete,
    InputError for a layer that both refuse.
    """
    limits = replace(run.limits, node_limit=NODES_OF_A_FIRST_LOOK)
    return _exact_from_loma(problem, objective, replace(run, limits=limits))


def hurried_mapping_at(problem: LayerProblem, objective: MappingObjective, run: Run) -> Result[LayerMapping]:
    """Return the mapping of the first dive of the even search, or LOMA's if the dive finds none; deterministic.

    It takes no longer than LOMA, some milliseconds, and is mostly much better. The status is never OPTIMAL, since LOMA
    may have a better mapping. Raises AcceleratorError if the accelerator's description is incomplete, InputError for a
    layer that both refuse.
    """
    from onchip.mapping.tile_search.exact import solve_by_dive

    try:
        found = solve_by_dive(problem, objective, run)
    except InputError:
        return map_layer_at(problem, objective, run, "loma")
    if found.answer is not None:
        return found
    try:
        by_loma = map_layer_at(problem, objective, run, "loma")
    except InputError:
        return found
    return found if by_loma.answer is None else by_loma


def mappings_of_front_at(problem: LayerProblem, run: Run) -> tuple[LayerMapping, ...]:
    """Return the Pareto front in energy and cycles of LOMA's mappings, in ascending order of energy.

    Raises AcceleratorError if the accelerator's description is incomplete, InputError for a layer that LOMA refuses,
    InternalError for an illegal mapping.
    """
    from onchip.mapping.baselines.loma import front_of_loma

    found = front_of_loma(problem, run)
    for mapping in found:
        for violation in verify_mapping(problem, mapping):
            raise InternalError(f"a mapping of its front is not legal: {violation}", place="--method loma")
    return found


def known_mapping_at(
    problem: LayerProblem, objective: MappingObjective, run: Run, cache: MappingCache
) -> Result[LayerMapping] | None:
    """Return the cached result of `best_mapping_at`, or None if there is none."""
    return cache.known(_EXACT_FROM_LOMA, problem, objective, run)


def _asked(
    method: MappingMethod, problem: LayerProblem, objective: MappingObjective, run: Run, cache: MappingCache | None
) -> Result[LayerMapping]:
    return method(problem, objective, run) if cache is None else cache.solve(method, problem, objective, run)


def _exact_from_loma(problem: LayerProblem, objective: MappingObjective, run: Run) -> Result[LayerMapping]:
    from onchip.mapping.tile_search.exact import solve_exactly

    try:
        first = method_named("loma")(problem, objective, run.within(SECONDS_OF_LOMA) if run.deadline.is_set else run)
    except InputError:
        return solve_exactly(problem, objective, run)
    try:
        found = solve_exactly(problem, objective, run, first.answer)
    except InputError:
        return first
    may_be_better = found.status is Status.OPTIMAL and first.stopped_by is not Stop.COMPLETED
    return replace(found, status=Status.FEASIBLE, stopped_by=first.stopped_by) if may_be_better else found


_EXACT_FROM_LOMA: Final = MappingMethod(
    "exact-from-loma", "LOMA's mapping, or a better one of the exact mapspace", _exact_from_loma, is_proof=True
)
