"""Results of a benchmark, with the commit and the machine, in a file for later comparison.

A commit is lost if its branch is moved; the tree of its sources, the version and the date remain.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]


def write_results(path: Path, results: object) -> None:
    """Write results that JSON knows, with the command that made them; raises OSError where that cannot be."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.stem == "__main__" else program.stem
    measured = {
        "command": " ".join((name, *map(_without_folders_of_the_machine, sys.argv[1:]))),
        "commit": commit(),
        "sources": sources(),
        "version": version("onchip"),
        "day": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "results": results,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(measured, indent=1) + "\n")


def _without_folders_of_the_machine(argument: str) -> str:
    """Return the last part of an absolute path, whose folders mean nothing on other machines."""
    return Path(argument).name if Path(argument).is_absolute() else argument


def commit() -> str:
    """Return the checked-out commit, with `+` if files differ from it; empty outside a repository."""
    return _with_mark(_git("rev-parse", "--short=12", "HEAD"), ".")


def sources() -> str:
    """Return the tree hash of `src`, equal for commits with equal sources, with the same mark as `commit`."""
    return _with_mark(_git("rev-parse", "--short=12", "HEAD:src"), "src")


def _with_mark(found: str, folder: str) -> str:
    return f"{found}+" if found and _git("status", "--porcelain", "--untracked-files=no", "--", folder) else found


def _git(*arguments: str) -> str:
    ended = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip() if ended.returncode == 0 else ""


def machine() -> dict[str, str | int]:
    """Return a description of the machine, without its name."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    """Return the processor's name from Linux, else the kind of machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
