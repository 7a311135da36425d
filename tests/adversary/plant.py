"""Plant faults one at a time, each in a copy of the program, to see that the adversary finds it: `make planted`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from adversary import planted
from adversary.session import NEVER_ENDS
from adversary.worker import read_found

ROOT = Path(__file__).parents[2]
NOT_IN_PLACE = """\
import sys

sys.meta_path[:] = [one for one in sys.meta_path if type(one).__name__ != "ScikitBuildInplaceFinder"]
"""
"""Text of a `sitecustomize.py`: a package installed in place would precede PYTHONPATH."""
SECONDS = 600.0
RESULTS = Path(".mutation/planted.jsonl")
"""Outcomes of faults, relative to the folder in which the run starts."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault: in `file` (relative to the repository) `old`, which stands there once, becomes `new`.

    The adversary's level of that name is to find it.
    """

    name: str
    file: str
    old: str
    new: str
    level: str

    def plant(self, source: Path) -> None:
        """Change the file in a copy of `src`; raises ValueError where `old` does not stand there exactly once."""
        path = source / Path(self.file).relative_to("src")
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} stands {text.count(self.old)} times in {self.file}")
        path.write_text(text.replace(self.old, self.new))

    @property
    def is_compiled(self) -> bool:
        """Return True if the fault is in C++, so that the copy has to be built."""
        return not self.file.endswith(".py")


def all_planted() -> tuple[Planted, ...]:
    """Return the FAULTS of every file in `planted`."""
    modules = (importlib.import_module(f"{planted.__name__}.{one.name}") for one in _modules())
    return tuple(fault for module in modules for fault in module.FAULTS)


def _modules() -> Iterator[pkgutil.ModuleInfo]:
    yield from pkgutil.iter_modules(planted.__path__)


class Outcome(StrEnum):
    """The outcome of the adversary on a planted fault; a case that never ends does not show a wrong answer."""

    FOUND = "found"
    NEVER_ENDS = "a case never ends"
    MISSED = "missed"


def main() -> int:
    """Print the outcome of each fault and the processor seconds it took; return 1 if a fault was not found.

    Outcomes are kept in a file. A later run skips faults that it holds as found.
    """
    parser = argparse.ArgumentParser(prog="adversary.plant", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="processor time of each process, for each fault")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="plant these faults only")
    parser.add_argument("--levels", nargs="+", metavar="LEVEL", help="plant the faults of these levels only")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of outcomes; remove it to start afresh")
    asked = parser.parse_args()
    faults = [
        fault
        for fault in all_planted()
        if (asked.only is None or fault.name in asked.only) and (asked.levels is None or fault.level in asked.levels)
    ]
    known = found_in(asked.results)
    print("| fault | level | outcome | seconds |\n|---|---|---|---|", flush=True)
    outcomes: Counter[Outcome] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for fault in faults:
            if fault.name in known:
                outcome, seconds = Outcome.FOUND, known[fault.name]
            else:
                outcome, seconds = hunt(fault, Path(folder), asked.seconds, asked.workers)
                asked.results.parent.mkdir(exist_ok=True)
                with asked.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([fault.name, outcome, seconds]) + "\n")
            outcomes[outcome] += 1
            print(f"| {fault.name} | {fault.level} | {outcome} | {seconds:.0f} |", flush=True)
    print(", ".join(f"{outcome}: {outcomes[outcome]}" for outcome in Outcome))
    return int(outcomes[Outcome.FOUND] < len(faults))


def found_in(results: Path) -> dict[str, float]:
    """Return the seconds of each fault that was found, according to the file of outcomes."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {name: seconds for name, outcome, seconds in map(json.loads, lines) if outcome == Outcome.FOUND}


def hunt(fault: Planted, folder: Path, seconds: float, workers: int) -> tuple[Outcome, float]:
    """Run the adversary on a copy of the program with the fault; return how long its processes computed, too.

    Each computes for `seconds` at most. The copy lies below `folder`.
    """
    found = folder / "found"
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir()
    program = _planted_program(fault, folder)
    (program / "sitecustomize.py").write_text(NOT_IN_PLACE)
    paths = os.pathsep.join((str(program), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "ONCHIP_CACHE": str(folder)}
    command = [sys.executable, "-m", "adversary", "--levels", fault.level, "--seconds", str(seconds)]
    run = [*command, "--workers", str(workers), "--stop-at-first", "--shrink-seconds", "0", "--found", str(found)]
    run.append("--processor-time")  # other work on the machine changes no outcome
    started = _computed_by_children()
    ended = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    taken = _computed_by_children() - started
    return (outcome_of(found) if ended.returncode == 1 else Outcome.MISSED), taken


def _computed_by_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def outcome_of(found: Path) -> Outcome:
    """Return the outcome that the cases in the folder `found` show."""
    faults = [read_found(path).fault for path in found.iterdir()]
    if any(not fault.startswith(NEVER_ENDS) for fault in faults):
        return Outcome.FOUND
    return Outcome.NEVER_ENDS if faults else Outcome.MISSED


def _planted_program(fault: Planted, folder: Path) -> Path:
    """Return the import path of the program with the fault; C++ is built, which takes a minute."""
    source, installed = folder / "src", folder / "installed"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "CMakeFiles", "CMakeCache.txt"))
    fault.plant(source)
    if not fault.is_compiled:
        return source
    for name in ("pyproject.toml", "README.md", "tools/build_backend.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.rmtree(installed, ignore_errors=True)
    build = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(folder)]
    subprocess.run(build, check=True, capture_output=True)
    return installed


if __name__ == "__main__":
    sys.exit(main())
