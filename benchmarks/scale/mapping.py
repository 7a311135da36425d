"""Mapping of whole language models, prefill and decode: what `onchip map` proves within a time limit.

    PYTHONPATH=benchmarks python -m scale.mapping [--machines NAME ...] [--networks NAME ...] [--seconds S] [--json F]

`exact-even` proves the best even mapping of each distinct layer; `exact` looks beyond it, and its gap here is to the
bound on all mappings. Nothing is kept from one run to the next. Seconds are of the wall clock with start-up, CPU
seconds of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from scale.language_inference import GPT2_SMALL, LLAMA3_8B, LLAMA_7B, MIXTRAL_8X7B, decode, prefill
from shared.results import write_results

from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph

TOKENS: Final = 512
CONTEXT: Final = 2048
NETWORKS: Final[tuple[Callable[[], Graph], ...]] = (
    lambda: prefill(LLAMA_7B, TOKENS),
    lambda: decode(LLAMA_7B, CONTEXT),
    lambda: decode(LLAMA_7B, CONTEXT, batch=8),
    lambda: prefill(LLAMA3_8B, TOKENS),
    lambda: decode(LLAMA3_8B, CONTEXT),
    lambda: prefill(GPT2_SMALL, TOKENS),
    lambda: decode(GPT2_SMALL, CONTEXT),
    lambda: prefill(MIXTRAL_8X7B, TOKENS),
    lambda: decode(MIXTRAL_8X7B, CONTEXT),
    lambda: prefill(MIXTRAL_8X7B, TOKENS, seed=0),
)
MACHINES: Final = ("simba", "meta-prototype-df")
OBJECTIVES: Final = ("energy", "latency")
METHODS: Final = ("exact-even", "exact")


@dataclass(frozen=True, slots=True)
class MappingRow:
    """One command. Of the `distinct` layers `proven` are OPTIMAL of the space of their bounds.

    `gap` is that of the bounds that the method claims, summed over all layers. `gap_of_any` is the same for bounds of
    mappings without bypass, which `exact` alone has. Both are None where some layer has no mapping.
    """

    network: str
    machine: str
    objective: str
    method: str
    operators: int
    layers: int
    distinct: int
    proven: int
    objective_value: int | None
    gap: float | None
    gap_of_any: float | None
    seconds: float
    cpu_seconds: float


def rows(machines: list[str], networks: list[str], seconds: int) -> Iterator[MappingRow]:
    """Yield a row for each network, machine, objective and method, when it is measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.json"
        for make in NETWORKS:
            graph = make()
            if networks and graph.name not in networks:
                continue
            write_graph(graph, path)
            for machine in machines:
                for objective in OBJECTIVES:
                    for method in METHODS:
                        yield _row(graph, path, machine, objective, method, seconds)


def _row(graph: Graph, path: Path, machine: str, objective: str, method: str, seconds: int) -> MappingRow:
    asked = ["--bits", "8", "--accelerator", machine, "--objective", objective, "--method", method]
    limits = ["--time-limit", str(seconds), "--workers", "2", "--no-cache", "--json"]
    began, used = time.perf_counter(), os.times()
    done = subprocess.run([sys.executable, "-m", "onchip", "map", str(path), *asked, *limits], stdout=subprocess.PIPE)
    took, now = time.perf_counter() - began, os.times()
    said = json.loads(done.stdout)
    distinct = [layer for layer in said["layers"] if layer["same_as"] is None]
    totals = said["totals"]
    return MappingRow(
        graph.name,
        machine,
        objective,
        method,
        len(graph.operators),
        totals["layers"],
        totals["distinct"],
        sum(layer["status"] == "OPTIMAL" for layer in distinct),
        totals["objective_value"],
        _gap(said["layers"], "lower_bound"),
        _gap(said["layers"], "lower_bound") if method == "exact" else None,
        round(took, 1),
        round(now.children_user + now.children_system - used.children_user - used.children_system, 1),
    )


def _gap(layers: list[dict[str, Any]], bound: str) -> float | None:
    if any(layer[key] is None for layer in layers for key in ("objective_value", bound)):
        return None
    value, least = (int(sum(layer[key] * layer["times"] for layer in layers)) for key in ("objective_value", bound))
    return 1 - least / value


def main() -> None:
    """Print the rows; with --json keep them in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", nargs="+", default=list(MACHINES))
    parser.add_argument("--networks", nargs="+", default=[])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    for row in rows(given.machines, given.networks, given.seconds):
        print(" ".join(f"{name} {value}" for name, value in asdict(row).items()), flush=True)
        found.append(asdict(row))
    if given.json:
        write_results(given.json, found)


if __name__ == "__main__":
    main()
