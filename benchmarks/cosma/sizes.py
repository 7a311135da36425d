"""Sizes of COSMA's program for each network (III-F), and the times of open solvers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cosma.published import (
    DEEPLAB_WITH_PARAMETERS_SECONDS,
    HOURS_WITHOUT_PROOF,
    HUMAN_DESIGNED_MEAN_SECONDS,
    NAS,
    TABLE_II,
)
from cosma.rows import Case, problem_of

from onchip.answer.problem import Count, Order
from onchip.api.plan import plan_problem
from onchip.memory.published.paper import METHOD, MOST_PAIR_STEPS, PaperModel, pair_steps
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.precedence import Windows
from onchip.search.budget.limits import Limits, MipSolver, Run

SOLVER = MipSolver.HIGHS
UNLIMITED = 10**9


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A program at M_R; variables and constraints are None if it is too large to write down.

    `pairs` is the number of u of Eq. 10, and equally of d. `seconds` are the solver's, `own_seconds` those of `exact`;
    statuses are as claimed.
    """

    network: str
    granularity: str
    count: str
    order: str
    operators: int
    tensors: int
    pairs: int
    variables: int | None
    constraints: int | None
    status: str
    seconds: float
    own_status: str
    own_seconds: float


def size_row(case: Case, order: Order, limits: Limits) -> SizeRow | None:
    """Write the program down, give it to the solver, and plan; None where the budget is not known."""
    problem = problem_of(case, order)
    if problem is None:
        return None
    indexed = IndexedProblem.of(problem)
    windows = Windows.of(indexed)
    pairs = pair_steps(windows, UNLIMITED)
    variables = constraints = None
    if pairs <= MOST_PAIR_STEPS:
        model = PaperModel(indexed, windows, Run()).model
        variables = sum(1 for _ in model.variables())
        constraints = sum(1 for _ in model.linear_constraints())
    theirs, ours = plan_problem(problem, METHOD, limits), plan_problem(problem, "exact", limits)
    return SizeRow(
        case.network,
        case.granularity,
        case.count,
        order,
        len(problem.graph.operators),
        len(problem.counted_tensors),
        pairs,
        variables,
        constraints,
        theirs.status,
        theirs.seconds,
        ours.status,
        ours.seconds,
    )


def size_lines(rows: list[SizeRow]) -> Iterator[str]:
    """Yield a line per row, with the paper's figures."""
    if not rows:
        return
    yield (
        f"{'network':25} {'grain':5} {'count':11} {'order':6}  ops tensors       pairs variables constraints"
        f"  {SOLVER}: status, s   exact: status, s    COSMA, s"
    )
    for row in rows:
        size = f"{row.variables:9,} {row.constraints:11,}" if row.variables is not None else f"{'-':>9} {'-':>11}"
        yield (
            f"{row.network:25} {row.granularity:5} {row.count:11} {row.order:6} {row.operators:4} {row.tensors:7}"
            f" {row.pairs:11,} {size}  {row.status:9} {row.seconds:7.2f}   {row.own_status:9} {row.own_seconds:7.3f}"
            f"   {published_seconds(row)}"
        )
    yield "the paper, of the Transformer alone: about 7,500 variables and 15,000 constraints; MODeL's 2,000 and 5,000"


def published_seconds(row: SizeRow) -> str:
    """Return the paper's time for the same row at M_R, with Gurobi.

    For most of its ten networks it states only a mean.
    """
    if row.network in NAS:
        is_given = row.order == Order.GIVEN
        return f"{TABLE_II['given'][row.network][0]}" if is_given else f"none in {HOURS_WITHOUT_PROOF} hours"
    if row.order == Order.GIVEN:
        return ""
    if (row.network, row.count) == ("deeplabv3_resnet50", Count.ALL):
        return f"{DEEPLAB_WITH_PARAMETERS_SECONDS[0]}"
    return f"{HUMAN_DESIGNED_MEAN_SECONDS} in the mean"
