"""The methods of `map`, and the spaces in which they search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final, TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.errors import InternalError, UsageError
from onchip.model.layer.limits import misfit
from onchip.plugins import PluginGroup, guarded
from onchip.search.budget.limits import Run


@dataclass(frozen=True, slots=True)
class MapSpace:
    """A set of mappings for which a bound holds."""

    name: str
    definition: str


EVEN_MAPPINGS: Final = MapSpace(
    "even mappings",
    "all splits of the loop bounds into whole factors over time and the dimensions of the array; every memory keeps "
    "each operand that it holds, if it has room for an element; the tiles of a memory's operands span the same loops, "
    "and of each operand also those right above along which it does not change; loops beside each other split what the "
    "input's tile above them spans into neighbouring tiles; between two memories any order of loops (for latency and "
    "energy-delay product: of classes of loops next to each other, a class being the loops along which the same "
    "operand does not change)",
)
WITHOUT_BYPASS: Final = MapSpace(
    "mappings without bypass",
    "all mappings without bypass of a memory that holds an element of the operand: tiles of each operand of their own, "
    "loops in any order, temporal or spatial, with perfect or imperfect factors",
)
ONE_UNROLLING: Final = MapSpace(
    "uneven mappings with one unrolling",
    "all orders of the prime factors of the temporal loops, with one spatial unrolling; no bypass of a memory that "
    "holds an element of the operand; tiles of each operand of their own; incomplete sums have the width of partial "
    "sums, and tiles of the input have all rows from the first to the last",
)
COSA_PROGRAM: Final = MapSpace("CoSA's program", "the schedules of CoSA's program, by its own objective and capacities")


SPACES: Final[Mapping[str, MapSpace]] = {
    "exact": WITHOUT_BYPASS,
    "exact-even": EVEN_MAPPINGS,
    "uneven": ONE_UNROLLING,
    "cosa": COSA_PROGRAM,
}
"""Space of each method's status and lower bound; the other methods prove nothing."""


Solve: TypeAlias = Callable[[LayerProblem, MappingObjective, Run], SearchResult[LayerMapping]]


@dataclass(frozen=True, slots=True)
class MappingMethod:
    """A named mapping method. `objective_value` is in the objective's unit, for `cosa` in CoSA's own.

    `is_proof`: OPTIMAL results may be cached. `keeps_feasible`: FEASIBLE results may be cached too, so that a longer
    search returns no worse ones.
    """

    name: str
    summary: str
    solve: Solve
    is_proof: bool = False
    keeps_feasible: bool = False

    def __call__(self, problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
        """Return the method's result for a problem; raises InternalError for an illegal mapping."""
        result = self.solve(problem, objective, run)
        fault = None if result.answer is None else misfit(problem, result.answer)
        if fault is not None:
            raise InternalError(f"its mapping is not legal: {fault}", place=f"method {self.name}")
        return result


@dataclass(frozen=True, slots=True)
class _Imported:
    """A search that is imported when it is called."""

    module: str
    name: str

    def __call__(self, problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
        found: SearchResult[LayerMapping] = getattr(import_module(self.module), self.name)(problem, objective, run)
        return found


def _even(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    from onchip.mapping.tile_search.exact import solve_exactly

    return replace(solve_exactly(problem, objective, run), method=EVEN.name, space=EVEN_MAPPINGS.name)


def _dive(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    from onchip.mapping.tile_search.exact import DEPTHS_OF_DIVES, solve_by_dive

    for depth in DEPTHS_OF_DIVES:
        found = solve_by_dive(problem, objective, run, depth)
        if found.status is not Status.UNKNOWN or found.stopped_by is Stop.INTERRUPTED:
            break
    return replace(found, method="dive", space=EVEN_MAPPINGS.name)


EVEN: Final = MappingMethod("exact-even", "the best even mapping, proven", _even, is_proof=True)
"""The substitute for `exact` where many mappings are needed: a proof takes milliseconds instead of a second."""

_EXACT = _Imported("onchip.mapping.prove.wide", "solve_widely")
_COSA = _Imported("onchip.mapping.cosa.cosa", "solve_as_cosa_by_cost")
_HYBRID = _Imported("onchip.mapping.baselines.random_search", "solve_as_hybrid")
_RANDOM = _Imported("onchip.mapping.baselines.random_search", "solve_at_random")
_LOMA = _Imported("onchip.mapping.baselines.loma", "solve_as_loma")

METHODS: Mapping[str, MappingMethod] = {
    method.name: method
    for method in (
        MappingMethod(
            "exact", "mappings without bypass, with a lower bound", _EXACT, is_proof=True, keeps_feasible=True
        ),
        EVEN,
        MappingMethod("dive", "the first even mappings that `exact-even` meets, in milliseconds", _dive),
        MappingMethod("cosa", "CoSA's formulation (ISCA 2021), ties broken by the cost model", _COSA),
        MappingMethod("hybrid", "Timeloop-Hybrid's rule: random tilings, pruned orders of loops", _HYBRID, True),
        MappingMethod("random", "the best of a few random mappings that fit", _RANDOM, True),
        MappingMethod("loma", "all orders of the prime factors, memories filled from the units up", _LOMA),
    )
}


MAPPING_METHOD_PLUGINS: Final = PluginGroup[[], MappingMethod]("onchip.mapping_methods", MappingMethod)
"""Factories of methods by name; each takes no arguments. Proofs of plugins are not cached."""


def method_named(name: str) -> MappingMethod:
    """Return the method of that name; raises UsageError for an unknown one, PluginError for a broken one."""
    if name in METHODS:
        return METHODS[name]
    plugin = MAPPING_METHOD_PLUGINS.find(name)
    if plugin is None:
        expected = f"one of {', '.join((*METHODS, *MAPPING_METHOD_PLUGINS.names))}"
        raise UsageError(f"there is no method {name!r}", place="method", expected=expected)
    method, place = plugin(), f"method {name!r} of {MAPPING_METHOD_PLUGINS.name}"
    return replace(
        method, name=name, is_proof=False, keeps_feasible=False, solve=guarded(method.solve, SearchResult, place)
    )


def composing_method(name: str) -> MappingMethod:
    """Return the method to use where many mappings are composed; raises the errors of `method_named`."""
    return EVEN if name == "exact" else method_named(name)
