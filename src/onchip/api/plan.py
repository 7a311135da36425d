"""The `plan` use case: read -> solve -> verify -> document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from onchip.answer.document import Claim, PlanDocument, Reading, Source, Split
from onchip.answer.problem import Durations, Objective, Order, Placement, Problem, Recomputation, Recompute
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status
from onchip.api.budgets import budgets_of, roomy_problem
from onchip.api.durations import MAPPING, durations_of
from onchip.api.networks import Network, fitted_to_scratchpads, is_model, network_to_plan
from onchip.api.phases import phase
from onchip.api.target import Target, TargetFinder
from onchip.arch.accelerator import Accelerator
from onchip.arch.sharing import Share, SharedKinds
from onchip.bounds.latency.latency_bounds import LatencyBounds, merged_problem
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.errors import InternalError, UsageError
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.memory.methods import method_named
from onchip.model.capacity.bounds import compulsory_bytes, greatest_need
from onchip.model.program.recomputation import recomputation_on
from onchip.model.timeline.mac_count import MACS, MacCount
from onchip.ops.entries import geometry_of
from onchip.ops.layers_of import Precision
from onchip.ops.nests import nests_of_operator
from onchip.reports.program.outcome import Description, Outcome, Seconds, SharedNeed
from onchip.scheduling.candidates.in_steps import steps_of
from onchip.scheduling.candidates.split import can_split
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, WarmStart
from onchip.search.strategy.start import RunStarter, silent_run, started_as_stage, with_bound, without_bound
from onchip.transform.rewrite.shared_bytes import SharedBytes, declared_in
from onchip.verify.figures import Figures
from onchip.verify.verifier import verify
from onchip.without_collecting import without_collecting

THIS_SPLIT: Final = "plans of this split"
NO_PLAN: Final = "no plan of this split fits; another split may"

T = TypeVar("T")
PROCESSOR_SECONDS_TO_FINISH: Final = 1.6e-4
"""Processor time per operator for building, verifying and writing a plan, in seconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request of `plan`: a network, its reading, the target, the objective, and search options.

    `share` selects the shared bytes; None: as the accelerator says, or without one as the reading says. `cost` is the
    cycle model for operators without stated cycles, used for latency and recomputation; `recompute_price` is the price
    of a million of these cycles, in the objective's unit, instead of the accelerator's.
    """

    network: Network
    reading: Reading = field(default_factory=Reading)
    target: Target = field(default_factory=Target)
    objective: Objective = Objective.TRAFFIC
    order: Order | None = None
    method: str = "exact"
    placement: Placement = Placement.DYNAMIC
    limits: Limits = field(default_factory=Limits)
    share: Share | None = None
    cost: str = MAPPING
    recompute_price: float | None = None

    @property
    def reading_as_shared(self) -> Reading:
        """Return the reading with the byte sharing; raises InputError for an unknown accelerator."""
        if self.share is not None:
            return replace(self.reading, sharing=SharedKinds.of(self.share))
        if self.target.accelerator is None:
            return self.reading
        from onchip.formats.foreign_files import load_any_accelerator

        return replace(self.reading, sharing=load_any_accelerator(self.target.accelerator).share)


def nothing_known(_: Problem) -> WarmStart | None:
    """Return None: no earlier answer is known."""
    return None


@phase("planning")
def plan_network(request: Request, start: RunStarter = silent_run) -> Outcome:
    """Read, solve, verify; raises InternalError if the plan found is not legal."""
    deadline = Deadline.after(request.limits.time_limit_seconds)
    method_named(request.method)
    reading = request.reading_as_shared
    graph, read_seconds = _timed(lambda: network_to_plan(request.network, reading))
    return plan_read_network(replace(request, reading=reading), graph, deadline, start, read_seconds)


def plan_read_network(
    request: Request,
    graph: Graph,
    deadline: Deadline,
    start: RunStarter = silent_run,
    read_seconds: float = 0.0,
    known: Callable[[Problem], WarmStart | None] = nothing_known,
) -> Outcome:
    """Solve and verify for a network that is already read; raises InternalError if the plan found is not legal.

    `known` returns earlier answers to a problem before it is solved.
    """
    method, reading, stage = method_named(request.method), request.reading, started_as_stage(start)
    finder = TargetFinder(graph, reading.count, request.limits, stage, deadline)
    (accelerator, min_peak_bytes), budget_seconds = _timed(
        lambda: finder.accelerator(request.target, request.objective)
    )
    whole = _whole_problem(request, graph, accelerator)
    asked, split_seconds = _timed(lambda: fitted_to_scratchpads(whole, request.network, reading))
    asked = replace(
        asked,
        durations=_durations(request, asked.graph, accelerator, stage, deadline),
        recomputation=_runs_again(request, accelerator, asked.graph),
    )
    to_finish = deadline.seconds_for(PROCESSOR_SECONDS_TO_FINISH * len(asked.graph.operators))
    with start(request.limits, deadline.within(deadline.seconds_left - to_finish)) as run:
        known_run = replace(run, warm_start=known(asked))
        if splits_are_open(whole, request.network, reading):
            timed_whole = replace(whole, durations=asked.durations)
            least = bound_of_all_splits(timed_whole, request.network, accelerator, request.cost)
            own_run = without_bound(with_bound(known_run, least))
            result, solve_seconds = _timed(lambda: _with_problem(for_all_splits(method(asked, own_run), least), asked))
        else:
            result, solve_seconds = _timed(lambda: _with_problem(method(asked, known_run), asked))
    problem = _as_planned(asked, result)
    figures, verify_seconds = _timed(lambda: _verified(problem, result))
    return Outcome(
        problem,
        result,
        request.limits.seed,
        Seconds(read_seconds + split_seconds, budget_seconds, solve_seconds, verify_seconds),
        greatest_need(problem),
        min_peak_bytes,
        figures,
        _document(_with_bands(reading, asked.graph, problem.graph), accelerator, problem, result),
    )


def _whole_problem(request: Request, graph: Graph, accelerator: Accelerator) -> Problem:
    """Return the problem of unsplit operators on an accelerator's scratchpads, with the costs stated in files."""
    is_static = request.placement is Placement.STATIC
    return Problem(
        graph,
        accelerator.scratchpads,
        request.objective,
        request.order or (Order.GIVEN if is_static else method_named(request.method).orders[0]),
        request.reading.count,
        request.target.transfers_on(accelerator, request.objective),
        request.placement,
        durations=Durations() if request.objective is Objective.LATENCY else None,
    )


