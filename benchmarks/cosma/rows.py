"""The rows of COSMA's tables: one planned, verified problem each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache

from cosma.linear import linear_plan
from shared.runner import Row

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count, Order, Problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.api.target import Budgets, CapacityBudget, budgets_of, roomy_problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.memory.baselines.belady import belady_moves, greedy_moves
from onchip.memory.decisions import non_compulsory_cost, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.published.paper import METHOD, PaperModel, pair_steps
from onchip.memory.spill.min_peak import with_order_settled
from onchip.model.lifetimes.indexed import IndexedProblem, Windows
from onchip.search.budget.limits import Limits, Run
from onchip.verify.verifier import verify

SECONDS_FOR_MIN_PEAK = 60.0
POLICIES = {"belady": belady_moves, "greedy": greedy_moves}
RIVALS = tuple((policy, order) for order in (Order.GIVEN, Order.MIN_PEAK) for policy in POLICIES)
UNLIMITED = 10**9


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

    @property
    def graph(self) -> Graph:
        """The network as it is read."""
        return graph_of(self.network, self.granularity)

    def problem(self, order: Order) -> Problem:
        """Return the problem; end the program if the budget was not found in time."""
        found = problem_at(self.graph, self.count, self.budget, order)
        if found is None:
            raise SystemExit(f"{self.words}: the budget was not found in time")
        return found


@cache
def graph_of(network: str, granularity: Granularity) -> Graph:
    """Read a bundled network at one byte per element, as the paper does."""
    return read_network(network, Reading(bits=8, granularity=granularity))


@cache
def budgets(graph: Graph, count: Count) -> Budgets:
    """Return M_R and M_P, found once."""
    return budgets_of(roomy_problem(graph, count), Limits(time_limit_seconds=SECONDS_FOR_MIN_PEAK))


def problem_at(graph: Graph, count: Count, budget: CapacityBudget, order: Order) -> Problem | None:
    """Return the problem at a budget, or None if the budget is not known."""
    capacity_bytes = budgets(graph, count).capacity_bytes(budget)
    if capacity_bytes is None:
        return None
    return Problem(graph, (Memory("sram", capacity_bytes),), order=order, count=count)


def row_of(case: Case, order: Order, method: str, limits: Limits, cosma_seconds: float | None = None) -> Row:
    """Plan a case; the plan is verified, or the program ends. `cosma_seconds` is the time of COSMA, if it is stated."""
    return asdict(case) | row_of_problem(case.problem(order), method, limits) | {"cosma_seconds": cosma_seconds}


def row_of_problem(problem: Problem, method: str, limits: Limits) -> Row:
    """Plan a problem; an order of least peak is settled first, and its time is not counted."""
    settled = with_order_settled(problem, Run(Limits(time_limit_seconds=SECONDS_FOR_MIN_PEAK)))
    result = plan_problem(settled, method, limits)
    return {
        "operators": len(problem.graph.operators),
        "capacity_bytes": problem.memories[0].capacity_bytes,
        "order": str(problem.order),
        "method": method,
        "status": str(result.status),
        "objective_bytes": result.objective_value,
        "bound_bytes": result.lower_bound,
        "gap": result.gap,
        "seconds": result.seconds,
    }


def rival_rows(case: Case, limits: Limits) -> list[Row]:
    """Compare the four rivals with the optimum of a case; none if the optimum was not found in time.

    `order_bytes`, `eviction_bytes` and `fragmentation_bytes` are the parts of the saving. `published_bytes` are those
    of the same rival at the strength that the paper gives it (`cosma.linear`).
    """
    free = row_of(case, Order.FREE, "exact", limits)
    optimum = free["objective_bytes"]
    if optimum is None:
        return []
    known = budgets(case.graph, case.count)
    rows = []
    for policy, order in RIVALS:
        settled = with_order_settled(case.problem(order), Run(Limits(time_limit_seconds=SECONDS_FOR_MIN_PEAK)))
        rival = plan_problem(settled, policy, limits).objective_value
        best_eviction = plan_problem(settled, "exact", limits).objective_value
        if rival is None or best_eviction is None:
            continue
        indexed = IndexedProblem.of(settled)
        moves = schedule_of_moves(indexed, POLICIES[policy](indexed, range(indexed.operator_count)))
        without_addresses, published = non_compulsory_cost(indexed, moves), _moved_as_published(settled, policy)
        rows.append(
            asdict(case)
            | {
                "budgets_collapse": known.required_bytes == known.min_peak_bytes,
                "rival": policy,
                "order": str(order),
                "rival_bytes": rival,
                "optimum": optimum,
                "is_proven": free["status"] == "OPTIMAL",
                "reduction": 1 - optimum / rival if rival else None,
                "order_bytes": best_eviction - optimum,
                "eviction_bytes": without_addresses - best_eviction,
                "fragmentation_bytes": rival - without_addresses,
                "published_bytes": published,
                "published_reduction": 1 - optimum / published if published else None,
            }
        )
    return rows


def _moved_as_published(problem: Problem, policy: str) -> int:
    """Return the verifier's count of bytes; end the program if the plan is illegal."""
    verdict = verify(problem, linear_plan(problem, policy))
    if verdict.violations:
        raise SystemExit(f"{problem.graph.name} {policy}: {verdict.violations[0]}")
    return verdict.figures.non_compulsory


def peak_row(network: str, granularity: Granularity) -> Row:
    """Find M_R and M_P of a network."""
    known = budgets(graph_of(network, granularity), Count.ACTIVATIONS)
    least = known.least_peak
    return {
        "network": network,
        "granularity": granularity,
        "required_bytes": known.required_bytes,
        "min_peak_bytes": known.min_peak_bytes,
        "lower_bound": least.lower_bound,
        "seconds": least.seconds,
    }


def size_row(case: Case, order: Order, limits: Limits) -> Row:
    """Count the paper's program, give it to an open solver, and plan.

    `pairs` is the number of u of Eq. 10, and equally of d. Programs with too many are not written down.
    """
    problem = case.problem(order)
    indexed = IndexedProblem.of(problem)
    windows = Windows.of(indexed)
    pairs = pair_steps(windows, UNLIMITED)
    variables = constraints = None
    if pairs <= STEP.model_terms:
        model = PaperModel(indexed, windows, Run()).model
        variables = sum(1 for _ in model.variables())
        constraints = sum(1 for _ in model.linear_constraints())
    theirs, ours = plan_problem(problem, METHOD, limits), plan_problem(problem, "exact", limits)
    return asdict(case) | {
        "order": str(order),
        "operators": len(problem.graph.operators),
        "tensors": len(problem.counted_tensors),
        "pairs": pairs,
        "variables": variables,
        "constraints": constraints,
        "status": str(theirs.status),
        "seconds": theirs.seconds,
        "own_status": str(ours.status),
        "own_seconds": ours.seconds,
    }
