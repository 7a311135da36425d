"""Orders at scale, given and free: whole commands on generated networks, and what each phase takes as networks grow.

    PYTHONPATH=benchmarks python -m scale [--section plans free phases] [--json FILE]

Capacities are M_R. Plans are verified by the command that makes them; seconds are of the wall clock, with start-up.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from scale.diffusion import DEEP_UNET, LARGE_UNET, diffusion_unet
from scale.language import BERT, GPT2, GPT2_HEADS_APART, training_of
from scale.nas import nas_cells
from scale.phases import PhaseRow, phases_of
from scale.planned_run import planned
from scale.random_graphs import layered, windowed
from scale.vision import resnet50_training
from shared.results import write_results

from onchip.ir.graph import Graph

NETWORKS: Final[tuple[tuple[Callable[[], Graph], int], ...]] = (
    (resnet50_training, 10),
    (lambda: training_of(GPT2), 10),
    (lambda: training_of(GPT2_HEADS_APART), 10),
    (lambda: training_of(BERT, 512, 4), 10),
    (lambda: windowed(1_000), 30),
    (lambda: layered(100, 10), 30),
    (lambda: windowed(10_000), 60),
    (lambda: windowed(100_000), 60),
)
"""Networks, each with its time limit in seconds."""
IN_ANY_ORDER: Final[tuple[tuple[Callable[[], Graph], int], ...]] = (
    (resnet50_training, 60),
    (lambda: training_of(GPT2), 60),
    (lambda: training_of(BERT, 512, 4), 60),
    (diffusion_unet, 60),
    (lambda: diffusion_unet(LARGE_UNET), 60),
    (lambda: diffusion_unet(DEEP_UNET), 60),
    (lambda: nas_cells(40), 60),
    (lambda: windowed(1_000), 60),
    (lambda: layered(100, 10), 60),
)
SECTIONS: Final = ("plans", "free", "phases")
SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000)


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One command on one network; `gap` is None without a plan."""

    network: str
    operators: int
    status: str
    objective_value: int | None
    lower_bound: int
    gap: float | None
    time_limit_seconds: int
    seconds: float
    cpu_seconds: float
    peak_mib: int


def plans(folder: Path, order: str, workers: int) -> Iterator[PlanRow]:
    """Plan each network in its given order, or in any (`free`)."""
    options = ("--order", order, "--sram", "m_r", "--workers", str(workers))
    for make, limit in NETWORKS if order == "given" else IN_ANY_ORDER:
        graph = make()
        run = planned(graph, (*options, "--time-limit", str(limit)), folder)
        yield PlanRow(
            graph.name,
            len(graph.operators),
            run.said["status"],
            run.said["objective_value"],
            run.said["lower_bound"],
            run.said["gap"],
            limit,
            run.seconds,
            run.processor_seconds,
            run.peak_mib,
        )


def _show(row: PlanRow | PhaseRow) -> None:
    print(" ".join(f"{name} {value}" for name, value in asdict(row).items()), flush=True)


def main() -> None:
    """Print the rows of the sections; with --json keep them in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: dict[str, list[object]] = {}
    with tempfile.TemporaryDirectory() as name:
        for section in given.section:
            if section == "phases":
                found: Iterator[PlanRow | PhaseRow] = map(phases_of, map(windowed, SIZES))
            else:
                found = plans(Path(name), "given" if section == "plans" else "free", given.workers)
            for row in found:
                _show(row)
                rows.setdefault(section, []).append(asdict(row))
    if given.json:
        write_results(given.json, rows)


if __name__ == "__main__":
    main()
