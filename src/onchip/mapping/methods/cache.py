"""Proven mappings kept in the cache folder, and mappings found within a limit of effort.

The cache has a file for each layer, accelerator, objective, method and version. A mapping that is read is checked and
costed again. Only a new search could check a cached bound or status: MODEL_VERSION is raised when older ones may be
wrong. Faults of the folder or of a file cost time but change no answer: a CacheWarning names them.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from math import inf, isclose, isfinite
from pathlib import Path
from typing import Any, Final, Self

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem, leaves_something_out
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.errors import CacheWarning, InputError, InternalError
from onchip.kept_folder import FOLDER_VARIABLE, cache_folder
from onchip.mapping.methods.registry import MappingMethod, composing_method, method_named
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import misfit
from onchip.search.budget.limits import Run
from onchip.whole_files import ensure_place, write_whole

MODEL_VERSION: Final = 10
"""Version of results; raised whenever the cost model, a mapspace or the search of `exact` changes."""
ROUNDING: Final = 1e-9
"""Sums of the same energies differ by this share at most, by the order of adding."""
LONGER: Final = 1.1
"""A search is repeated if it has this many times the seconds of the cached search.

The tolerance covers the time to read files, which varies between runs of the same command.
"""
GREATEST_FILE_BYTES: Final = 2**20
_DAMAGE: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, InputError)
"""Errors raised by reading, checking or costing a damaged file."""


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A cached result, and the seconds that its search was given (infinite without a limit)."""

    result: SearchResult[LayerMapping]
    seconds: float

    def answers(self, run: Run) -> bool:
        """True if the result is optimal, or its search was given no less time than this run has."""
        return self.result.status is Status.OPTIMAL or run.seconds_left <= LONGER * self.seconds


@dataclass(frozen=True, slots=True)
class MappingCache:
    """A cache of mapping results in a folder."""

    folder: Path

    @classmethod
    def opened(cls) -> Self | None:
        """Return the user's cache, or None without a folder for it. Warns if results cannot be written."""
        folder = cache_folder()
        if folder is None:
            _warn(f"there is no folder for kept mappings, as there is no home: {FOLDER_VARIABLE} may name one")
            return None
        cache = cls(folder)
        try:
            cache._mappings.mkdir(parents=True, exist_ok=True)
            ensure_place(cache._mappings / "any.json")
        except OSError as error:
            _warn_of(folder, error)
        return cache

    def solve(
        self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective, run: Run
    ) -> SearchResult[LayerMapping]:
        """Return the cached result, or search.

        A search is repeated if it has more time than the cached one; the better mapping and the higher bound of both
        results are returned and cached.
        """
        kept, given = self._kept(method, problem, objective, run), run.seconds_left
        if kept is None:
            result = method(problem, objective, run)
        elif kept.answers(run):
            return kept.result
        else:
            result = combined(kept.result, method(problem, objective, run))
        had = run.seconds if run.interrupt.is_set() else max(given, 0.0)
        if result.status is Status.OPTIMAL or run.limits.node_limit is None:
            self._keep(method, problem, objective, KeptResult(result, had if kept is None else max(had, kept.seconds)))
        return result

    def known(
        self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective, run: Run
    ) -> SearchResult[LayerMapping] | None:
        """Return the cached result of an earlier run; None if there is none."""
        kept = self._kept(method, problem, objective, run)
        return None if kept is None else kept.result

    def _kept(
        self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective, run: Run
    ) -> KeptResult | None:
        try:
            return _read(self._path(method, problem, objective), problem, objective, method.name, run)
        except OSError as error:
            _warn_of(self.folder, error)
        except _DAMAGE:
            _warn(f"{self.folder}: a kept mapping is damaged: it is searched anew")
        return None

    def _keep(
        self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective, kept: KeptResult
    ) -> None:
        """Cache a proof, or any mapping if the method's `keeps_feasible` is set."""
        is_proven = method.is_proof and kept.result.status is Status.OPTIMAL
        if kept.result.answer is None or not (is_proven or method.keeps_feasible):
            return
        try:
            _write(self._path(method, problem, objective), kept)
        except OSError as error:
            _warn_of(self.folder, error)

    def _path(self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective) -> Path:
        return self._mappings / f"{_key(method.name, problem, objective)}.json"

    @property
    def _mappings(self) -> Path:
        return self.folder / "mappings"


@cache
def _release() -> str:
    try:
        return version("onchip")
    except PackageNotFoundError:
        return "unreleased"


def _key(method: str, problem: LayerProblem, objective: MappingObjective) -> str:
    parts = [_release(), str(MODEL_VERSION), method, str(objective), repr(problem)]
    if leaves_something_out(problem.levels, problem.layer):  # older results kept every operand everywhere
        parts.append("without memories that have no room for an element")
    return sha256("\n".join(parts).encode()).hexdigest()


def combined(kept: SearchResult[LayerMapping], found: SearchResult[LayerMapping]) -> SearchResult[LayerMapping]:
    """Return the better mapping of two results of the same question and space, with the higher bound."""
    best = min((found, kept), key=lambda one: inf if one.objective_value is None else one.objective_value)
    value = best.objective_value
    if value is None:
        return found
    bound = min(value, max(kept.lower_bound, found.lower_bound))
    is_proven = bound == value
    among = {one.optimal_among for one in (kept, found) if one.objective_value == value and one.optimal_among}
    return replace(
        found,
        status=Status.OPTIMAL if is_proven else Status.FEASIBLE,
        answer=best.answer,
        objective_value=value,
        lower_bound=bound,
        stopped_by=Stop.COMPLETED if is_proven else found.stopped_by,
        optimal_among=None if is_proven else next(iter(among), None),
    )


