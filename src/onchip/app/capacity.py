"""The whole curve of one network: the least traffic against the size of the scratchpad, every step proven."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

from onchip.answer.document import Reading, Split
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Allocate, Plan
from onchip.app.networks import network_to_plan
from onchip.app.phases import phase
from onchip.app.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share, SharedKinds
from onchip.clock import Deadline, Stopwatch
from onchip.errors import UsageError
from onchip.facts.bounds import compulsory_bytes
from onchip.reports.sweep.capacity import CapacityOutcome
from onchip.solve.run.budgets import budgets_of, roomy_problem
from onchip.solve.run.limits import Limits
from onchip.solve.run.stage import started_as_stage
from onchip.solve.run.start import RunStarter, silent_run
from onchip.sweeps.curve import Curve


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """A network, how it is read, what is to be least, in which order, at which alignment; limits are for all of it."""

    network: str
    reading: Reading = field(default_factory=Reading)
    objective: Objective = Objective.TRAFFIC
    order: Order = Order.FREE
    alignment_bytes: int = 1
    share: Share = Share.NONE
    limits: Limits = field(default_factory=Limits)


@phase("following the curve")
def capacity_curve(request: CapacityRequest, start: RunStarter = silent_run) -> CapacityOutcome:
    """Return the curve from M_R up, as far as the limits allow.

    Raises InputError for what cannot be read, UsageError for an objective that one scratchpad alone does not have.
    """
    watch, deadline = Stopwatch(), Deadline.after(request.limits.time_limit_seconds)
    if request.objective is not Objective.TRAFFIC:
        raise UsageError(f"it is {request.objective}", place="--objective", expected="traffic: others need a machine")
    if request.reading.split is not Split.NEVER or request.reading.cap_tensors:
        raise UsageError("what is planned depends on the capacity", place="--split", expected="never")
    reading = replace(request.reading, sharing=SharedKinds.of(request.share))
    graph = network_to_plan(request.network, reading)
    roomy = replace(roomy_problem(graph, reading.count, request.alignment_bytes), order=request.order)
    budgets = budgets_of(roomy, request.limits, started_as_stage(start), deadline)
    curve = Curve(budgets.required_bytes, roomy.memories[0].capacity_bytes, unit_of(roomy))
    curve.add(curve.last, None, None, 0)
    capacity: int | None = budgets.min_peak_bytes or curve.next_capacity()
    asked = 0
    while capacity is not None and not deadline.is_past:
        is_stopped = _ask(curve, roomy, capacity, request.limits, start, deadline)
        asked += 1
        if is_stopped:
            break
        capacity = curve.next_capacity()
    compulsory = compulsory_bytes(roomy)
    return CapacityOutcome(roomy, budgets, tuple(curve.steps()), compulsory, asked, watch.seconds)


def unit_of(problem: Problem) -> int:
    """The bytes by which the capacity has to grow for anything more to fit.

    What lies in a scratchpad can be pushed down until it lies at 0 or upon something else, so every address worth
    having is a sum of sizes, and a multiple of what divides all of them. Not so where bytes are shared, or padded.
    """
    sizes = [tensor.size_bytes for tensor in problem.counted_tensors]
    alignment_bytes = problem.memories[0].alignment_bytes
    if problem.graph.shares_bytes or any(size % alignment_bytes for size in sizes):
        return 1
    return gcd(*sizes) or 1


def _ask(curve: Curve, roomy: Problem, capacity: int, limits: Limits, start: RunStarter, deadline: Deadline) -> bool:
    """Plan for a capacity and take what that says of the curve; returns whether it was interrupted."""
    memory = Memory(roomy.memories[0].name, capacity, roomy.memories[0].alignment_bytes)
    problem = replace(roomy, memories=(memory,))
    result = plan_problem(problem, limits=limits, start=started_as_stage(start), deadline=deadline)
    end = None if result.answer is None else _highest_address(problem, result.answer)
    curve.add(capacity, result.objective_value, end, result.lower_bound)
    if result.objective_value != result.lower_bound:
        curve.give_up(capacity)
    return result.stopped_by == "interrupted"


def _highest_address(problem: Problem, plan: Plan) -> int:
    """Where the last byte ends that a verified plan uses."""
    tensors = problem.graph.tensor
    ends = (
        line.offset_bytes + tensors[line.tensor].size_bytes for line in plan.instructions if isinstance(line, Allocate)
    )
    return max(ends, default=0)
