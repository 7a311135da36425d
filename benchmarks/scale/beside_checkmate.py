"""Recomputation beside Checkmate's own strategies, on the same graphs: each of its plans in bytes, and ours in as many.

    PYTHONPATH=benchmarks python -m scale.beside_checkmate CHECKOUT --python PYTHON [--rounded 130] [--json FILE]

CHECKOUT is github.com/parasj/checkmate, PYTHON one that has cvxpy, highspy, toposort, pandas and psutil. Of each
strategy's plan only the order in which nodes run is taken: its bytes are the least that this order needs, its overhead
the cycles of what runs again by those of one run of everything. Then `onchip plan --recompute allowed` is asked for the
least overhead in so many bytes. Linear programs are solved for networks of up to `--rounded` operators; Checkmate's
integer programs need Gurobi.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scale.planned_run import planned
from scale.recomputation import NETWORKS, bytes_if_all_stays, bytes_of
from shared.results import write_results

from onchip.ir.graph import Graph

SEGMENTS = (0.02, 0.05, 0.1, 0.2)
"""For Chen's greedy rule: shares of what the forward pass writes."""
SHARES = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Budgets of the linear program, as shares of the live bytes without eviction."""


@dataclass(frozen=True, slots=True)
class PeerRow:
    """A plan of Checkmate's, and ours in as many bytes; overheads are shares of the cycles of one run."""

    network: str
    operators: int
    strategy: str
    share: float
    bytes: int
    overhead: float
    seconds: float
    our_status: str
    our_overhead: float | None
    our_bound: float
    our_seconds: float


def question_of(graph: Graph, has_program: bool) -> dict[str, Any]:
    """Return the input of checkmate_strategies.py."""
    place_of = {name: place for place, operator in enumerate(graph.operators) for name in operator.outputs}
    nodes: list[dict[str, Any]] = [
        {
            "bytes": sum(graph.tensor[name].size_bytes for name in operator.outputs),
            "cycles": operator.stated.cycles or 0,
            "reads": sorted({place_of[name] for name in operator.reads if name in place_of}),
        }
        for operator in graph.operators
    ]
    backward = next(place for place, operator in enumerate(graph.operators) if operator.kind == "LossGradient")
    forward_bytes = sum(node["bytes"] for node in nodes[:backward])
    budgets = [int(bytes_if_all_stays(graph) * share) for share in SHARES] if has_program else []
    segments = [int(forward_bytes * share) for share in SEGMENTS]
    return {"nodes": nodes, "backward": backward, "segments_bytes": segments, "budgets_bytes": budgets}


def their_plans(question: dict[str, Any], checkout: Path, python: Path) -> list[dict[str, Any]]:
    """Return each strategy that has a plan, its order of nodes, and its CPU seconds."""
    program = Path(__file__).with_name("checkmate_strategies.py")
    # It may leave tensors out only if this is set.
    environment = {**os.environ, "PYTHONPATH": str(checkout), "DEBUG_SCHEDULER_RAM": "1"}
    asked = json.dumps(question)
    ran = subprocess.run([python, program], input=asked, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def rows(graph: Graph, asked: argparse.Namespace, folder: Path) -> Iterator[PeerRow]:
    """Yield a row for each plan of Checkmate's that needs fewer bytes than that everything stays."""
    whole = bytes_if_all_stays(graph)
    once = sum(operator.stated.cycles or 0 for operator in graph.operators)
    question = question_of(graph, len(graph.operators) <= asked.rounded)
    for one in their_plans(question, asked.checkout, asked.python):
        needed = bytes_of(graph, one["runs"])
        if needed >= whole:
            continue
        options = ("--order", "given", "--objective", "recomputation", "--recompute", "allowed", "--sram", str(needed))
        run = planned(graph, (*options, "--time-limit", str(asked.seconds)), folder)
        value = run.said["objective_value"]
        yield PeerRow(
            graph.name,
            len(graph.operators),
            one["strategy"],
            needed / whole,
            needed,
            sum(graph.operators[place].stated.cycles or 0 for place in one["runs"]) / once - 1,
            round(one["seconds"], 1),
            run.said["status"],
            None if value is None else value / once,
            run.said["lower_bound"] / once,
            run.processor_seconds,
        )


def line(row: PeerRow) -> str:
    """Return a row of the table."""
    ours = "-" if row.our_overhead is None else f"{row.our_overhead:.2%}"
    theirs = f"{row.strategy} | {row.share:.1%} | {row.overhead:.2%} | {row.seconds}"
    return f"| {row.network} | {theirs} | {ours} | {row.our_bound:.2%} | {row.our_status} | {row.our_seconds} |"


def main() -> None:
    """Print the table; with --json keep its rows in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--rounded", type=int, default=130)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    print("| network | strategy | bytes | overhead | CPU s | ours | bound | status | CPU s |", flush=True)
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    found: list[object] = []
    with tempfile.TemporaryDirectory() as folder:
        for make in NETWORKS:
            for row in rows(make(), asked, Path(folder)):
                print(line(row), flush=True)
                found.append(asdict(row))
    if asked.json:
        write_results(asked.json, {"checkmate": found})


if __name__ == "__main__":
    main()
