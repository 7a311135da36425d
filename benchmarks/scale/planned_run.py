"""One run of `onchip plan` as a separate program: its answer and its resources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph


@dataclass(frozen=True)
class PlannedRun:
    """The answer as `--json` prints it, the seconds gone by, those of the processor, and the most memory."""

    said: Mapping[str, Any]
    seconds: float
    processor_seconds: float
    peak_mib: int


def planned(graph: Graph, options: tuple[str, ...], folder: Path) -> PlannedRun:
    """Plan a network with such options, in a folder for its files; the plan is written, too."""
    write_graph(graph, folder / "network.json")
    command = (sys.executable, "-m", "onchip", "plan", "network.json", *options, "--json", "-o", "plan.json")
    started = time.perf_counter()
    with (folder / "answer.json").open("w") as answer:
        process = subprocess.Popen(command, cwd=folder, stdout=answer)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return PlannedRun(
        json.loads((folder / "answer.json").read_text()),
        round(time.perf_counter() - started, 1),
        round(used.ru_utime + used.ru_stime, 1),
        used.ru_maxrss // 1024,
    )