def _runs_again(request: Request, accelerator: Accelerator, graph: Graph) -> Recomputation | None:
    """Return the cost of recomputation, or None if it is not allowed."""
    return RunsAgain(request.reading, request.objective, request.cost, request.recompute_price).on(accelerator, graph)


def _durations(
    request: Request, graph: Graph, accelerator: Accelerator, start: RunStarter, deadline: Deadline
) -> Durations | None:
    """Return the durations of operators and transfers, or None if the objective does not use them."""
    if request.objective is not Objective.LATENCY:
        return None
    with start(request.limits, deadline) as run, request.target.named_in_errors():
        return durations_of(graph, accelerator, request.cost, run)


def plan_problem(
    problem: Problem,
    method: str = "exact",
    limits: Limits | None = None,
    start: RunStarter = silent_run,
    deadline: Deadline | None = None,
    warm_start: WarmStart | None = None,
) -> Result[Plan]:
    """Solve and verify a problem, until the deadline if there is one; raises InternalError if the plan is not legal."""
    limits = limits or Limits()
    with start(limits, deadline or Deadline.after(limits.time_limit_seconds)) as run:
        result = _with_problem(method_named(method)(problem, replace(run, warm_start=warm_start)), problem)
    _verified(_as_planned(problem, result), result)
    return result


