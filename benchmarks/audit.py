"""The proven rows of the README's tables, and what a second prover says of their bounds.

    python benchmarks/audit.py [--table NAME ...] [--seconds S] [--budget S] [--workers N] [--results FILE] [--json]

Each row is planned, and its bound handed to `onchip audit`'s prover, which shares no code with the methods. Tables
stand in the order of how easy they are; rows that find no more time in the budget are left out and counted as such.
With `--results` each row is kept as it is done, and an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import overflow
import packing
from cosma.published import HUMAN_DESIGNED, NAS
from cosma.rows import Case, budgets, graph_of, problem_at, problem_of
from cosma.sections import GENERATED_NETWORKS, HARD_GRAPHS
from generated import hard_random, nas_like
from thesis import pinning
from thesis.published import TABLE_7_1

from onchip.answer.document import Granularity
from onchip.answer.packing import PackingProblem
from onchip.answer.problem import Count, Objective, Order, Problem
from onchip.api.audit import audit
from onchip.api.budgets import CapacityBudget, roomy_problem
from onchip.api.plan import plan_problem
from onchip.audits.finding import Finding
from onchip.audits.packing import audit_arena, audit_overflow
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate.overflow import least_overflow
from onchip.memory.allocate.pack import pack
from onchip.search.budget.limits import Limits, Run

OPTIMAL = "OPTIMAL"
SECONDS_TO_PLAN = 60.0


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a row's answer claims, and who rules on it within so many seconds with so many workers."""

    status: str
    lower_bound: int
    rule: Callable[[float, int], Finding]


@dataclass(frozen=True, slots=True)
class Question:
    """A row before it is planned."""

    name: str
    plan: Callable[[], Claimed | None]


@dataclass(frozen=True, slots=True)
class Row:
    """A row, its claim and the ruling on it; `ruling` is None where nothing is proven or the budget was spent."""

    table: str
    name: str
    status: str
    lower_bound: int
    ruling: str | None
    detail: str
    plan_seconds: float
    audit_seconds: float

    @property
    def is_settled_by_zero(self) -> bool:
        """Whether the bound is 0, so that there was nothing to search."""
        return self.lower_bound == 0


def planned(problem: Problem | None, seconds: float = SECONDS_TO_PLAN) -> Claimed | None:
    """Plan; None where the budget of the row is not known."""
    if problem is None:
        return None
    result = plan_problem(problem, "exact", Limits(time_limit_seconds=seconds))
    return Claimed(
        result.status,
        result.lower_bound,
        lambda left, workers: audit(problem, result.lower_bound, seconds=left, workers=workers),
    )


def human_designed() -> Iterator[Question]:
    """Ten networks at every budget, in any order."""
    for network in HUMAN_DESIGNED:
        for granularity in Granularity:
            for count in Count:
                for budget in CapacityBudget:
                    case = Case(network, granularity, count, budget)
                    yield Question(case.words, partial(_at_a_budget, case, Order.FREE))


def _at_a_budget(case: Case, order: Order) -> Claimed | None:
    return planned(problem_of(case, order))


def nas(order: Order) -> Iterator[Question]:
    """Four networks of architecture search."""
    for network in NAS:
        for granularity in Granularity:
            for budget in CapacityBudget:
                case = Case(network, granularity, Count.ACTIVATIONS, budget)
                yield Question(f"{case.words} {order}", partial(_at_a_budget, case, order))


def peaks() -> Iterator[Question]:
    """M_P of all fourteen."""
    for network in (*HUMAN_DESIGNED, *NAS):
        for granularity in Granularity:
            yield Question(f"{network} {granularity}", partial(_peak, network, granularity))


def _peak(network: str, granularity: Granularity) -> Claimed:
    graph = graph_of(network, granularity)
    least = budgets(graph, Count.ACTIVATIONS).least_peak
    roomy = roomy_problem(graph, Count.ACTIVATIONS)
    problem = Problem(graph, roomy.memories, Objective.PEAK)
    bound = least.lower_bound
    return Claimed(least.status, bound, lambda left, workers: audit(problem, bound, seconds=left, workers=workers))


def generated_networks() -> Iterator[Question]:
    """Fifty networks of random wiring, at M_R and M_H."""
    for seed in range(GENERATED_NETWORKS):
        for budget in (CapacityBudget.M_R, CapacityBudget.M_H):
            yield Question(f"generated{seed} {budget}", partial(_generated, seed, budget))


def _generated(seed: int, budget: CapacityBudget) -> Claimed | None:
    graph, _ = nas_like(seed)
    return planned(problem_at(graph, Count.ACTIVATIONS, budget, Order.FREE))


def hard_graphs() -> Iterator[Question]:
    """Twenty hard random graphs at M_H."""
    for seed in range(HARD_GRAPHS):
        yield Question(f"hard{seed}", partial(_hard, seed))


def _hard(seed: int) -> Claimed | None:
    return planned(problem_at(hard_random(seed), Count.ACTIVATIONS, CapacityBudget.M_H, Order.FREE))


def several_scratchpads(order: Order) -> Iterator[Question]:
    """Eight networks of the thesis in three scratchpads, its tensors capped."""
    for network in TABLE_7_1:
        for size_kb in pinning.SIZES_KB:
            yield Question(f"{network} {size_kb} KB {order}", partial(_capped, network, size_kb, order))


def _capped(network: str, size_kb: int, order: Order) -> Claimed | None:
    return planned(pinning.problem_of(network, "capped", size_kb, order))


