"""Fusion through whole networks: value, bound for the tiles of the list, gap to it and time of `onchip fuse` by energy.

    PYTHONPATH=benchmarks python -m scale.fusion [--machines NAME ...] [--networks NAME ...] [--seconds 40]
                                               [--processor]

Nothing is kept from one run to the next. Seconds are of the wall clock with start-up, CPU seconds of all processes.
With `--processor` the limit counts seconds of the processor, of one process, so that what else the machine does changes
less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scale.convolutions import chain, detector, u_net

from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph

BUNDLED: Final = ("fsrcnn", "dmcnn-vd", "mobilenetv1", "resnet18", "resnet50")
MACHINES: Final = ("meta-prototype-df", "edge-tpu-like-df", "tpu-like-df")
GENERATED: Final[dict[str, Graph]] = {graph.name: graph for graph in (chain(50), chain(100), u_net(), detector())}


OF_PROCESSOR: Final = """
import time
time.perf_counter = time.process_time
from onchip.__main__ import main
main()
"""


def rows(machines: list[str], networks: list[str], seconds: int, *, of_processor: bool) -> Iterator[str]:
    """Yield a row for each machine and network, when it is measured."""
    with tempfile.TemporaryDirectory() as folder:
        for machine in machines:
            for network in networks:
                source = network
                if network in GENERATED:
                    path = Path(folder) / f"{network}.json"
                    write_graph(GENERATED[network], path)
                    source = str(path)
                yield _row(machine, network, source, seconds, of_processor)


def _row(machine: str, network: str, source: str, seconds: int, of_processor: bool) -> str:
    limit = ["--time-limit", str(seconds), "--workers", "1" if of_processor else "2", "--no-cache", "--json"]
    began, used = time.perf_counter(), os.times()
    program = ["-c", OF_PROCESSOR] if of_processor else ["-m", "onchip"]
    command = [sys.executable, *program, "fuse", source, "--bits", "8", "--accelerator", machine, *limit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took, now = time.perf_counter() - began, os.times()
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    answer = json.loads(done.stdout)
    if answer.get("objective_value") is None:
        return f"| {machine} | {network} | {answer.get('status', answer)} | | | | {took:.1f} | {cpu:.1f} |"
    value, bound = (answer[key] / 1e12 for key in ("objective_value", "bound_among"))
    status = "proven" if answer["optimal_among"] else f"{answer['gap_among']:.1%}"
    stacks = len(answer["stacks"])
    return f"| {machine} | {network} | {value:.4f} | {bound:.4f} | {status} | {stacks} | {took:.1f} | {cpu:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", nargs="+", default=list(MACHINES))
    parser.add_argument("--networks", nargs="+", default=[*BUNDLED, *GENERATED])
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--processor", action="store_true", help="count seconds of the processor")
    asked = parser.parse_args()
    print("| machine | network | mJ | bound | gap | stacks | seconds | CPU s |\n|---|---|---|---|---|---|---|---|")
    for row in rows(asked.machines, asked.networks, asked.seconds, of_processor=asked.processor):
        print(row, flush=True)


if __name__ == "__main__":
    main()
