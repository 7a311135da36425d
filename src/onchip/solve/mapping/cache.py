"""Proven mappings kept between runs; what is read is verified and costed again before it is handed out.

A file for each problem of a layer, objective, method and version, written beside and moved into place. The claim that
a mapping is the best is as good as the run that made it: nothing can check that but the run itself.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.operands_kept import leaves_something_out
from onchip.answer.result import Result, Status
from onchip.cost.layer.cost import layer_cost
from onchip.errors import InputError
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.registry import MappingMethod
from onchip.solve.run.limits import Run
from onchip.verify.mapping import verify_mapping

FOLDER_VARIABLE: Final = "ONCHIP_CACHE"
MODEL_VERSION: Final = 5
"""To be raised whenever the cost model or a mapspace changes."""


def cache_folder() -> Path:
    """`$ONCHIP_CACHE`, or `onchip` in the user's cache folder."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onchip"


@dataclass(frozen=True, slots=True)
class MappingCache:
    """Optimal results only: others depend on how long they were looked for."""

    folder: Path

    def solve(
        self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective, run: Run
    ) -> Result[LayerMapping]:
        """What is kept, or the method's own answer, which is kept if it is optimal."""
        kept = self.known(method, problem, objective, run)
        if kept is not None:
            return kept
        result = method(problem, objective, run)
        if result.status is Status.OPTIMAL and result.answer is not None and method.is_proof:
            _write(self._path(method, problem, objective), result)
        return result

    def known(
        self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective, run: Run
    ) -> Result[LayerMapping] | None:
        """What is kept of an earlier run; None for what is not there."""
        return _read(self._path(method, problem, objective), problem, objective, method.name, run)

    def _path(self, method: MappingMethod, problem: LayerProblem, objective: MappingObjective) -> Path:
        return self.folder / "mappings" / f"{_key(method.name, problem, objective)}.json"


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
    """A folder that cannot be written keeps nothing."""
    mapping = result.answer
    if mapping is None:
        return
    document = {
        "objective_value": result.objective_value,
        "nest": [[loop.dimension, loop.size, loop.along] for loop in mapping.nest],
        "kept": {
            name: [[one.memory, one.loops] for one in mapping.kept(name)] for name in ("input", "weight", "output")
        },
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False) as file:
            json.dump(document, file)
        Path(file.name).replace(path)
    except OSError:
        return


def _read(
    path: Path, problem: LayerProblem, objective: MappingObjective, method: str, run: Run
) -> Result[LayerMapping] | None:
    """None for what is not there, cannot be read, is not legal, or does not cost what it did."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        mapping, kept_value = _mapping(document), document["objective_value"]
        if verify_mapping(problem, mapping):
            return None
        cost = layer_cost(problem, mapping)
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None
    value = round(objective.of(cost.energy_pj, cost.cycles))
    if value != kept_value:
        return None
    return Result(Status.OPTIMAL, mapping, value, value, run.seconds, method)


def _mapping(document: dict[str, Any]) -> LayerMapping:
    nest = tuple(Loop(dimension, size, along) for dimension, size, along in document["nest"])
    kept = {name: tuple(Kept(memory, loops) for memory, loops in ones) for name, ones in document["kept"].items()}
    return LayerMapping(nest, kept["input"], kept["weight"], kept["output"])