@phase("searching")
def describe_network(network: Network, reading: Reading, limits: Limits, start: RunStarter = silent_run) -> Description:
    """Return a description of a network and its capacity budgets."""
    deadline = Deadline.after(limits.time_limit_seconds)
    whole = network_to_plan(network, replace(reading, sharing=SharedKinds.of(Share.ALL)))
    shares = tuple(Share) if whole.shares_bytes else (Share.NONE,)
    problems = {share: roomy_problem(_sharing(whole, share), reading.count) for share in shares}
    budgets = {share: budgets_of(problem, limits, start, deadline) for share, problem in problems.items()}
    needs = tuple(SharedNeed(share, one.required_bytes, one.min_peak_bytes) for share, one in budgets.items())
    alone, own = problems[Share.NONE], budgets[Share.NONE]
    return Description(alone, own.required, own.least_peak, compulsory_bytes(alone), needs if len(needs) > 1 else ())


def _sharing(whole: Graph, share: Share) -> Graph:
    """Return the network with byte sharing restricted to `share`."""
    return SharedBytes(SharedKinds.of(share), declared_in(whole, whole))(whole)


def _with_problem(result: Result[Plan], problem: Problem) -> Result[Plan]:
    """Attach the problem to the plan, for pictures, unless the method attached its own after a split."""
    answer = result.answer
    return replace(result, answer=answer and replace(answer, problem=answer.problem or problem))


def _as_planned(problem: Problem, result: Result[Plan]) -> Problem:
    """Return the problem that a plan answers; without a plan, the given problem."""
    return problem if result.answer is None else result.answer.problem or problem


def _with_bands(reading: Reading, asked: Graph, planned: Graph) -> Reading:
    """Return the reading that reproduces the channel tiles chosen by a method."""
    bands = Counter(one.tile.operator for one in planned.operators if one.tile is not None)
    chosen = {name: bands[name] for name in asked.operator if bands[name] > 1 and name not in planned.operator}
    return replace(reading, bands={**reading.bands, **chosen}) if chosen else reading


@phase("verifying")
@without_collecting()
def _verified(problem: Problem, result: Result[Plan]) -> Figures | None:
    """Return the figures of the plan as the verifier computes them; raises InternalError for an illegal plan."""
    if result.answer is None or result.objective_value is None:
        return None
    claim = Claim(result.method, result.status, problem.objective, result.objective_value, result.lower_bound)
    verdict = verify(problem, result.answer, claim)
    if verdict.violations:
        raise InternalError(
            f"its plan has {len(verdict.violations)} violations, the first: {verdict.violations[0]}",
            place=f"method {result.method}",
        )
    return verdict.figures


def _document(
    reading: Reading, accelerator: Accelerator, problem: Problem, result: Result[Plan]
) -> PlanDocument | None:
    if result.answer is None or result.objective_value is None:
        return None
    from onchip.formats.own.accelerator_yaml import accelerator_source

    return PlanDocument(
        Source(problem.graph.name, graph_sha256(problem.graph)),
        accelerator_source(accelerator),
        reading,
        result.answer,
        Claim(result.method, result.status, problem.objective, result.objective_value, result.lower_bound),
        problem.transfers,
        problem.placement,
        problem.order,
        problem.durations,
        problem.recomputation,
    )


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    watch = Stopwatch()
    return work(), watch.seconds


@dataclass(frozen=True, slots=True)
class RunsAgain:
    """The permission and price of recomputation.

    `cost` is the cycle model for operators without stated cycles; the default is that of `onchip time`.
    """

    reading: Reading
    objective: Objective
    cost: str
    price: float | None

    def on(self, accelerator: Accelerator, graph: Graph) -> Recomputation | None:
        """Return the cost of additional runs, or None if they are not allowed.

        Raises UsageError for conflicting options.
        """
        if self.reading.recompute is Recompute.ALLOWED:
            cost = MACS if self.cost == MAPPING else self.cost
            return recomputation_on(accelerator, graph, self.objective, cost, self.price)
        if self.price is not None:
            raise UsageError("nothing runs again", place="--recompute-price", expected="--recompute allowed")
        if self.objective is Objective.RECOMPUTATION:
            place = f"--objective {self.objective}"
            raise UsageError("nothing may run again", place=place, expected="--recompute allowed")
        return None