def minimalloc() -> Iterator[Question]:
    """MiniMalloc's instances: that they fit is seen; the bound on their arenas is audited."""
    for name in packing.MINIMALLOC_SECONDS:
        yield Question(name, partial(_packed, name))


def _packed(name: str) -> Claimed:
    buffers = read_buffers(packing.INSTANCES / f"{name}.{packing.CAPACITY_BYTES}.csv").buffers
    problem = PackingProblem(buffers, packing.CAPACITY_BYTES)
    result = pack(problem, Run(Limits(time_limit_seconds=SECONDS_TO_PLAN)))
    fits = OPTIMAL if result.answer is not None else str(result.status)
    return Claimed(
        fits, result.lower_bound, lambda left, workers: audit_arena(problem, result.lower_bound, left, workers)
    )


def overflowing() -> Iterator[Question]:
    """ExecuTorch's buffers of three networks in a share of what lives at once."""
    for network, live_bytes in overflow.LIVENESS_BOUND_BYTES.items():
        for share in overflow.SHARES_PERCENT:
            capacity_bytes = live_bytes * share // 100
            yield Question(f"{network} {share} %", partial(_outside, network, capacity_bytes))


def _outside(network: str, capacity_bytes: int) -> Claimed:
    buffers = read_buffers(overflow.NETWORKS / f"{network}.csv").buffers
    problem = PackingProblem(buffers, capacity_bytes, overflow.ALIGNMENT_BYTES)
    result = least_overflow(problem, Run(Limits(time_limit_seconds=SECONDS_TO_PLAN)))
    return Claimed(
        result.status,
        result.lower_bound,
        lambda left, workers: audit_overflow(problem, result.lower_bound, left, workers),
    )


TABLES: Mapping[str, Callable[[], Iterator[Question]]] = {
    "human": human_designed,
    "packing": minimalloc,
    "overflow": overflowing,
    "scratchpads-given": partial(several_scratchpads, Order.GIVEN),
    "scratchpads-free": partial(several_scratchpads, Order.FREE),
    "nas-given": partial(nas, Order.GIVEN),
    "peaks": peaks,
    "generated": generated_networks,
    "nas-free": partial(nas, Order.FREE),
    "hard": hard_graphs,
}


def row_of(table: str, question: Question, seconds: float, workers: int) -> Row | None:
    """Plan a row and, if it is proven, have its bound ruled on; None where there is no such row."""
    started = time.perf_counter()
    claimed = question.plan()
    plan_seconds = time.perf_counter() - started
    if claimed is None:
        return None
    if claimed.status != OPTIMAL:
        return Row(table, question.name, claimed.status, claimed.lower_bound, None, "not proven", plan_seconds, 0.0)
    finding = claimed.rule(seconds, workers)
    return Row(
        table,
        question.name,
        claimed.status,
        claimed.lower_bound,
        finding.ruling,
        finding.detail,
        plan_seconds,
        finding.seconds,
    )


def kept_rows(results: Path | None) -> dict[tuple[str, str], Row]:
    """Read the rows of an earlier run."""
    lines = results.read_text().splitlines() if results is not None and results.exists() else ()
    rows = (Row(**json.loads(line)) for line in lines)
    return {(row.table, row.name): row for row in rows}


def rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each question, until the budget is spent."""
    known, deadline = kept_rows(arguments.results), time.monotonic() + arguments.budget
    for table in arguments.table:
        for question in TABLES[table]():
            row: Row | None
            if (table, question.name) in known:
                row = known[table, question.name]
            elif time.monotonic() > deadline:
                row = Row(table, question.name, "UNKNOWN", 0, None, "no time left", 0.0, 0.0)
            else:
                row = row_of(table, question, arguments.seconds, arguments.workers)
                keep(row, arguments.results)
            if row is not None:
                yield row


def keep(row: Row | None, results: Path | None) -> None:
    """Add a row to the file of results."""
    if row is not None and results is not None:
        with results.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def table_of(found: list[Row]) -> str:
    """Return how many rows of each table are proven, confirmed, undecided and refuted."""
    lines = [
        "| table | rows | proven | confirmed | of these bound 0 | undecided | refuted | not reached | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for table in dict.fromkeys(row.table for row in found):
        own = [row for row in found if row.table == table]
        confirmed = [row for row in own if row.ruling == "confirmed"]
        counts = [
            len(own),
            sum(row.status == OPTIMAL for row in own),
            len(confirmed),
            sum(row.is_settled_by_zero for row in confirmed),
            sum(row.ruling == "undecided" for row in own),
            sum(row.ruling == "refuted" for row in own),
            sum(row.detail == "no time left" for row in own),
        ]
        seconds = sum(row.audit_seconds for row in own)
        lines.append(f"| {table} | {' | '.join(map(str, counts))} | {seconds:.1f} |")
    return "\n".join(lines)


def main() -> int:
    """Print the table; 1 if a proven row is refuted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", nargs="+", choices=tuple(TABLES), default=list(TABLES), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=60.0, help="for the audit of one row")
    parser.add_argument("--budget", type=float, default=600.0, help="for all rows, planning included")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--results", type=Path, help="keep rows in this file, and take those that it has from it")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    found = []
    for row in rows(arguments):
        found.append(row)
        words = f"{row.table} {row.name}: {row.status} {row.lower_bound}, {row.ruling} ({row.detail})"
        print(f"{words} {row.plan_seconds:.2f} s + {row.audit_seconds:.2f} s", file=sys.stderr, flush=True)
    print(json.dumps([asdict(row) for row in found], indent=1) if arguments.json else table_of(found))
    return int(any(row.ruling == "refuted" for row in found))


if __name__ == "__main__":
    sys.exit(main())
