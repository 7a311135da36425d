"""The cost-capacity curve of one network: the minimum cost at each scratchpad size, proven if the method proves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Final

from onchip.answer.document import Reading, Split
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Allocate, Plan
from onchip.answer.result import Status
from onchip.api.budgets import Budgets, budgets_of, roomy_problem
from onchip.api.durations import durations_of
from onchip.api.networks import network_to_plan
from onchip.api.phases import phase
from onchip.api.plan import plan_problem
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.arch.sharing import Share, SharedKinds
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.errors import UsageError
from onchip.formats.foreign_files import load_any_accelerator
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import compulsory_bytes_without_states, greatest_need
from onchip.model.capacity.infeasible_operator import infeasible_operator
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits
from onchip.search.budget.warm_start import WarmStart
from onchip.search.strategy.stage import started_as_stage
from onchip.search.strategy.start import RunStarter, silent_run
from onchip.sweeps.curve import Curve
from onchip.sweeps.pages.capacity import CapacityOutcome

WITHOUT_A_MACHINE: Final = (Objective.TRAFFIC, Objective.PEAK)
"""Objectives whose cost does not depend on a machine."""
METHODS: Final = {Objective.LATENCY: "timed"}
"""Methods of objectives that `exact` does not support."""
FINEST: Final = 17 / 16
"""Least ratio of distinguished capacities for latency, which is seldom proven."""
SHARE_OF_A_PLAN: Final = 1 / 8
"""Share of the time left for each plan with an open-ended search."""


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """A network with its reading, objective, order and alignment; the limits apply to the whole curve.

    The only scratchpad of `accelerator` takes all sizes; `cost` is the cycle model of operators without stated cycles.
    The default alignment is that of the scratchpad.
    """

    network: str
    reading: Reading = field(default_factory=Reading)
    objective: Objective = Objective.TRAFFIC
    order: Order = Order.FREE
    alignment_bytes: int | None = None
    share: Share = Share.NONE
    limits: Limits = field(default_factory=Limits)
    accelerator: str | None = None
    cost: str = "mapping"


@phase("following the curve")
def capacity_curve(request: CapacityRequest, start: RunStarter = silent_run) -> CapacityOutcome:
    """Return the curve from the smallest feasible size, as far as the limits allow.

    If the machine's scratchpad holds an operator's operand at no size, there is no curve, and the outcome names the
    operator. Raises InputError for unreadable inputs, UsageError for an objective without the machine that it needs,
    and for a machine with several scratchpads.
    """
    watch, deadline = Stopwatch(), Deadline.after(request.limits.time_limit_seconds)
    if request.reading.split is not Split.NEVER or request.reading.cap_tensors:
        raise UsageError("what is planned depends on the capacity", place="--split", expected="never")
    machine = _machine(request)
    reading = replace(request.reading, sharing=SharedKinds.of(request.share))
    roomy = _roomy(request, network_to_plan(request.network, reading), machine, start, deadline)
    budgets = budgets_of(roomy, request.limits, started_as_stage(start), deadline)
    if (unfit := infeasible_operator(roomy)) is not None:
        return CapacityOutcome(roomy, budgets, (), compulsory_bytes_without_states(roomy), 0, watch.seconds, unfit)
    following = _Following(request, roomy, start, deadline)
    is_arena = request.objective is Objective.PEAK
    curve = following.of_least_arena() if is_arena else following.from_least_room(budgets)
    compulsory = compulsory_bytes_without_states(roomy)
    return CapacityOutcome(roomy, budgets, tuple(curve.steps()), compulsory, following.asked, watch.seconds)


def _machine(request: CapacityRequest) -> Accelerator | None:
    """Return the machine whose scratchpad takes all sizes; None if none is needed or given."""
    if request.accelerator is None:
        if request.objective not in WITHOUT_A_MACHINE:
            what = f"nothing says what {request.objective} is of a transfer"
            raise UsageError(what, place="--objective", expected="--accelerator NAME, or traffic")
        return None
    machine = load_any_accelerator(request.accelerator)
    if len(machine.scratchpads) > 1:
        names = ", ".join(memory.name for memory in machine.scratchpads)
        raise UsageError(
            f"it has several scratchpads: {names}", place="--accelerator", expected="one with a single one"
        )
    return machine


def _roomy(
    request: CapacityRequest, graph: Graph, machine: Accelerator | None, start: RunStarter, deadline: Deadline
) -> Problem:
    """Return the problem in a scratchpad that holds everything."""
    own = None if machine is None else machine.scratchpads[0]
    alignment_bytes = request.alignment_bytes or (1 if own is None else own.alignment_bytes)
    roomy = roomy_problem(graph, request.reading.count, alignment_bytes)
    roomy = replace(roomy, order=request.order)
    if machine is None or own is None:
        return replace(roomy, objective=request.objective)
    memory = replace(own, capacity_bytes=roomy.memories[0].capacity_bytes, alignment_bytes=alignment_bytes)
    target, durations = Target(accelerator=request.accelerator), None
    if request.objective is Objective.LATENCY:
        with started_as_stage(start)(request.limits, deadline) as run, target.named_in_errors():
            durations = durations_of(graph, machine, request.cost, run)
    transfers = target.transfers_on(machine, request.objective)
    in_memory = replace(roomy, memories=(memory,), transfers=transfers, durations=durations)
    return replace(in_memory, objective=request.objective)


@dataclass(slots=True)
class _Following:
    """The plans for one size after another; `asked` counts them."""

    request: CapacityRequest
    roomy: Problem
    start: RunStarter
    deadline: Deadline
    asked: int = 0

    @property
    def greatest_bytes(self) -> int:
        """Return the size that holds everything."""
        return self.roomy.memories[0].capacity_bytes

    def of_least_arena(self) -> Curve:
        """Return the curve of a plan without spills: constant from its arena upwards, infeasible below."""
        curve = Curve(greatest_need(self.roomy).need_bytes, self.greatest_bytes)
        self._ask(curve, self.greatest_bytes)
        least = max(curve.first, curve.bounds[self.greatest_bytes])
        return replace(curve, first=least)

    def from_least_room(self, budgets: Budgets) -> Curve:
        """Return the curve from the smallest size in which every operator fits."""
        is_timed = self.roomy.objective is Objective.LATENCY
        first = least_room_bytes(self.roomy) if is_timed else greatest_need(self.roomy).need_bytes
        curve = Curve(first, self.greatest_bytes, unit_of(self.roomy), FINEST if is_timed else None)
        curve.add(curve.last, None, None, 0)
        for capacity in self._capacities(curve, budgets.min_peak_bytes):
            if self.deadline.is_past or self._ask(curve, capacity):
                break
        return curve

    def _capacities(self, curve: Curve, min_peak_bytes: int | None) -> Iterator[int]:
        """Yield M_P, which usually ends the curve, the start if little is proven, and then the open sizes."""
        if min_peak_bytes is not None:
            yield min_peak_bytes
        if curve.finest is not None:
            yield curve.first
        while (capacity := curve.next_capacity()) is not None:
            yield capacity

    def _ask(self, curve: Curve, capacity: int) -> bool:
        """Plan for a size and add the result to the curve; return True if the plan was interrupted.

        If nothing fits, the curve begins at a larger size.
        """
        self.asked += 1
        problem = replace(self.roomy, memories=(replace(self.roomy.memories[0], capacity_bytes=capacity),))
        method = METHODS.get(problem.objective, "exact")
        until = self.deadline
        if problem.objective is Objective.LATENCY:
            until = until.within(until.seconds_left * SHARE_OF_A_PLAN)
        known = WarmStart.of(problem, *curve.known_at(capacity))
        result = plan_problem(problem, method, self.request.limits, started_as_stage(self.start), until, known)
        if result.status is Status.INFEASIBLE:
            curve.first = capacity + curve.unit
            return False
        end = None if result.answer is None else _highest_address(result.answer.problem or problem, result.answer)
        curve.add(capacity, result.objective_value, end, result.lower_bound, result.answer)
        if result.objective_value != result.lower_bound:
            curve.give_up(capacity)
        return result.stopped_by == "interrupted"


def least_room_bytes(problem: Problem) -> int:
    """Return the smallest size in bytes in which every operator fits, in the channel tiles that its file lists."""
    ways = WaysToRun(problem)
    return max(
        min(ways.least_need_bytes(number, parts) for parts in one.cycles) for number, one in enumerate(ways.operators)
    )


def unit_of(problem: Problem) -> int:
    """Return the least capacity increase in bytes that can allow a different plan.

    Residencies can be moved down until they are at 0 or on top of another concurrent residency, so every useful address
    is a sum of sizes, and a multiple of their greatest common divisor. The unit is 1 if bytes are shared or padded, or
    if sizes are those of tiles.
    """
    sizes = [tensor.size_bytes for tensor in problem.counted_tensors]
    alignment_bytes = problem.memories[0].alignment_bytes
    if problem.graph.shares_bytes or any(size % alignment_bytes for size in sizes):
        return 1
    has_bands = any(operator.stated.splits for operator in problem.graph.operators)
    return 1 if problem.durations is not None and has_bands else gcd(*sizes) or 1


def _highest_address(problem: Problem, plan: Plan) -> int:
    """Return the end of the highest byte that a verified plan uses."""
    tensors = problem.graph.tensor
    ends = (
        line.offset_bytes + tensors[line.tensor].size_bytes for line in plan.instructions if isinstance(line, Allocate)
    )
    return max(ends, default=0)
