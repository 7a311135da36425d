"""The cost-capacity curve of one network: the minimum cost at each scratchpad size, proven if the method proves it.

A plan whose highest address is a costs the same in every memory of at least a bytes; a lower bound at a capacity holds
at every smaller one. Where both are equal, the curve is known. Every proven answer closes the interval from its plan's
highest address to its capacity, so finitely many answers determine the whole curve.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import gcd, isqrt
from typing import TYPE_CHECKING, Final

from onchip.answer.document import RECOMPUTED_MACS, Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.verb_options import CapacityOptions
from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Allocate, Plan
from onchip.answer.result import SearchResult, Status
from onchip.answer.words import counted, picked, printable
from onchip.api.networks import Network, is_model, network_to_plan
from onchip.api.phases import phase
from onchip.api.plan import Request as PlanRequest
from onchip.api.plan import plan_problem, plan_read_network
from onchip.api.target import Budgets, Target, budgets_of, roomy_problem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.arch.sharing import SharedKinds
from onchip.errors import UntiledError, UsageError
from onchip.formats.foreign_files import load_any_accelerator
from onchip.model.capacity.bounds import (
    InfeasibleOperator,
    compulsory_bytes_without_states,
    greatest_need,
    infeasible_operator,
)
from onchip.model.timeline.mac_count import recomputed_macs
from onchip.reports.program.outcome import least_need_words, oversize_words
from onchip.reports.shared.facts import DataTable, facts, seconds_words
from onchip.reports.shared.figures import Json, ticks, trace
from onchip.reports.shared.svg import svg
from onchip.scheduling.tiles.bounds import smallest_need
from onchip.scheduling.tiles.tilings import least_peaks_found
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, WarmStart
from onchip.search.strategy.start import RunStarter, silent_run, started_as_stage

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class CurveStep:
    """A range of capacities from `first` to `last` bytes, both included, with bounds on the minimum cost.

    A `last` of None is unbounded. The cost is at least `lower_bound` and at most `value`, which is None if no plan is
    known. The plan of that value recomputes `macs_again` multiply-accumulates in overlapping tiles.
    """

    first: int
    last: int | None
    value: int | None
    lower_bound: int
    macs_again: int = 0

    @property
    def is_proven(self) -> bool:
        """Return True if the value is proven to be the minimum."""
        return self.value == self.lower_bound


def macs_again(plan: Plan | None) -> int:
    """Return the multiply-accumulates that the tiles of a plan recompute."""
    return 0 if plan is None or plan.problem is None else recomputed_macs(plan.problem.graph) or 0


@dataclass(slots=True)
class Curve:
    """The curve from `first` up to `last` bytes in steps of `unit`, constant beyond `last`.

    No capacity between two multiples of the unit, counted from `first`, allows more than the lower of them.
    """

    first: int
    last: int
    unit: int = 1
    plans: dict[int, tuple[int, Plan | None]] = field(default_factory=dict)
    bounds: dict[int, int] = field(default_factory=dict)
    given_up: set[tuple[int, int | None]] = field(default_factory=set)
    _looks_at_the_end: bool = True

    def add(self, capacity: int, value: int | None, end: int | None, bound: int, plan: Plan | None = None) -> None:
        """Add the result at a capacity: a bound, and a plan of that value up to the address `end` if one was found."""
        if value is not None and end is not None:
            reached = self._up(end)
            if reached not in self.plans or value < self.plans[reached][0]:
                self.plans[reached] = value, plan
        self.bounds[capacity] = max(bound, self.bounds.get(capacity, bound))

    def next_capacity(self) -> int | None:
        """Return the capacity to be planned next; None once every interval is known or given up."""
        waiting = (
            step
            for step in reversed(tuple(self.steps()))
            if not step.is_proven and (step.first, step.last) not in self.given_up
        )
        step = next(waiting, None)
        if step is None:
            return None
        last = self.last if step.last is None else min(step.last, self.last)
        self._looks_at_the_end = not self._looks_at_the_end
        return self._down(last if self._looks_at_the_end else (step.first + last) // 2)

    def give_up(self, capacity: int) -> None:
        """Mark the interval that holds a capacity as given up, after a result without proof."""
        for step in self.steps():
            if step.first <= capacity and (step.last is None or capacity <= step.last) and not step.is_proven:
                self.given_up.add((step.first, step.last))

    def steps(self) -> Iterator[CurveStep]:
        """Yield the intervals of constant bounds, smallest capacity first, with equal neighbours merged."""
        cuts = {self.first, *self.plans, *(capacity + self.unit for capacity in self.bounds)}
        starts = sorted(cut for cut in cuts if self.first <= cut <= self.last)
        before: CurveStep | None = None
        for first, following in zip(starts, [*starts[1:], None], strict=True):
            last = None if following is None else following - 1
            value, macs_again = self._value(first)
            step = CurveStep(first, last, value, self._bound(first), macs_again)
            if before is not None and replace(before, first=step.first, last=step.last) == step:
                before = replace(before, last=step.last)
                continue
            if before is not None:
                yield before
            before = step
        if before is not None:
            yield before

    def known_at(self, capacity: int) -> tuple[Plan | None, int | None, int]:
        """Return the best plan that fits a capacity, its value, and the bound there."""
        fitting = [(value, end) for end, (value, _) in self.plans.items() if end <= capacity]
        value, end = min(fitting, default=(None, None))
        return None if end is None else self.plans[end][1], value, self._bound(capacity)

    def _value(self, capacity: int) -> tuple[int | None, int]:
        """Return the least value of a plan that fits a capacity, and the least that such a plan recomputes."""
        fitting = ((value, macs_again(plan)) for end, (value, plan) in self.plans.items() if end <= capacity)
        return min(fitting, default=(None, 0))

    def _bound(self, capacity: int) -> int:
        return max((bound for at, bound in self.bounds.items() if at >= capacity), default=0)

    def _up(self, capacity: int) -> int:
        """Return the least capacity of the grid that is at least `capacity`."""
        return max(self.first, self.first - (self.first - capacity) // self.unit * self.unit)

    def _down(self, capacity: int) -> int:
        """Return the greatest capacity of the grid that is at most `capacity`."""
        return self.first + (capacity - self.first) // self.unit * self.unit


OF_OBJECTIVES: Final = {
    Objective.PEAK: "arena",
    Objective.DMA_CYCLES: "non-compulsory transfers",
    Objective.DMA_ENERGY: "non-compulsory transfers",
    Objective.RECOMPUTATION: "cycles of what runs again",
}


@dataclass(frozen=True, slots=True)
class CapacityOutcome:
    """The curve of `problem`: its steps, smallest capacity first.

    Values are in the unit of the problem's objective; traffic is the non-compulsory traffic in bytes, which excludes
    `compulsory_bytes`. The curve took `asked` plans. If an operator is `unfit` at every size there are no steps.
    """

    problem: Problem
    budgets: Budgets
    steps: tuple[CurveStep, ...]
    compulsory_bytes: int
    asked: int
    seconds: float
    unfit: InfeasibleOperator | None = None
    is_tiled: bool = False

    @property
    def is_proven(self) -> bool:
        """Return True if every step of the curve is proven."""
        return all(step.is_proven for step in self.steps)

    @property
    def of_traffic(self) -> bool:
        """Return True if the values are bytes of non-compulsory traffic."""
        return self.problem.objective is Objective.TRAFFIC

    @property
    def value_name(self) -> str:
        """Return the name of the values, with their unit."""
        objective = self.problem.objective
        name = "non-compulsory traffic" if self.of_traffic else f"{OF_OBJECTIVES[objective]}, {objective.unit}"
        return f"{name}, with state" if self.problem.graph.states and objective.counts_transfers else name

    def _repr_html_(self) -> str:
        """Return the table and the curve that a notebook shows."""
        figures = self.figures()
        return _steps_grid(self).html() + (svg(figures) if figures else "")

    def figures(self) -> dict[str, Json]:
        """Return the curve of values and lower bounds over the capacity, or nothing without a step."""
        if not self.steps:
            return {}
        unit, last = self.problem.objective.unit, self.steps[-1].first
        ends = [step.last + 1 if step.last is not None else round(1.1 * last) for step in self.steps]
        edges = [edge for step, end in zip(self.steps, ends, strict=True) for edge in (step.first, end)]
        values = [step.value for step in self.steps for _ in range(2)]
        bounds = [step.lower_bound for step in self.steps for _ in range(2)]
        known = [(edge, value) for edge, value in zip(edges, values, strict=True) if value is not None]
        curve = trace("lines", self.value_name, [one for one, _ in known], [one for _, one in known], "accent")
        again = [
            trace("lines", f"{step.macs_again:,} MACs recomputed", [step.first, end], [step.value] * 2, "fair")
            for step, end in zip(self.steps, ends, strict=True)
            if step.macs_again
        ]
        bound = trace("lines", "lower bound", edges, bounds, "bound", line={"dash": "dot"})
        top = max((value for _, value in known), default=max(bounds))
        x = {"title": "scratchpad", **ticks(edges[0], edges[-1], "bytes")}
        y = {"title": self.value_name, **ticks(0, top or 1, unit)}
        return {f"Capacity curve of {self.problem.graph.name}": {"traces": [curve, bound, *again], "x": x, "y": y}}

    def names_at(self, step: CurveStep) -> tuple[str, ...]:
        """Return the names of the COSMA budgets within a step."""
        budgets = {"M_R": self.budgets.required_bytes, "M_P": self.budgets.min_peak_bytes}
        return tuple(
            name
            for name, size in budgets.items()
            if size is not None and step.first <= size and (step.last is None or size <= step.last)
        )


def capacity_object(outcome: CapacityOutcome) -> dict[str, object]:
    """Return the curve as a JSON object."""
    unfit, sizes = outcome.unfit, ("need_bytes", "capacity_bytes", "excess_bytes")
    unfit_sizes = {} if unfit is None else {"operator": unfit.operator.name, **picked(unfit, *sizes)}
    return {
        "network": outcome.problem.graph.name,
        "objective": outcome.problem.objective,
        "unit": outcome.problem.objective.unit,
        "order": outcome.problem.order,
        "count": outcome.problem.count,
        "alignment_bytes": outcome.problem.memories[0].alignment_bytes,
        "required_bytes": outcome.budgets.required_bytes,
        "required_by": outcome.budgets.required.operator.name,
        "min_peak_bytes": outcome.budgets.min_peak_bytes,
        "compulsory_bytes": outcome.compulsory_bytes,
        "is_proven": outcome.is_proven,
        **({RECOMPUTED_MACS: max((step.macs_again for step in outcome.steps), default=0)} if outcome.is_tiled else {}),
        "steps": [
            {
                "from_bytes": step.first,
                "to_bytes": step.last,
                "objective_value": step.value,
                "lower_bound": step.lower_bound,
                "traffic_bytes": _traffic(outcome, step),
                "names": list(outcome.names_at(step)),
                **({RECOMPUTED_MACS: step.macs_again} if outcome.is_tiled else {}),
            }
            for step in outcome.steps
        ],
        "plans": outcome.asked,
        "seconds": outcome.seconds,
        **({} if unfit is None else {"status": Status.INFEASIBLE, "error": _unfit_words(unfit), **unfit_sizes}),
    }


def _unfit_words(unfit: InfeasibleOperator) -> str:
    if unfit.oversize is None:
        return f"the operands of operator {printable(unfit.operator.name)} have no places together, at any size"
    return f"operator {printable(unfit.operator.name)} fits at no size: {oversize_words(unfit.oversize)}"


def _traffic(outcome: CapacityOutcome, step: CurveStep) -> int | None:
    """Return the total traffic in bytes, if traffic is the objective."""
    return None if step.value is None or not outcome.of_traffic else step.value + outcome.compulsory_bytes


def capacity_tables(outcome: CapacityOutcome) -> Iterator[RenderableType]:
    """Yield the facts of the curve, and the table of its steps."""
    budgets, problem = outcome.budgets, outcome.problem
    rows = [("network", f"{problem.graph.name}, {counted(len(problem.graph.operators), 'operator')}")]
    if outcome.unfit is not None:
        yield facts([*rows, ("status", Status.INFEASIBLE), ("infeasible", _unfit_words(outcome.unfit))])
        return
    unproven = sum(not step.is_proven for step in outcome.steps)
    status = Status.OPTIMAL if outcome.is_proven else Status.FEASIBLE
    remedy = "tilings are proven only without spills" if outcome.is_tiled else "allow more time"
    proof = "every step is proven" if not unproven else f"{counted(unproven, 'step')} not proven: {remedy}"
    rows += [
        ("status", f"{status}: {proof}"),
        ("M_R", least_need_words(budgets.required, budgets.required.operator.name)),
        ("M_P", budgets.min_peak_in_words.removeprefix("M_P is ")),
        ("plans", f"{outcome.asked:,}"),
        ("time", seconds_words({"solve": outcome.seconds})),
    ]
    yield facts(rows)
    yield _steps_grid(outcome)


def _steps_grid(outcome: CapacityOutcome) -> DataTable:
    """Return the steps, the smallest capacity first."""
    rows = []
    for step in outcome.steps:
        notes = ", ".join((*outcome.names_at(step), *(() if step.is_proven else ("not proven",))))
        total = (_traffic(outcome, step),) if outcome.of_traffic else ()
        again = (step.macs_again,) if outcome.is_tiled else ()
        rows.append((step.first, step.last, step.value, *total, step.lower_bound, *again, notes))
    of_total = ("total traffic",) if outcome.of_traffic else ()
    of_again = ("MACs recomputed",) if outcome.is_tiled else ()
    return DataTable(("from", "to", outcome.value_name, *of_total, "lower bound", *of_again, ""), rows)


WITHOUT_A_MACHINE: Final = (Objective.TRAFFIC, Objective.PEAK)
"""Objectives whose cost does not depend on a machine."""
FINEST: Final = 17 / 16
"""Least ratio of capacities between which a plan in tiles is tried: more are drawn than seen."""


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """The request of `capacity`; the only scratchpad of an accelerator takes all sizes.

    The limits apply to the whole curve. With `tiles`, each capacity has a tiling of its own.
    """

    network: Network
    accelerator: str | Accelerator | None = None
    objective: Objective = Objective.TRAFFIC
    options: CapacityOptions = field(default_factory=CapacityOptions)
    reading: Reading = field(default_factory=Reading)
    limits: Limits = field(default_factory=Limits)

    @property
    def most_again(self) -> float:
        """Return the share of the multiply-accumulates that overlapping tiles may recompute."""
        return self.options.max_recompute / 100

    @property
    def shared_reading(self) -> Reading:
        """Return the reading with the counted tensors and the byte sharing."""
        options = self.options
        count = options.count or Target(accelerator=self.accelerator).counted(self.objective)
        return replace(self.reading, count=count, sharing=SharedKinds.of(options.share))


@phase("following the curve")
def capacity_curve(request: CapacityRequest, start: RunStarter = silent_run) -> CapacityOutcome:
    """Return the curve from the smallest feasible size, as far as the limits allow.

    If the machine's scratchpad holds an operator's operand at no size, there is no curve, and the outcome names the
    operator. Raises InputError for unreadable inputs, UsageError for an objective without the machine that it needs,
    and for a machine with several scratchpads.
    """
    watch, deadline = Stopwatch(), Deadline.after(request.limits.time_limit_seconds)
    if request.objective is Objective.LATENCY:
        what = "the latency is seldom proven, so that no capacity implies another"
        raise UsageError(what, place="minimize", expected="another objective, or `sweep` over sizes")
    is_tiled = request.options.tiles is TilesOption.AUTO
    if is_tiled and request.accelerator is not None:
        raise UsageError("tilings are searched without an accelerator", place="target", expected="a memory")
    machine = _machine(request)
    roomy = _roomy(request, machine)
    budgets = budgets_of(roomy, request.limits, started_as_stage(start), deadline)
    if (unfit := infeasible_operator(roomy)) is not None:
        return CapacityOutcome(roomy, budgets, (), compulsory_bytes_without_states(roomy), 0, watch.seconds, unfit)
    following = (_FollowingTiles if is_tiled else _Following)(request, roomy, start, deadline)
    is_arena = request.objective is Objective.PEAK
    curve = following.of_least_arena() if is_arena else following.from_least_room(budgets)
    compulsory = compulsory_bytes_without_states(roomy)
    steps = tuple(curve.steps())
    return CapacityOutcome(roomy, budgets, steps, compulsory, following.asked, watch.seconds, is_tiled=is_tiled)


def _machine(request: CapacityRequest) -> Accelerator | None:
    """Return the machine whose scratchpad takes all sizes; None if none is needed or given."""
    if request.accelerator is None:
        if request.objective not in WITHOUT_A_MACHINE:
            what = f"{request.objective} needs transfer rates, which a memory size does not have"
            raise UsageError(what, place="minimize", expected="an accelerator, or traffic")
        return None
    machine = load_any_accelerator(request.accelerator)
    if len(machine.scratchpads) > 1:
        names = ", ".join(memory.name for memory in machine.scratchpads)
        raise UsageError(
            f"{machine.name} has several scratchpads: {names}", place="target", expected="an accelerator with one"
        )
    return machine


def _roomy(request: CapacityRequest, machine: Accelerator | None) -> Problem:
    """Return the problem in a scratchpad that holds everything."""
    own, reading = Memory("sram", 1) if machine is None else machine.scratchpads[0], request.shared_reading
    alignment_bytes = request.options.alignment_bytes or own.alignment_bytes
    roomy = roomy_problem(network_to_plan(request.network, reading), reading.count, alignment_bytes)
    memory = replace(own, capacity_bytes=roomy.memories[0].capacity_bytes, alignment_bytes=alignment_bytes)
    if machine is not None:
        transfers = Target(accelerator=request.accelerator).transfers_on(machine, request.objective)
        roomy = replace(roomy, transfers=transfers)
    return replace(roomy, memories=(memory,), order=request.options.order, objective=request.objective)


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
        curve = replace(self._empty(), unit=1)
        self._ask(curve, self.greatest_bytes)
        least = max(curve.first, curve.bounds[self.greatest_bytes])
        return replace(curve, first=least)

    def from_least_room(self, budgets: Budgets) -> Curve:
        """Return the curve from the smallest size in which every operator fits."""
        curve = self._empty()
        curve.add(curve.last, None, None, 0)
        for capacity in self._capacities(curve, budgets.min_peak_bytes):
            if self.deadline.is_past or self._ask(curve, capacity):
                break
        return curve

    def _empty(self) -> Curve:
        return Curve(greatest_need(self.roomy).need_bytes, self.greatest_bytes, unit_of(self.roomy))

    def _capacities(self, curve: Curve, min_peak_bytes: int | None) -> Iterator[int]:
        """Yield M_P, which usually ends the curve, and then the open sizes."""
        capacity = min_peak_bytes or curve.next_capacity()
        while capacity is not None:
            yield capacity
            capacity = curve.next_capacity()

    def _planned(self, problem: Problem, known: WarmStart | None) -> SearchResult[Plan]:
        stage = started_as_stage(self.start)
        return plan_problem(problem, "exact", self.request.limits, stage, self.deadline, known)

    def _ask(self, curve: Curve, capacity: int) -> bool:
        """Plan for a size and add the result to the curve; return True if the plan was interrupted.

        If nothing fits, the curve begins at a larger size.
        """
        self.asked += 1
        problem = replace(self.roomy, memories=(replace(self.roomy.memories[0], capacity_bytes=capacity),))
        result = self._planned(problem, WarmStart.of(problem, *curve.known_at(capacity)))
        if result.status is Status.INFEASIBLE:
            curve.first = capacity + curve.unit
            return False
        end = None if result.answer is None else _highest_address(result.answer.problem or problem, result.answer)
        curve.add(capacity, result.objective_value, end, result.lower_bound, result.answer)
        if result.objective_value != result.lower_bound:
            curve.give_up(capacity)
        return result.stopped_by == "interrupted"


class _FollowingTiles(_Following):
    """The plans in tiles. Their bound is seldom met, so intervals of close ends stay open."""

    def _empty(self) -> Curve:
        least = smallest_need(self.roomy, is_model=is_model(self.request.network)).need_bytes
        return Curve(max(1, least), self.greatest_bytes, 1)

    def _capacities(self, curve: Curve, min_peak_bytes: int | None) -> Iterator[int]:
        """Yield the ends of the curve, the least peak, and then the middle of the widest interval that is not flat."""
        most = min_peak_bytes or self.greatest_bytes
        limits, of_model = (0.0, self.request.most_again), is_model(self.request.network)
        peaks = least_peaks_found(self.roomy, of_model, limits, lambda: self.deadline.is_past)
        asked = sorted({curve.first, *(min(peak, most) for peak, _ in peaks), most})
        yield from reversed(asked)
        while True:
            values = {capacity: curve.known_at(capacity)[1] for capacity in asked}
            open_ones = [(b / a, a, b) for a, b in pairwise(asked) if b >= FINEST * a and values[a] != values[b]]
            if not open_ones:
                return
            _, low, high = max(open_ones)
            asked = sorted({*asked, isqrt(low * high)})
            yield isqrt(low * high)

    def _planned(self, problem: Problem, _: WarmStart | None) -> SearchResult[Plan]:
        """Return the plan in the best tiling that an eighth of the time left finds."""
        memory, request = problem.memories[0], self.request
        asked = PlanRequest(
            request.network,
            request.shared_reading,
            Target(memory.capacity_bytes, alignment_bytes=memory.alignment_bytes),
            request.objective,
            request.options.order,
            limits=request.limits,
            tiles=TilesOption.AUTO,
            most_again=request.most_again,
        )
        until = self.deadline.within(self.deadline.seconds_left / 8) if self.deadline.is_set else self.deadline
        try:
            return plan_read_network(asked, problem.graph, until, started_as_stage(self.start)).result
        except UntiledError as error:
            status = Status.INFEASIBLE if error.is_proven else Status.UNKNOWN
            return SearchResult(status, None, None, 0, 0.0, "exact")


def unit_of(problem: Problem) -> int:
    """Return the least capacity increase in bytes that can allow a different plan.

    Residencies can be moved down until they are at 0 or on top of another concurrent residency, so every useful address
    is a sum of sizes, and a multiple of their greatest common divisor. The unit is 1 if bytes are shared or padded.
    """
    sizes = [tensor.size_bytes for tensor in problem.counted_tensors]
    alignment_bytes = problem.memories[0].alignment_bytes
    if problem.graph.shares_bytes or any(size % alignment_bytes for size in sizes):
        return 1
    return gcd(*sizes) or 1


def _highest_address(problem: Problem, plan: Plan) -> int:
    """Return the end of the highest byte that a verified plan uses."""
    tensors = problem.graph.tensor
    ends = (
        line.offset_bytes + tensors[line.tensor].size_bytes for line in plan.instructions if isinstance(line, Allocate)
    )
    return max(ends, default=0)
