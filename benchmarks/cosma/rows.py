"""The rows of COSMA's tables: one planned, verified problem each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cosma.linear import linear_plan

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count, Order, Problem
from onchip.api.budgets import Budgets, CapacityBudget, budgets_of, roomy_problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.memory.baselines.belady import belady_moves, greedy_moves
from onchip.memory.decisions import non_compulsory_cost, schedule_of_moves
from onchip.memory.spill.min_peak import with_order_settled
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Limits, Run
from onchip.verify.verifier import verify

SECONDS_FOR_MIN_PEAK = 60.0
POLICIES = {"belady": belady_moves, "greedy": greedy_moves}
RIVALS = tuple((policy, order) for order in (Order.GIVEN, Order.MIN_PEAK) for policy in POLICIES)


@dataclass(frozen=True, slots=True)
class Case:
    """A network with its reading and count, at a budget."""

    network: str
    granularity: Granularity
    count: Count
    budget: CapacityBudget

    @property
    def words(self) -> str:
        """Return the case in a few words."""
        return f"{self.network} {self.granularity} {self.count} {self.budget}"


@dataclass(frozen=True, slots=True)
class Row:
    """One answer. `allowed_seconds` is its limit, `cosma_seconds` the time of COSMA; None if not stated."""

    network: str
    granularity: str
    count: str
    operators: int
    budget: str
    capacity_bytes: int
    order: str
    method: str
    status: str
    objective_bytes: int | None
    bound_bytes: int
    gap: float | None
    seconds: float
    allowed_seconds: float | None = None
    cosma_seconds: float | None = None

    @property
    def is_met(self) -> bool:
        """Return True if the answer is proven within the allowed time, or no time is required."""
        return self.allowed_seconds is None or (self.status == "OPTIMAL" and self.seconds <= self.allowed_seconds)


@dataclass(frozen=True, slots=True)
class RivalRow:
    """Non-compulsory bytes of a rival, and what of it is due to what.

    `without_addresses` is its traffic before the allocator, `best_eviction` the least for its
    order, `optimum` the least of all; each difference is a share. None where it was not found.
    `published_bytes` are those of the same rival as the paper has it (`cosma.linear`).
    """

    network: str
    granularity: str
    count: str
    budget: str
    budgets_collapse: bool
    rival: str
    order: str
    rival_bytes: int
    without_addresses: int
    best_eviction: int
    optimum: int
    is_proven: bool
    published_bytes: int

    @property
    def published_reduction(self) -> float | None:
        """Return the `reduction` for the rival at its published strength."""
        return (self.published_bytes - self.optimum) / self.published_bytes if self.published_bytes else None

    @property
    def reduction(self) -> float | None:
        """Return the share of the rival's traffic that the optimum saves; None if the rival has none."""
        return (self.rival_bytes - self.optimum) / self.rival_bytes if self.rival_bytes else None

    @property
    def shares(self) -> tuple[int, int, int]:
        """Return the bytes due to order, eviction and fragmentation, whose sum is the saving."""
        return (
            self.best_eviction - self.optimum,
            self.without_addresses - self.best_eviction,
            self.rival_bytes - self.without_addresses,
        )


@dataclass(frozen=True, slots=True)
class PeakRow:
    """M_R and M_P of a network."""

    network: str
    granularity: str
    required_bytes: int
    min_peak_bytes: int | None
    lower_bound: int
    seconds: float


@cache
def graph_of(network: str, granularity: Granularity) -> Graph:
    """Read a bundled network at one byte per element, as the paper does."""
    return read_network(network, Reading(bits=8, granularity=granularity))


@cache
def budgets(graph: Graph, count: Count) -> Budgets:
    """Return M_R and M_P, found once."""
    return budgets_of(roomy_problem(graph, count), Limits(time_limit_seconds=SECONDS_FOR_MIN_PEAK))


def problem_of(case: Case, order: Order) -> Problem | None:
    """Return the problem of a case, None if its budget is not known."""
    return problem_at(graph_of(case.network, case.granularity), case.count, case.budget, order)


