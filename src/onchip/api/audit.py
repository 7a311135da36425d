"""The audit by a second prover: read an answer and its network, rule on its bound, write a better answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Final

from onchip.answer.document import Claim, PlanDocument
from onchip.answer.packing import Overflow, Packing, PackingProblem
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Compute, Plan
from onchip.answer.result import Status
from onchip.api.networks import Network, text_of
from onchip.api.phases import phase
from onchip.audits.finding import Finding, Ruling
from onchip.errors import InputError, UsageError
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.reports.audit import AuditOutcome
from onchip.search.budget.clock import Deadline
from onchip.verify.rules import Rule
from onchip.verify.verifier import verify

SECONDS: Final = 60.0
METHOD: Final = "audit"


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """The request of `audit`: an answer file and the problem that it answers.

    `network` is the network of a plan, or the CSV file of buffers of a packing. `bound` replaces the claimed bound,
    `order` the plan's. `capacity_bytes`, `alignment_bytes`, `overflow` and `minimize` are as for `pack`. A better
    answer is written to `output`.
    """

    answer: Path
    network: Network
    bound: int | None = None
    order: Order | None = None
    capacity_bytes: int | None = None
    alignment_bytes: int | None = None
    overflow: bool = False
    minimize: bool = False
    seconds: float = SECONDS
    workers: int = 1
    output: Path | None = None


def audit(problem: Problem, lower_bound: int, *, seconds: float = SECONDS, workers: int = 1) -> Finding:
    """Return a second prover's ruling on whether any plan of a problem has an objective value below `lower_bound`.

    The prover shares no code with the methods. Raises UsageError for Order.MIN_PEAK, which names no specific order.
    """
    if problem.order is Order.MIN_PEAK:
        raise UsageError(
            "the plan file does not record whether its bound is for any order or the given one",
            place="order",
            expected=f"{Order.FREE} or {Order.GIVEN}",
        )
    from onchip.audits.planning import audit_plan

    return audit_plan(problem, lower_bound, seconds, workers)


@phase("auditing")
def audit_answer(request: AuditRequest) -> AuditOutcome:
    """Rule on the bound of an answer file; raises InputError if the answer is not legal, or of another kind."""
    if request.answer.name.removesuffix(".gz").endswith(".csv"):
        return _audit_packing(request)
    kind = format_of_answer(request.answer)
    if kind is not AnswerFormat.PLAN:
        what = f"`onchip audit` accepts plans and packings, not {_OTHERS[kind]}"
        expected = "one of these; `onchip check` verifies answers of every kind"
        raise UsageError(what, file=str(request.answer), expected=expected)
    return _audit_plan_file(request)


_OTHERS: Final = {
    AnswerFormat.SCHEDULE: "schedules",
    AnswerFormat.STRATEGY: "strategies",
    AnswerFormat.MAPPING: "mappings",
}


# Plans


def _audit_plan_file(request: AuditRequest) -> AuditOutcome:
    deadline = Deadline.after(request.seconds)
    from onchip.formats.own.plan_json import read_plan

    document = read_plan(request.answer)
    claim = document.claim
    if claim is None:
        expected = "a plan with `result`"
        raise InputError("the answer claims no bound", file=str(request.answer), place="result", expected=expected)
    if claim.objective == Objective.LATENCY:
        what = "the latency of plans is not audited yet"
        raise UsageError(what, file=str(request.answer), place="result", expected="another objective")
    if document.recomputation is not None:
        what = "plans whose operators may run again are not audited yet"
        raise UsageError(what, file=str(request.answer), place="reading.recompute", expected="never")
    problem = _problem_of(document, request)
    value = _value_of_a_legal_plan(problem, document, claim, request.answer)
    bound = ceil(claim.lower_bound) if request.bound is None else request.bound
    if value < bound:
        detail = "the answer itself is better than its bound"
        finding = Finding(Ruling.REFUTED, bound, value, document.answer, 0.0, detail)
    else:
        finding = audit(problem, bound, seconds=deadline.seconds_left, workers=request.workers)
    objective, written = problem.objective, None
    if request.output is not None and isinstance(finding.better, Plan) and finding.better_value is not None:
        from onchip.formats.own.plan_json import write_plan

        better, written = Claim(METHOD, Status.FEASIBLE, claim.objective, finding.better_value, 0), request.output
        write_plan(replace(document, answer=finding.better, claim=better), written)
    return AuditOutcome(request.answer, problem.graph.name, objective, objective.unit, value, finding, written)


@phase("reading")
def _problem_of(document: PlanDocument, request: AuditRequest) -> Problem:
    """Return the problem that the plan answers; with Order.MIN_PEAK, use the plan's own order."""
    from onchip.api.check import planned_problem
    from onchip.formats.own.graph_json import graph_sha256

    order = request.order or document.order
    problem = replace(planned_problem(document, request.network), order=order)
    if document.graph.sha256 not in (None, graph_sha256(problem.graph)):
        expected = f"the network {document.graph.name!r} that it was made for"
        raise InputError("the plan is for another graph", file=str(request.answer), expected=expected)
    if order is not Order.MIN_PEAK:
        return problem
    runs = [one.operator for one in document.answer.instructions if isinstance(one, Compute)]
    if sorted(runs) != sorted(operator.name for operator in problem.graph.operators):
        return problem
    graph = replace(problem.graph, operators=tuple(problem.graph.operator[name] for name in runs))
    return replace(problem, graph=graph, order=Order.GIVEN)