def _write(path: Path, kept: KeptResult) -> None:
    """Write the file; raises OSError if that fails. Paths that are no regular files are skipped: a pipe would block."""
    result, mapping = kept.result, kept.result.answer
    if mapping is None or (path.exists() and not path.is_file()):
        return
    document = {
        "status": result.status,
        "objective_value": result.objective_value,
        "lower_bound": result.lower_bound,
        "space": result.space,
        "optimal_among": result.optimal_among,
        "stopped_by": result.stopped_by,
        "seconds": kept.seconds if isfinite(kept.seconds) else None,
        "nest": [[loop.dimension, loop.size, loop.along] for loop in mapping.nest],
        "kept": {
            name: [[one.memory, one.loops] for one in mapping.kept(name)] for name in ("input", "weight", "output")
        },
        "ragged": mapping.ragged,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole((path, json.dumps(document).encode()), is_flushed=False)


def _read(path: Path, problem: LayerProblem, objective: MappingObjective, method: str, run: Run) -> KeptResult | None:
    """Return the cached result, or None if there is no file.

    Raises OSError, or one of _DAMAGE if the mapping is illegal, its cost differs, or its bound exceeds its cost.
    """
    if not path.exists():
        return None
    if not path.is_file() or path.stat().st_size > GREATEST_FILE_BYTES:
        raise ValueError("not a file of this cache")
    document = json.loads(path.read_bytes())
    mapping, value, bound = _mapping(document), document["objective_value"], document["lower_bound"]
    if misfit(problem, mapping) is not None:
        raise ValueError("the mapping is illegal")
    cost = layer_cost(problem, mapping)
    if not isclose(value, objective.of(cost.energy_pj, cost.cycles), rel_tol=ROUNDING, abs_tol=0.5):
        raise ValueError("the mapping has another cost")
    status, is_proven = Status(document["status"]), bound == value
    if not isinstance(bound, int) or not 0 <= bound <= value or (status is Status.OPTIMAL) is not is_proven:
        raise ValueError("status and bound contradict each other")
    seconds = inf if document["seconds"] is None else float(document["seconds"])
    space, among, stop = document["space"], document["optimal_among"], Stop(document["stopped_by"])
    result = SearchResult(status, mapping, value, bound, run.seconds, method, stop, space=space, optimal_among=among)
    return KeptResult(result, seconds)


def _mapping(document: dict[str, Any]) -> LayerMapping:
    nest = tuple(Loop(dimension, size, along) for dimension, size, along in document["nest"])
    kept = {name: tuple(Kept(memory, loops) for memory, loops in ones) for name, ones in document["kept"].items()}
    return LayerMapping(nest, kept["input"], kept["weight"], kept["output"], ragged=tuple(document["ragged"]))


def _warn_of(folder: Path, error: OSError) -> None:
    _warn(f"{folder}: mappings cannot be kept there ({error.strerror or error}): they are searched anew")


def _warn(what: str) -> None:
    warnings.warn(what, CacheWarning, stacklevel=3)


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
) -> SearchResult[LayerMapping]:
    """Return a mapping that fits the problem's free capacities; proofs may be cached between runs.

    `exact` stands for the best even mapping. Raises UsageError for an unknown method, AcceleratorError if the
    accelerator's description is incomplete, InputError for a layer that the method refuses.
    """
    return _asked(composing_method(method), problem, objective, run, cache)


def best_mapping_at(
    problem: LayerProblem, objective: MappingObjective, run: Run, cache: MappingCache | None = None
) -> SearchResult[LayerMapping]:
    """Return LOMA's mapping, or a better even mapping.

    OPTIMAL means that no even mapping is better and that LOMA was not cut short. LOMA can beat `exact`, since it cuts
    each operand separately. Raises AcceleratorError if the accelerator's description is incomplete, InputError for a
    layer that both refuse.
    """
    return _asked(_EXACT_FROM_LOMA, problem, objective, run, cache)


def first_mapping_at(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    """Return LOMA's mapping, or a better one found by a short deterministic search for even mappings.

    OPTIMAL is as in `best_mapping_at`. Raises AcceleratorError if the accelerator's description is incomplete,
    InputError for a layer that both refuse.
    """
    limits = replace(run.limits, node_limit=NODES_OF_A_FIRST_LOOK)
    return _exact_from_loma(problem, objective, replace(run, limits=limits))


def hurried_mapping_at(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
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
        fault = misfit(problem, mapping)
        if fault is not None:
            raise InternalError(f"a mapping of its front is not legal: {fault}", place="method loma")
    return found


def known_mapping_at(
    problem: LayerProblem, objective: MappingObjective, run: Run, cache: MappingCache
) -> SearchResult[LayerMapping] | None:
    """Return the cached result of `best_mapping_at`, or None if there is none."""
    return cache.known(_EXACT_FROM_LOMA, problem, objective, run)


def _asked(
    method: MappingMethod, problem: LayerProblem, objective: MappingObjective, run: Run, cache: MappingCache | None
) -> SearchResult[LayerMapping]:
    return method(problem, objective, run) if cache is None else cache.solve(method, problem, objective, run)


def _exact_from_loma(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
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
