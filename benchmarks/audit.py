"""The proven rows of the README's tables, and the second prover's rulings on their bounds.

    python benchmarks/audit.py [--table NAME ...] [--seconds S] [--budget S] [--workers N] [--rows FILE.jsonl]

Each row is planned, and its bound is handed to `onchip audit`'s prover, which shares no code with the methods. Easy
tables come first; rows beyond the budget are counted as not reached. With `--rows`, each row is kept as soon as it is
done, and an interrupted run continues where it stopped.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import overflow
import packing
from cosma.__main__ import GENERATED_NETWORKS, HARD_GRAPHS, Asked
from cosma.published import HUMAN_DESIGNED, NAS
from cosma.rows import Case, budgets, graph_of, problem_at
from generated import hard_random, nas_like
from shared.runner import Row, asked_of, kept, options_of, report
from thesis import pinning
from thesis.published import TABLE_7_1

from onchip.answer.document import Granularity
from onchip.answer.packing import PackingProblem
from onchip.answer.problem import Count, Objective, Order, Problem
from onchip.api.audit import audit
from onchip.api.plan import plan_problem
from onchip.api.target import CapacityBudget, roomy_problem
from onchip.audits.finding import Finding
from onchip.audits.packing import audit_arena, audit_overflow
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate.pack import pack
from onchip.memory.allocate.pools import least_overflow
from onchip.search.budget.limits import Limits, Run

OPTIMAL = "OPTIMAL"
LIMITS = Limits(time_limit_seconds=60.0)


class Claimed(NamedTuple):
    """The claim of an answer, and the function that rules on it within the given seconds and workers."""

    status: str
    lower_bound: int
    rule: Callable[[float, int], Finding]


def planned(problem: Problem) -> Claimed:
    """Plan a problem."""
    result = plan_problem(problem, "exact", LIMITS)
    return Claimed(result.status, result.lower_bound, partial(_audited, problem, result.lower_bound))


def _audited(problem: Problem, bound: int, seconds: float, workers: int) -> Finding:
    return audit(problem, bound, seconds=seconds, workers=workers)


Questions = Iterator[tuple[str, Callable[[], Claimed]]]
"""Names of rows, and the functions that plan them."""


def human_designed() -> Questions:
    """Ten networks at every budget, in any order."""
    for case in Asked().cases(HUMAN_DESIGNED, tuple(Count)):
        yield case.words, partial(_at_a_budget, case, Order.FREE)


def nas(order: Order) -> Questions:
    """Four networks of architecture search."""
    for case in Asked().cases(NAS):
        yield f"{case.words} {order}", partial(_at_a_budget, case, order)


def _at_a_budget(case: Case, order: Order) -> Claimed:
    return planned(case.problem(order))


def peaks() -> Questions:
    """M_P of all fourteen."""
    for network in (*HUMAN_DESIGNED, *NAS):
        for granularity in Granularity:
            yield f"{network} {granularity}", partial(_peak, network, granularity)


def _peak(network: str, granularity: Granularity) -> Claimed:
    graph = graph_of(network, granularity)
    least = budgets(graph, Count.ACTIVATIONS).least_peak
    problem = Problem(graph, roomy_problem(graph, Count.ACTIVATIONS).memories, Objective.PEAK)
    return Claimed(least.status, least.lower_bound, partial(_audited, problem, least.lower_bound))


def generated() -> Questions:
    """Fifty networks of random wiring, at M_R and M_H, and twenty hard random graphs at M_H."""
    graphs = [(nas_like(seed)[0], budget) for seed in range(GENERATED_NETWORKS) for budget in ("m_r", "m_h")]
    graphs += [(hard_random(seed), "m_h") for seed in range(HARD_GRAPHS)]
    for graph, budget in graphs:
        problem = problem_at(graph, Count.ACTIVATIONS, CapacityBudget(budget), Order.FREE)
        if problem is not None:
            yield f"{graph.name} {budget}", partial(planned, problem)


def several_scratchpads(order: Order) -> Questions:
    """Eight networks of the thesis in three scratchpads, its tensors capped."""
    for network in TABLE_7_1:
        for size_kb in pinning.SIZES_KB:
            yield f"{network} {size_kb} KB {order}", partial(_capped, network, size_kb, order)


def _capped(network: str, size_kb: int, order: Order) -> Claimed:
    return planned(pinning.problem_of(network, "capped", size_kb, order))


def minimalloc() -> Questions:
    """MiniMalloc's instances: the bound on their arenas is audited."""
    for name in packing.MINIMALLOC_SECONDS:
        yield name, partial(_packed, name)