@phase("verifying")
def _value_of_a_legal_plan(problem: Problem, document: PlanDocument, claim: Claim, answer: Path) -> int:
    """Return the plan's objective value; raises InputError for any violation except a bound above that value."""
    verdict = verify(problem, document.answer, claim)
    about_bound = (Rule.BOUND_ABOVE_OBJECTIVE, Rule.OPTIMAL_UNPROVEN)
    violations = [one for one in verdict.violations if one.rule not in about_bound]
    if violations:
        what = f"the answer has {len(violations)} violations, the first: {violations[0]}"
        raise InputError(what, file=str(answer), expected="an answer that `onchip check` passes")
    return verdict.figures.objective_value(problem.objective)


# Packings


def _audit_packing(request: AuditRequest) -> AuditOutcome:
    """Audit a packing; without a given bound the claim is that its own value is optimal."""
    from onchip.api.pack import packing_problem
    from onchip.audits.packing import audit_arena, audit_overflow
    from onchip.formats.minimalloc import read_buffers

    if request.overflow and request.capacity_bytes is None:
        raise UsageError("`overflow` needs a capacity", place="capacity", expected="the capacity of the packing")
    file = Path(text_of(request.network))
    table = read_buffers(file)
    alignment_bytes = request.alignment_bytes or table.alignment_bytes or 1
    problem = packing_problem(table, file, request.capacity_bytes, alignment_bytes)
    value = _value_of_a_legal_packing(problem, table.ids, request)
    proves = request.overflow or request.minimize
    bound = request.bound if request.bound is not None else value if proves else 0
    ruled = audit_overflow if request.overflow else audit_arena
    finding = ruled(problem, bound, request.seconds, request.workers)
    named = "bytes outside" if request.overflow else "arena"
    written = None
    if request.output is not None and isinstance(finding.better, Packing | Overflow):
        from onchip.formats.minimalloc import write_packing

        written = request.output
        write_packing(table.ids, problem, finding.better, written)
    return AuditOutcome(request.answer, str(file), named, "bytes", value, finding, written)


@phase("verifying")
def _value_of_a_legal_packing(problem: PackingProblem, ids: tuple[str, ...], request: AuditRequest) -> int:
    """Return the arena of a packing, or its bytes outside the capacity."""
    from onchip.formats.minimalloc import read_offsets
    from onchip.verify.packing import verify_overflow, verify_packing

    offsets = read_offsets(request.answer, ids)
    outside = sum(buffer.size_bytes for buffer, at in zip(problem.buffers, offsets, strict=True) if at is None)
    kept = [(buffer, at) for buffer, at in zip(problem.buffers, offsets, strict=True) if at is not None]
    if request.overflow:
        violations = verify_overflow(problem, Overflow(offsets), outside)
    elif len(kept) < len(offsets):
        expected = "an offset for every buffer, or `overflow`"
        raise InputError("the packing leaves buffers outside", file=str(request.answer), expected=expected)
    else:
        violations = verify_packing(problem, Packing(tuple(at for _, at in kept)))
    if violations:
        what = f"the answer has {len(violations)} violations, the first: {violations[0]}"
        raise InputError(what, file=str(request.answer), expected="a legal packing of the buffers")
    return outside if request.overflow else max((at + buffer.size_bytes for buffer, at in kept), default=0)
