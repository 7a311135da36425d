"""Budget against overhead for five training networks: `plan --recompute allowed --objective recomputation`.

    PYTHONPATH=benchmarks python -m scale.recomputation [--seconds 40] [--shares 0.8 0.6 0.5 0.4 0.3] [--json FILE]

The budget is a share of what the given order needs where everything stays, without spills; the overhead is the cycles
of what runs again, by those of one run of everything. Every plan has addresses and is verified by the command that
makes it; seconds are of the wall clock, with start-up, CPU seconds are user and system time.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from scale.language import BERT, training_of
from scale.plain_vision import mobilenet_training, unet_training, vgg16_training
from scale.planned_run import planned
from scale.vision import resnet50_training
from shared.results import write_results

from onchip.ir.graph import Graph

NETWORKS: Final[tuple[Callable[[], Graph], ...]] = (
    vgg16_training,
    mobilenet_training,
    unet_training,
    resnet50_training,
    lambda: training_of(BERT, 512, 4),
)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One network with one budget; overheads are shares of the cycles of one run, None without a plan."""

    network: str
    operators: int
    whole_bytes: int
    share: float
    budget_bytes: int
    status: str
    overhead: float | None
    bound: float
    runs_again: int | None
    seconds: float
    cpu_seconds: float


def bytes_if_all_stays(graph: Graph) -> int:
    """Return the peak of the given order where every tensor stays from its first use to its last."""
    return bytes_of(graph, range(len(graph.operators)))


def bytes_of(graph: Graph, runs: Sequence[int]) -> int:
    """Return the least bytes for operators in this order: tensors read again stay, or are recomputed.

    `runs` are positions in the graph's operators. Network inputs stay from their first use to their last.
    """
    written: dict[str, int] = {}
    spans: dict[tuple[str, int], int] = {}
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


def curve(graph: Graph, shares: list[float], seconds: int, folder: Path) -> Iterator[CurvePoint]:
    """Plan a network in each budget."""
    whole = bytes_if_all_stays(graph)
    once = sum(operator.stated.cycles or 0 for operator in graph.operators)
    for share in shares:
        budget = int(whole * share)
        options = ("--order", "given", "--objective", "recomputation", "--recompute", "allowed", "--sram", str(budget))
        run = planned(graph, (*options, "--time-limit", str(seconds)), folder)
        said, value = run.said, run.said["objective_value"]
        yield CurvePoint(
            graph.name,
            len(graph.operators),
            whole,
            share,
            budget,
            said["status"],
            None if value is None else value / once,
            said["lower_bound"] / once,
            None if value is None else said["recomputation"]["runs_again"],
            run.seconds,
            run.processor_seconds,
        )


def line(point: CurvePoint) -> str:
    """Return a row of the table."""
    overhead = "-" if point.overhead is None else f"{point.overhead:.2%}"
    cells = (
        f"{point.network} ({point.operators})",
        f"{point.share:.0%}, {point.budget_bytes / 2**20:,.0f} MiB",
        overhead,
        f"{point.bound:.2%}",
        point.status,
        "-" if point.runs_again is None else str(point.runs_again),
        f"{point.seconds}",
        f"{point.cpu_seconds}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table; with --json keep its rows in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.8, 0.6, 0.5, 0.4, 0.3])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print("| network (operators) | budget | overhead | bound | status | runs again | seconds | CPU s |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    rows: list[object] = []
    with tempfile.TemporaryDirectory() as folder:
        for make in NETWORKS:
            for point in curve(make(), given.shares, given.seconds, Path(folder)):
                print(line(point), flush=True)
                rows.append(asdict(point))
    if given.json:
        write_results(given.json, {"recomputation": rows})


if __name__ == "__main__":
    main()
