"""The program in a separate process, forked from one that has loaded it: a file's effects without the start-up time."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from onchip.__main__ import main

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["onchip.cli", "onchip.api.plan", "onchip.api.map", "onnx", "support.forked"])


@dataclass(frozen=True)
class Ended:
    """The end of a process."""

    code: int
    said: str
    """Text on its standard error."""
    greatest_bytes: int
    """Peak memory in bytes; 0 if the process was killed."""


def run_forked(arguments: Sequence[str], folder: Path, seconds: int) -> Ended:
    """Run `onchip ARGUMENTS` with an empty cache; the process is killed after `seconds` of processor time."""
    process = PROCESSES.Process(target=_run, args=(list(arguments), folder, seconds))
    process.start()
    process.join()
    assert process.exitcode is not None
    greatest = folder / "greatest"
    used = int(greatest.read_text()) * 1024 if greatest.exists() else 0
    return Ended(process.exitcode, (folder / "said").read_text(), used)


def _run(arguments: list[str], folder: Path, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["ONCHIP_CACHE"] = str(folder / "cache")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(folder / "said", os.O_WRONLY | os.O_CREAT), 2)
    sys.argv = ["onchip", *arguments]
    try:
        main()
    finally:
        (folder / "greatest").write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
