"""Plant faults one at a time, each in a copy of the program, to see that the adversary finds it: `make planted`."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from adversary.planted import PLANTED
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

    def planted(self, text: str) -> str:
        """Return the text of the file with the fault; raises ValueError if `old` does not stand there exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} stands {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)

    @property
    def is_compiled(self) -> bool:
        """Return True if the fault is in C++, so that the copy has to be built."""
        return not self.file.endswith(".py")


def all_planted() -> tuple[Planted, ...]:
    """Return all faults of the table."""
    return tuple(
        Planted(name, file, old, new, level)
        for level, files in PLANTED.items()
        for file, faults in files.items()
        for name, (old, new) in faults.items()
    )


class PlantedTree:
    """A copy of the program in a folder, with one fault at a time.

    The native code is compiled in the folder, so that a fault in C++ compiles only the unit of its file again.
    """

    def __init__(self, folder: Path) -> None:
        self.source = folder / "src"
        self._build, self._tools = folder / "build", folder / "tools"
        shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__", "CMakeFiles"))
        (self.source / "sitecustomize.py").write_text(NOT_IN_PLACE)
        self._native = self.source / "onchip" / "native"
        self._faultless = {path: path.read_bytes() for path in self._native.glob("_core.*") if path.suffix != ".pyi"}

    @contextmanager
    def with_fault(self, fault: Planted) -> Iterator[None]:
        path = self.source / Path(fault.file).relative_to("src")
        text = path.read_text(encoding="utf-8")
        path.write_text(fault.planted(text), encoding="utf-8")
        try:
            if fault.is_compiled:
                self._compile()
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            for library, content in self._faultless.items():
                if fault.is_compiled:
                    library.unlink()  # a process may have mapped the file
                    library.write_bytes(content)

    def _compile(self) -> None:
        if not self._build.exists():
            self._configure()
        self._run("-m", "cmake", "--build", self._build, "--target", "_core")
        for library in self._faultless:
            library.unlink()
            shutil.copy(self._build / library.name, library)

    def _configure(self) -> None:
        tools = ("nanobind", "cmake", "ninja")
        self._run("-m", "pip", "install", "--quiet", "--target", self._tools, *tools)
        nanobind = self._run("-m", "nanobind", "--cmake_dir").strip()
        settings = {
            "CMAKE_MAKE_PROGRAM": self._tools / "bin" / "ninja",
            "Python_EXECUTABLE": sys.executable,
            "SKBUILD_SABI_COMPONENT": "Development.SABIModule",
            "nanobind_DIR": nanobind,
        }
        defined = [f"-D{name}={value}" for name, value in settings.items()]
        self._run("-m", "cmake", "-G", "Ninja", "-S", self._native, "-B", self._build, *defined)

    def _run(self, *arguments: str | Path) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self._tools)}
        return subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
        ).stdout


class Outcome(StrEnum):
    """The outcome of the adversary on a planted fault; a case that never ends does not show a wrong answer."""

    FOUND = "found"
    NEVER_ENDS = "a case never ends"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Hunt:
    """The outcome for a fault, the processor seconds of the adversary, and the kind of the wrong answer."""

    fault: str
    outcome: Outcome
    seconds: float
    shown_by: str = ""


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
    print("| fault | level | outcome | seconds | shown by |\n|---|---|---|---|---|", flush=True)
    outcomes: Counter[Outcome] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tree = PlantedTree(Path(folder))
        for fault in faults:
            hunted = known.get(fault.name)
            if hunted is None:
                with tree.with_fault(fault):
                    hunted = hunt(fault, tree.source, Path(folder) / "found", asked.seconds, asked.workers)
                asked.results.parent.mkdir(exist_ok=True)
                with asked.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(hunted)) + "\n")
            outcomes[hunted.outcome] += 1
            cells = (fault.name, fault.level, hunted.outcome, f"{hunted.seconds:.0f}", hunted.shown_by)
            print(f"| {' | '.join(cells)} |", flush=True)
    print(", ".join(f"{outcome}: {outcomes[outcome]}" for outcome in Outcome))
    return int(outcomes[Outcome.FOUND] < len(faults))


def found_in(results: Path) -> dict[str, Hunt]:
    """Return the hunt of each fault that was found, according to the file of outcomes."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    hunts = [Hunt(**json.loads(line)) for line in lines]
    return {one.fault: one for one in hunts if one.outcome == Outcome.FOUND}


def hunt(fault: Planted, program: Path, found: Path, seconds: float, workers: int) -> Hunt:
    """Run the adversary on the program with the fault; each of its processes computes for `seconds` at most.

    The cases that show the fault are written to the folder `found`.
    """
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir()
    paths = os.pathsep.join((str(program), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "ONCHIP_CACHE": str(found.parent)}
    command = [sys.executable, "-m", "adversary", "--levels", fault.level, "--seconds", str(seconds)]
    run = [*command, "--workers", str(workers), "--stop-at-first", "--shrink-seconds", "0", "--found", str(found)]
    run.append("--processor-time")  # other work on the machine changes no outcome
    started = _computed_by_children()
    ended = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    taken = _computed_by_children() - started
    outcome, shown_by = outcome_of(found) if ended.returncode == 1 else (Outcome.MISSED, "")
    return Hunt(fault.name, outcome, taken, shown_by)


def _computed_by_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def outcome_of(found: Path) -> tuple[Outcome, str]:
    """Return the outcome that the cases in the folder `found` show, and the kind of the wrong answer."""
    faults = [read_found(path).fault for path in found.iterdir()]
    wrong = [fault.partition(":")[0] for fault in faults if not fault.startswith(NEVER_ENDS)]
    if wrong:
        return Outcome.FOUND, wrong[0]
    return (Outcome.NEVER_ENDS if faults else Outcome.MISSED), ""


if __name__ == "__main__":
    sys.exit(main())
