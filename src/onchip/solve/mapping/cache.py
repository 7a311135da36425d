"""Proven mappings kept between runs; what is read is verified and costed again before it is handed out.

A file for each problem of a layer, objective, method and version. The claim that a mapping is the best is as good as
the run that made it: nothing can check that but the run itself. Whatever is wrong with the folder or a file in it
costs time, and no answer: a CacheWarning says so.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Self

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.operands_kept import leaves_something_out
from onchip.answer.result import Result, Status
from onchip.cost.layer.cost import layer_cost
from onchip.errors import CacheWarning, InputError
from onchip.kept_folder import FOLDER_VARIABLE, cache_folder
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.registry import MappingMethod
from onchip.solve.run.limits import Run
from onchip.verify.mapping import verify_mapping
from onchip.whole_files import ensure_place, write_whole

MODEL_VERSION: Final = 7
"""To be raised whenever the cost model, a mapspace or what `exact` looks at beyond it changes."""


GREATEST_FILE_BYTES: Final = 2**20
_DAMAGE: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, InputError)
"""What reading, verifying and costing raise for a file that says something else than we wrote."""


@dataclass(frozen=True, slots=True)
class MappingCache:
    """Optimal results only: others depend on how long they were looked for."""

    folder: Path

    @classmethod
    def opened(cls) -> Self | None:
        """The user's cache; None where there is no folder for it. Warns where nothing can be kept."""
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
    ) -> Result[LayerMapping]:
        """What is kept, or the method's own answer, which is kept if it is optimal."""
        kept = self.known(method, problem, objective, run)
        if kept is not None:
            return kept
        result = method(problem, objective, run)
        if result.status is Status.OPTIMAL and result.answer is not None and method.is_proof:
            try:
                _write(self._path(method, problem, objective), result)
            except OSError as error:
                _warn_of(self.folder, error)
        return result

    def known(
        self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective, run: Run
    ) -> Result[LayerMapping] | None:
        """What is kept of an earlier run; None for what is not there."""
        try:
            return _read(self._path(method, problem, objective), problem, objective, method.name, run)
        except OSError as error:
            _warn_of(self.folder, error)
        except _DAMAGE:
            _warn(f"{self.folder}: a kept mapping is damaged: it is searched anew")
        return None

    def _path(self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective) -> Path:
        return self._mappings / f"{_key(method.name, problem, objective)}.json"

    @property
    def _mappings(self) -> Path:
        return self.folder / "mappings"


def _key(method: str, problem: LayerProblem, objective: MappingObjective) -> str:
    try:
        release = version("onchip")
    except PackageNotFoundError:
        release = "unreleased"
    parts = [release, str(MODEL_VERSION), method, str(objective), repr(problem)]
    if leaves_something_out(problem.levels, problem.layer):  # once every memory had to keep what it holds
        parts.append("without memories that have no room for an element")
    return sha256("\n".join(parts).encode()).hexdigest()


def _write(path: Path, result: Result[LayerMapping]) -> None:
    """Raises OSError where the folder cannot be written; what is no file is left alone: a pipe would make us wait."""
    mapping = result.answer
    if mapping is None or (path.exists() and not path.is_file()):
        return
    document = {
        "objective_value": result.objective_value,
        "nest": [[loop.dimension, loop.size, loop.along] for loop in mapping.nest],
        "kept": {
            name: [[one.memory, one.loops] for one in mapping.kept(name)] for name in ("input", "weight", "output")
        },
        "ragged": mapping.ragged,
        "space": result.space,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole((path, json.dumps(document).encode()), is_flushed=False)


def _read(
    path: Path, problem: LayerProblem, objective: MappingObjective, method: str, run: Run
) -> Result[LayerMapping] | None:
    """None for what is not there; raises OSError, or one of _DAMAGE for what is illegal or costs something else."""
    if not path.exists():
        return None
    if not path.is_file() or path.stat().st_size > GREATEST_FILE_BYTES:
        raise ValueError("it is no file of ours")
    document = json.loads(path.read_bytes())
    mapping, kept_value = _mapping(document), document["objective_value"]
    if verify_mapping(problem, mapping):
        raise ValueError("it is not legal")
    cost = layer_cost(problem, mapping)
    value = round(objective.of(cost.energy_pj, cost.cycles))
    if value != kept_value:
        raise ValueError("it costs something else")
    return Result(Status.OPTIMAL, mapping, value, value, run.seconds, method, space=document["space"])


def _mapping(document: dict[str, Any]) -> LayerMapping:
    nest = tuple(Loop(dimension, size, along) for dimension, size, along in document["nest"])
    kept = {name: tuple(Kept(memory, loops) for memory, loops in ones) for name, ones in document["kept"].items()}
    return LayerMapping(nest, kept["input"], kept["weight"], kept["output"], ragged=tuple(document["ragged"]))


def _warn_of(folder: Path, error: OSError) -> None:
    _warn(f"{folder}: mappings cannot be kept there ({error.strerror or error}): they are searched anew")


def _warn(what: str) -> None:
    warnings.warn(what, CacheWarning, stacklevel=3)