def problem_at(graph: Graph, count: Count, budget: CapacityBudget, order: Order) -> Problem | None:
    """Return the problem at a budget, None if the budget is not known."""
    capacity_bytes = budgets(graph, count).capacity_bytes(budget)
    if capacity_bytes is None:
        return None
    return Problem(graph, (Memory("sram", capacity_bytes),), order=order, count=count)


def show_progress(words: str) -> None:
    """Show the current problem on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)


def row_of(
    case: Case,
    order: Order,
    method: str,
    limits: Limits,
    allowed_seconds: float | None = None,
    cosma_seconds: float | None = None,
) -> Row | None:
    """Plan a case; the plan is verified, or the program ends."""
    show_progress(f"{case.words} {order} {method}")
    problem = problem_of(case, order)
    if problem is None:
        return None
    row = row_of_problem(problem, case.budget, method, limits, allowed_seconds, cosma_seconds)
    return row and _renamed(row, case)


def row_of_problem(
    problem: Problem,
    budget: str,
    method: str,
    limits: Limits,
    allowed_seconds: float | None = None,
    cosma_seconds: float | None = None,
) -> Row:
    """Plan a problem; an order of least peak is settled first, its time apart."""
    asked = problem.order
    settled = with_order_settled(problem, Run(Limits(time_limit_seconds=SECONDS_FOR_MIN_PEAK)))
    result = plan_problem(settled, method, limits)
    return Row(
        problem.graph.name,
        "",
        problem.count,
        len(problem.graph.operators),
        budget,
        problem.memories[0].capacity_bytes,
        asked,
        method,
        result.status,
        result.objective_value,
        result.lower_bound,
        result.gap,
        result.seconds,
        allowed_seconds,
        cosma_seconds,
    )


def _renamed(row: Row, case: Case) -> Row:
    from dataclasses import replace

    return replace(row, network=case.network, granularity=case.granularity)


def rival_rows(case: Case, limits: Limits) -> list[RivalRow]:
    """Hold the four rivals against the optimum of a case; none if the optimum was not found in time."""
    free = row_of(case, Order.FREE, "exact", limits)
    if free is None or free.objective_bytes is None:
        return []
    known = budgets(graph_of(case.network, case.granularity), case.count)
    rows = []
    for policy, order in RIVALS:
        show_progress(f"{case.words} {order} {policy}")
        problem = problem_of(case, order)
        if problem is None:
            return []
        settled = with_order_settled(problem, Run(Limits(time_limit_seconds=SECONDS_FOR_MIN_PEAK)))
        rival = plan_problem(settled, policy, limits).objective_value
        best_eviction = plan_problem(settled, "exact", limits).objective_value
        if rival is None or best_eviction is None:
            continue
        indexed = IndexedProblem.of(settled)
        moves = POLICIES[policy](indexed, range(indexed.operator_count))
        rows.append(
            RivalRow(
                case.network,
                case.granularity,
                case.count,
                case.budget,
                known.required_bytes == known.min_peak_bytes,
                policy,
                order,
                rival,
                non_compulsory_cost(indexed, schedule_of_moves(indexed, moves)),
                best_eviction,
                free.objective_bytes,
                free.status == "OPTIMAL",
                _moved_as_published(settled, policy),
            )
        )
    return rows


def _moved_as_published(problem: Problem, policy: str) -> int:
    """Return the verifier's count of bytes; end the program if the plan is illegal."""
    verdict = verify(problem, linear_plan(problem, policy))
    if verdict.violations:
        raise SystemExit(f"{problem.graph.name} {policy}: {verdict.violations[0]}")
    return verdict.figures.non_compulsory


def peak_row(network: str, granularity: Granularity) -> PeakRow:
    """Find M_P of a network."""
    show_progress(f"{network} {granularity} M_P")
    known = budgets(graph_of(network, granularity), Count.ACTIVATIONS)
    least = known.least_peak
    return PeakRow(network, granularity, known.required_bytes, known.min_peak_bytes, least.lower_bound, least.seconds)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing."""
    return sum(values) / len(values) if values else None
