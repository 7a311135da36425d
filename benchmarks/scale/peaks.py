"""M_P at scale, and the arena that attains it: `plan --objective peak` on generated networks.

    PYTHONPATH=benchmarks python -m scale.peaks [--seconds 60]

Every plan is verified by the command that makes it; seconds are of the wall clock, with start-up.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scale.language import BERT, GPT2, GPT2_HEADS_APART, training_of
from scale.planned_run import planned
from scale.random_graphs import layered, windowed
from scale.vision import resnet50_training

from onchip.ir.graph import Graph

NETWORKS: Final[tuple[Callable[[], Graph], ...]] = (
    resnet50_training,
    lambda: training_of(GPT2),
    lambda: training_of(GPT2_HEADS_APART),
    lambda: training_of(BERT, 512, 4),
    lambda: windowed(1_000),
    lambda: windowed(10_000),
    lambda: windowed(10_000, 1),
    lambda: layered(100, 10),
    lambda: layered(100, 10, 1),
    lambda: layered(1_000, 10),
    lambda: layered(1_000, 10, 1),
    lambda: windowed(100_000),
)
ROOM: Final = "64GiB"


def row(graph: Graph, seconds: int, folder: Path) -> str:
    """Plan one network and say what came of it."""
    run = planned(graph, ("--objective", "peak", "--sram", ROOM, "--time-limit", str(seconds)), folder)
    said = run.said
    cells = (
        graph.name,
        f"{len(graph.operators):,}",
        f"{said['lower_bound']:,}",
        f"{said['peak_bytes']:,}",
        f"{said['objective_value']:,}",
        said["status"],
        f"{run.seconds:.1f}",
        f"{run.processor_seconds:.1f}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args().seconds
    print("| network | operators | bound | peak | arena | status | seconds | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for make in NETWORKS:
            print(row(make(), seconds, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