def splits_are_open(problem: Problem, network: Network, reading: Reading) -> bool:
    """Return True if the reading allows splits, and some operator of the whole network can be split."""
    if reading.split is Split.NEVER or reading.cap_tensors:
        return False
    return can_split(problem, is_model=is_model(network))


def for_all_splits(result: Result[Plan], least: int) -> Result[Plan]:
    """Convert a result of one split to a status and a bound that hold for all splits.

    `least` is a lower bound for all splits. `optimal_among` keeps the proof for this split.
    """
    if result.status is Status.INFEASIBLE:
        return replace(result, status=Status.UNKNOWN, lower_bound=least, why_not=NO_PLAN)
    if result.objective_value is None:
        return replace(result, lower_bound=least)
    if result.objective_value == least:
        return replace(result, status=Status.OPTIMAL, lower_bound=least)
    among = THIS_SPLIT if result.status is Status.OPTIMAL else result.optimal_among
    return replace(result, status=Status.FEASIBLE, lower_bound=least, optimal_among=among)


def bound_of_all_splits(problem: Problem, network: Network, accelerator: Accelerator, cost: str) -> int:
    """Return a lower bound on the objective for all splits of a problem of whole operators.

    The bound is 0 for objectives that count non-compulsory transfers, and for the peak. A latency is at least that of
    all MACs on a full array, and that of the transfers that every split makes. Operators that can be decomposed into
    steps count as 0.
    """
    if problem.objective is not Objective.LATENCY:
        return 0
    graph, of_model = problem.graph, is_model(network)
    whole = [each for each in graph.operators if steps_of(each, graph, is_model=of_model) is None]
    cycles = {each.name: _least_cycles(graph, each, accelerator, cost) for each in whole}
    cycles |= dict.fromkeys(graph.operator.keys() - cycles.keys(), 0)
    durations = replace(problem.known_durations, cycles=cycles)
    ways = WaysToRun(merged_problem(replace(problem, durations=durations)))
    loaded, stored = set[str](), set[str]()
    if not graph.states and not graph.shares_bytes:
        loaded = {name for each in whole for name in _read_by_all_splits(problem, each, is_model=of_model)}
        stored = {tensor.name for tensor in problem.counted_tensors if tensor.role is Role.OUTPUT}
    return LatencyBounds(ways).least_of_parts(loaded, stored)


def _least_cycles(graph: Graph, operator: Operator, accelerator: Accelerator, cost: str) -> int:
    """Return a lower bound on the cycles of all tiles of an operator without stated cycles."""
    if accelerator.array is None or cost not in (MAPPING, MACS):
        return 0
    if cost == MACS:
        macs = MacCount(graph).macs(operator)
    else:
        nests = nests_of_operator(graph, operator, Precision(None).on(accelerator))
        macs = sum(layer.macs * times for layer, times in nests)
    return -(-macs // accelerator.array.macs)


def _read_by_all_splits(problem: Problem, operator: Operator, *, is_model: bool) -> Iterator[str]:
    """Yield the operands that the tiles of an operator read completely in every split."""
    geometry = geometry_of(operator, problem.graph, is_model=is_model)
    reads_all = dict.fromkeys(operator.reads, True)
    for access in () if geometry is None else geometry.reads:
        axes = [span.axis for span in access.spans if span.axis is not None]
        begins = all(span.axis is None or span.offset <= 0 for span in access.spans)
        reads_all[access.tensor] &= begins and len(set(axes)) == len(axes)
    yield from (name for name, is_all in reads_all.items() if is_all and problem.counts(problem.graph.tensor[name]))
