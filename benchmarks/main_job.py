"""The main job on real networks: its requirements, and its results on this machine.

    python benchmarks/main_job.py [--json] [--only NAME ...]

Nine light models of the onnx package, `--bits 8`, at M_R, M_H and M_P, fused and raw, free and given order.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Order, Problem
from onchip.api.budgets import CapacityBudget, budgets_of, roomy_problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.search.budget.limits import Limits

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from light_model import light_models

MODELS = (
    "resnet50",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "squeezenet",
    "shufflenet",
    "vgg19",
    "bvlc_alexnet",
    "zfnet512",
)
SECONDS_ALLOWED = {Order.FREE: 1.0, Order.GIVEN: 0.2}
HELP_SECONDS_ALLOWED = 0.3
PROCESS_SECONDS_ALLOWED = 4.0
PROCESS_BYTES_ALLOWED = 2**30
TIME_LIMIT_SECONDS = 60.0
RUNS = 7


@dataclass(frozen=True, slots=True)
class Row:
    """One planned problem. `seconds` is the time of the solver alone, `must` its limit."""

    network: str
    granularity: str
    operators: int
    budget: str
    capacity_bytes: int
    order: str
    status: str
    objective_bytes: int | None
    bound_bytes: int
    seconds: float
    must: float

    @property
    def is_met(self) -> bool:
        """Proven, in the time allowed."""
        return self.status == "OPTIMAL" and self.seconds <= self.must


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Whole processes, as a user meets them."""

    help_seconds: float
    plan_seconds: float
    plan_peak_bytes: int

    @property
    def is_met(self) -> bool:
        """Return True if time and memory are within their limits."""
        return (
            self.help_seconds <= HELP_SECONDS_ALLOWED
            and self.plan_seconds <= PROCESS_SECONDS_ALLOWED
            and self.plan_peak_bytes <= PROCESS_BYTES_ALLOWED
        )


def rows_of(name: str, path: Path) -> Iterator[Row]:
    """Plan one model in all ways."""
    limits = Limits(time_limit_seconds=TIME_LIMIT_SECONDS)
    for granularity in Granularity:
        graph = read_network(str(path), Reading(bits=8, granularity=granularity))
        roomy = roomy_problem(graph, Reading().count)
        budgets = budgets_of(roomy, limits)
        for budget in CapacityBudget:
            capacity_bytes = budgets.capacity_bytes(budget)
            if capacity_bytes is None:
                sys.exit(f"{name}: {budgets.min_peak_in_words}")
            for order, seconds_allowed in SECONDS_ALLOWED.items():
                problem = Problem(graph, (Memory("sram", capacity_bytes),), order=order)
                result = plan_problem(problem, limits=limits)
                yield Row(
                    name,
                    granularity,
                    len(graph.operators),
                    budget,
                    capacity_bytes,
                    order,
                    result.status,
                    result.objective_value,
                    result.lower_bound,
                    result.seconds,
                    seconds_allowed,
                )


def process_figures() -> ProcessFigures:
    """Time `onchip --help` and a plan of ResNet-50 from the outside."""
    program = [sys.executable, "-m", "onchip"]
    plan = [*program, "plan", str(light_models()["resnet50"]), "--bits", "8", "--sram", "m_r", "--json"]
    help_seconds = statistics.median(_run(*program, "--help")[0] for _ in range(RUNS))
    plan_runs = [_run(*plan) for _ in range(RUNS)]
    return ProcessFigures(
        help_seconds, statistics.median(seconds for seconds, _ in plan_runs), max(peak for _, peak in plan_runs)
    )


LAUNCHER = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - started
print(json.dumps([ended.returncode, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))
"""


def _run(*command: str) -> tuple[float, int]:
    """Return seconds and peak memory in bytes of one process; a small one starts it, for its memory counts as well."""
    launched = subprocess.run([sys.executable, "-c", LAUNCHER, *command], stdout=subprocess.PIPE, check=True)
    code, seconds, peak_bytes = json.loads(launched.stdout)
    if code != 0:
        sys.exit(f"{' '.join(command)} ended with {code}")
    return seconds, peak_bytes


def print_row(row: Row) -> None:
    """Print one line of the table."""
    objective = "-" if row.objective_bytes is None else f"{row.objective_bytes:,}"
    print(
        f"{row.network:13} {row.granularity:6} {row.operators:4} {row.budget:4} {row.capacity_bytes:11,} {row.order:6}"
        f" {row.status:9} {objective:>11} {row.bound_bytes:11,} {row.seconds:7.3f}  {'' if row.is_met else 'NOT MET'}",
        flush=True,
    )


def print_summary(rows: list[Row], figures: ProcessFigures) -> None:
    """Print the slowest of each order, and the processes."""
    print()
    for order, seconds_allowed in SECONDS_ALLOWED.items():
        of_order = [row for row in rows if row.order == order]
        proven = sum(row.status == "OPTIMAL" for row in of_order)
        slowest = max(row.seconds for row in of_order)
        print(
            f"{order} order: {proven} of {len(of_order)} OPTIMAL, slowest {slowest:.3f} s (allowed {seconds_allowed})"
        )
    print(f"onchip --help: {figures.help_seconds:.2f} s (allowed {HELP_SECONDS_ALLOWED})")
    print(
        f"onchip plan resnet50, whole process: {figures.plan_seconds:.2f} s (allowed {PROCESS_SECONDS_ALLOWED:g}), "
        f"{figures.plan_peak_bytes / 2**20:.0f} MiB (allowed {PROCESS_BYTES_ALLOWED / 2**20:.0f})"
    )


def main() -> None:
    """Run, print, and end with 1 if something is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS, metavar="NAME", help="these models")
    arguments = parser.parse_args()
    paths = light_models()
    rows = []
    if not arguments.json:
        print("network       grain   ops  at      capacity order  status      objective       bound seconds")
    for name in arguments.only:
        for row in rows_of(name, paths[name]):
            rows.append(row)
            if not arguments.json:
                print_row(row)
    figures = process_figures()
    if arguments.json:
        print(json.dumps({"plans": [asdict(row) for row in rows], "processes": asdict(figures)}, indent=2))
    else:
        print_summary(rows, figures)
    sys.exit(0 if figures.is_met and all(row.is_met for row in rows) else 1)


if __name__ == "__main__":
    main()
