"""Packing: MiniMalloc's eleven instances, and the byte-optimal schedules of the NAS networks.

    python benchmarks/packing.py [--json] [--only instances|networks]

One thread. An instance is to be packed at its capacity; a schedule (given order, at M_R, M_H and M_P) is to be packed
or proven unpackable, with the stretch of steps that does not pack.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from onchip.answer.document import Granularity, Reading
from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.problem import Order, Problem
from onchip.api.budgets import CapacityBudget, budgets_of, roomy_problem
from onchip.api.networks import read_network
from onchip.arch.memory import Memory
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate.exact import Attempt, Knowledge
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.decisions import schedule_of_moves
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing

INSTANCES = Path(__file__).parent.parent / "tests" / "data" / "minimalloc"
CAPACITY_BYTES = 1048576
NETWORKS = ("pnasnet5large", "nasnetalarge", "amoebanetd_18_256", "darts_v2")
SECONDS_ALLOWED = 30.0
SECONDS_ALLOWED_PER_SCHEDULE = 0.3
TIME_LIMIT_SECONDS = 60.0
# One thread of a machine of this kind: github.com/google/minimalloc at 9f5cf81.
MINIMALLOC_SECONDS = {
    "A": 3.86, "B": 2.80, "C": 0.55, "D": 1.89, "E": 2.72, "F": 4.30, "G": 0.89, "H": 1.27, "I": 2.54, "J": 0.71,
    "K": 0.49,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One packing. `unpackable_steps` is the stretch, half open, that is proven not to pack."""

    name: str
    buffers: int
    capacity_bytes: int
    finding: str
    seconds: float
    peer_seconds: float | None = None
    unpackable_steps: tuple[int, int] | None = None


def row_of(name: str, problem: PackingProblem, peer_seconds: float | None = None) -> Row:
    """Pack, verify, and time it."""
    started = time.perf_counter()
    attempt = Attempt(problem, Run(Limits(time_limit_seconds=TIME_LIMIT_SECONDS)))
    finding = attempt.go_on(float("inf"))
    seconds = time.perf_counter() - started
    if attempt.offsets_bytes is not None and (violations := verify_packing(problem, Packing(attempt.offsets_bytes))):
        sys.exit(f"{name}: {violations[0]}")
    stretch = None if attempt.stretch is None else (attempt.stretch.start, attempt.stretch.stop)
    return Row(name, len(problem.buffers), problem.capacity_bytes, finding.value, seconds, peer_seconds, stretch)


def instance_rows() -> Iterator[Row]:
    """Pack MiniMalloc's instances."""
    for name, peer_seconds in MINIMALLOC_SECONDS.items():
        buffers = read_buffers(INSTANCES / f"{name}.{CAPACITY_BYTES}.csv").buffers
        yield row_of(name, PackingProblem(buffers, CAPACITY_BYTES), peer_seconds)


def schedule_rows() -> Iterator[Row]:
    """Pack what the search for least traffic leaves resident, at the given order."""
    for name in NETWORKS:
        for granularity in Granularity:
            graph = read_network(name, Reading(bits=8, granularity=granularity))
            roomy = roomy_problem(graph, Reading().count)
            budgets = budgets_of(roomy, Limits(time_limit_seconds=TIME_LIMIT_SECONDS))
            for budget in CapacityBudget:
                capacity_bytes = budgets.capacity_bytes(budget)
                if capacity_bytes is None:
                    sys.exit(f"{name}: {budgets.min_peak_in_words}")
                problem = Problem(graph, (Memory("sram", capacity_bytes),), order=Order.GIVEN)
                indexed = IndexedProblem.of(problem)
                outcome = BestFirstSearch(indexed, Run()).solve()
                if outcome.moves is None:
                    sys.exit(f"{name}: {outcome.stop}")
                schedule = schedule_of_moves(indexed, outcome.moves)
                yield row_of(f"{name} {granularity} {budget}", packing_problem(indexed, schedule))


def print_row(row: Row) -> None:
    """Print one line of the table."""
    peer = "" if row.peer_seconds is None else f"{row.peer_seconds:8.2f}"
    steps = "" if row.unpackable_steps is None else f"  steps [{row.unpackable_steps[0]}, {row.unpackable_steps[1]})"
    print(
        f"{row.name:30} {row.buffers:7} {row.capacity_bytes:10,} {row.finding:10} {row.seconds:8.3f}{peer}{steps}",
        flush=True,
    )


def warm_up() -> None:
    """Load the search."""
    row_of("A", PackingProblem(read_buffers(INSTANCES / f"A.{CAPACITY_BYTES}.csv").buffers, CAPACITY_BYTES))


def main() -> None:
    """Run, print, and end with 1 if something is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--only", choices=("instances", "networks"), help="one half")
    arguments = parser.parse_args()
    warm_up()
    if not arguments.json:
        print(f"{'':30} buffers   capacity finding     seconds  MiniMalloc's")
    tables = {"instances": instance_rows, "networks": schedule_rows}
    rows: dict[str, list[Row]] = {"instances": [], "networks": []}
    for name, table in tables.items():
        for row in table() if arguments.only in (None, name) else ():
            rows[name].append(row)
            if not arguments.json:
                print_row(row)
    seconds = sum(row.seconds for row in rows["instances"])
    is_met = seconds <= SECONDS_ALLOWED and all(row.finding == Knowledge.PACKED.value for row in rows["instances"])
    is_met &= all(row.finding != Knowledge.OPEN.value for row in rows["networks"])
    is_met &= all(row.seconds <= SECONDS_ALLOWED_PER_SCHEDULE for row in rows["networks"])
    if arguments.json:
        print(json.dumps({name: [asdict(row) for row in table] for name, table in rows.items()}, indent=2))
    else:
        print(f"instances: {seconds:.2f} s in all (allowed {SECONDS_ALLOWED:g}; MiniMalloc 22)")
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