def _packed(name: str) -> Claimed:
    problem = packing.instance(name)
    result = pack(problem, Run(LIMITS))
    fits = OPTIMAL if result.answer is not None else str(result.status)
    return Claimed(fits, result.lower_bound, partial(audit_arena, problem, result.lower_bound))


def overflowing() -> Questions:
    """ExecuTorch's buffers of three networks in a share of the greatest live bytes."""
    for network, live_bytes in overflow.LIVENESS_BOUND_BYTES.items():
        for share in overflow.SHARES_PERCENT:
            yield f"{network} {share} %", partial(_outside, network, live_bytes * share // 100)


def _outside(network: str, capacity_bytes: int) -> Claimed:
    buffers = read_buffers(overflow.NETWORKS / f"{network}.csv").buffers
    problem = PackingProblem(buffers, capacity_bytes, overflow.ALIGNMENT_BYTES)
    result = least_overflow(problem, Run(LIMITS))
    return Claimed(result.status, result.lower_bound, partial(audit_overflow, problem, result.lower_bound))


TABLES: Mapping[str, Callable[[], Questions]] = {
    "human": human_designed,
    "packing": minimalloc,
    "overflow": overflowing,
    "scratchpads-given": partial(several_scratchpads, Order.GIVEN),
    "scratchpads-free": partial(several_scratchpads, Order.FREE),
    "nas-given": partial(nas, Order.GIVEN),
    "peaks": peaks,
    "generated": generated,
    "nas-free": partial(nas, Order.FREE),
}


def rows(asked: Namespace, table: str, deadline: float) -> Iterator[Row]:
    """Yield a row for each question of a table; `ruling` is None if nothing is proven or the budget is spent."""
    questions = dict(TABLES[table]())

    def measured(name: str) -> Row:
        if time.monotonic() > deadline:
            return {"status": "UNKNOWN", "lower_bound": 0, "ruling": None, "detail": "no time left", "seconds": 0.0}
        claimed = questions[name.removeprefix(f"{table} ")]()
        row = {"status": str(claimed.status), "lower_bound": claimed.lower_bound}
        if claimed.status != OPTIMAL:
            return row | {"ruling": None, "detail": "not proven", "seconds": 0.0}
        finding = claimed.rule(asked.seconds, asked.workers)
        return row | {"ruling": str(finding.ruling), "detail": finding.detail, "seconds": finding.seconds}

    return kept(asked.rows, [f"{table} {name}" for name in questions], measured)


def main() -> int:
    """Print the rows and the counts of each table; return 1 if a proven row is refuted."""
    parser = options_of(__doc__)
    parser.add_argument("--table", nargs="+", choices=tuple(TABLES), default=list(TABLES), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=60.0, help="for the audit of one row")
    parser.add_argument("--budget", type=float, default=600.0, help="for all rows, planning included")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rows", type=Path, metavar="FILE.jsonl", help="keep rows in this file")
    asked = asked_of(parser)
    deadline = time.monotonic() + asked.budget
    found = report(asked, {table: partial(rows, asked, table, deadline) for table in asked.table})
    for table, own in found.items():
        counts = Counter(row["ruling"] or row["detail"] for row in own)
        zero = sum(row["ruling"] == "confirmed" and not row["lower_bound"] for row in own)
        print(f"{table}: {len(own)} rows, {dict(counts)}, {zero} confirmed with bound 0")
    return int(any(row["ruling"] == "refuted" for own in found.values() for row in own))


if __name__ == "__main__":
    raise SystemExit(main())
