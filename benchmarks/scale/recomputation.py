"""Recomputation in training: overhead by budget, and next to Checkmate's own strategies on the same graphs.

    PYTHONPATH=benchmarks python -m scale.recomputation [--seconds 40] [--shares 0.8 0.6 0.5 0.4 0.3] [--results FILE]
    PYTHONPATH=benchmarks python -m scale.recomputation --checkmate CHECKOUT --python PYTHON [--rounded 130] [...]

The budget is a share of the bytes that the given order needs if every tensor stays. The overhead is the cycles of the
operators that run again, divided by those of one run of all. Every plan has addresses and is verified.

CHECKOUT is github.com/parasj/checkmate, PYTHON one that has cvxpy, highspy, toposort, pandas and psutil. Of each of its
plans only the order of the nodes is taken: its bytes are the least that this order needs. onchip then plans for the
least overhead in as many bytes. Linear programs are solved for networks of up to `--rounded` operators; Checkmate's
integer programs need Gurobi.
"""

from __future__ import annotations

import json
import subprocess
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import environ
from pathlib import Path
from typing import Any, Final

from scale.__main__ import planned
from scale.language import BERT, training_of
from scale.plain_vision import mobilenet_training, unet_training, vgg16_training
from scale.vision import resnet50_training
from shared.runner import Row, asked_of, options_of, report

from onchip.ir.graph import Graph

NETWORKS: Final[tuple[Callable[[], Graph], ...]] = (
    vgg16_training,
    mobilenet_training,
    unet_training,
    resnet50_training,
    lambda: training_of(BERT, 512, 4),
)
SEGMENTS: Final = (0.02, 0.05, 0.1, 0.2)
"""For Chen's greedy rule: shares of the bytes that the forward pass writes."""
SHARES: Final = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Budgets of Checkmate's linear program, as shares of the live bytes without eviction."""


def bytes_of(graph: Graph, runs: Sequence[int] | None = None) -> int:
    """Return the least bytes for operators in this order: tensors read again stay, or are recomputed.

    `runs` are positions in the graph's operators, by default each operator once. Network inputs stay from their first
    use to their last.
    """
    written: dict[str, int] = {}
    spans: dict[tuple[str, int], int] = {}
    runs = range(len(graph.operators)) if runs is None else runs
    for step, place in enumerate(runs):
        operator = graph.operators[place]
        written |= dict.fromkeys(operator.outputs, step)
        for name in (*operator.reads, *operator.outputs):
            spans[name, written.setdefault(name, step)] = step
    change = [0] * (len(runs) + 1)
    for (name, first), last in spans.items():
        change[first] += graph.tensor[name].size_bytes
        change[last + 1] -= graph.tensor[name].size_bytes
    live = most = 0
    for one in change:
        live += one
        most = max(most, live)
    return most


def cycles_of(graph: Graph, runs: Sequence[int] | None = None) -> int:
    """Return the stated cycles of the runs, by default of each operator once."""
    return sum(graph.operators[place].stated.cycles or 0 for place in runs or range(len(graph.operators)))


def least_overhead(graph: Graph, budget_bytes: int, seconds: int) -> Row:
    """Plan a network for the least recomputation; overhead and bound are shares of the cycles of one run."""
    options = ("--order", "given", "--objective", "recomputation", "--recompute", "allowed", "--sram", budget_bytes)
    row, once = planned(graph, *options, limit=seconds), cycles_of(graph)
    value = row["objective_value"]
    return row | {"overhead": None if value is None else value / once, "bound": row["lower_bound"] / once}


def curve(asked: Namespace) -> Iterator[Row]:
    """Yield the overhead of each network in each budget."""
    for graph in (make() for make in NETWORKS):
        whole = bytes_of(graph)
        for share in asked.shares:
            found = least_overhead(graph, int(whole * share), asked.seconds)
            keys = ("network", "operators", "status", "overhead", "bound", "runs_again", "seconds", "cpu_seconds")
            yield {"whole_bytes": whole, "share": share, **{key: found[key] for key in keys}}


def beside_checkmate(asked: Namespace) -> Iterator[Row]:
    """Yield a row for each plan of Checkmate's that needs fewer bytes than all tensors."""
    for graph in (make() for make in NETWORKS):
        whole, once = bytes_of(graph), cycles_of(graph)
        question = _question(graph, len(graph.operators) <= asked.rounded)
        for one in _their_plans(question, asked.checkmate, asked.python):
            needed = bytes_of(graph, one["runs"])
            if needed < whole:
                ours = least_overhead(graph, needed, asked.seconds)
                yield {
                    "network": graph.name,
                    "strategy": one["strategy"],
                    "share": needed / whole,
                    "overhead": cycles_of(graph, one["runs"]) / once - 1,
                    "seconds": round(one["seconds"], 1),
                    "our_status": ours["status"],
                    "our_overhead": ours["overhead"],
                    "our_bound": ours["bound"],
                    "our_seconds": ours["cpu_seconds"],
                }


def _question(graph: Graph, has_program: bool) -> dict[str, Any]:
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
    budgets = [int(bytes_of(graph) * share) for share in SHARES] if has_program else []
    segments = [int(forward_bytes * share) for share in SEGMENTS]
    return {"nodes": nodes, "backward": backward, "segments_bytes": segments, "budgets_bytes": budgets}


def _their_plans(question: dict[str, Any], checkout: Path, python: Path) -> list[dict[str, Any]]:
    """Return each strategy that has a plan, its order of nodes, and its CPU seconds."""
    program = Path(__file__).with_name("checkmate_strategies.py")
    # It may leave tensors out only if DEBUG_SCHEDULER_RAM is set.
    environment = {**environ, "PYTHONPATH": str(checkout), "DEBUG_SCHEDULER_RAM": "1"}
    ran = subprocess.run(
        [python, program], input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def main() -> None:
    """Print the curve, or the comparison with Checkmate."""
    parser = options_of(__doc__)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.8, 0.6, 0.5, 0.4, 0.3])
    parser.add_argument("--checkmate", type=Path, metavar="CHECKOUT")
    parser.add_argument("--python", type=Path)
    parser.add_argument("--rounded", type=int, default=130)
    asked = asked_of(parser)
    if asked.checkmate is None:
        report(asked, {"recomputation": partial(curve, asked)})
    else:
        report(asked, {"checkmate": partial(beside_checkmate, asked)})


if __name__ == "__main__":
    main()
