"""The `plan` use case: read -> solve -> verify -> document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, TypeVar

from onchip.answer.document import Claim, PlanDocument, Reading, Source
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Durations, Objective, Order, Placement, Problem, Recomputation, Recompute
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status
from onchip.api.durations import MAPPING, durations_of
from onchip.api.networks import Network, fitted_to_scratchpads, is_model, network_to_plan
from onchip.api.phases import phase
from onchip.api.plan_tilings import (
    WHOLE_OPERATORS,
    TiledProblem,
    can_be_tiled,
    for_all_tilings,
    searches_tilings,
    tilings_to_plan,
)
from onchip.api.target import Target, TargetFinder
from onchip.arch.accelerator import Accelerator
from onchip.arch.sharing import Share, SharedKinds
from onchip.bounds.latency.latency_bounds import LatencyBounds, merged_problem
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.errors import InternalError, UntiledError, UsageError
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.memory.methods import method_named
from onchip.memory.spill.min_peak import PARAMS as ORDERS
from onchip.model.capacity.bounds import greatest_need
from onchip.model.program.recomputation import recomputation_on
from onchip.model.timeline.mac_count import MACS, MacCount
from onchip.ops.entries import geometry_of
from onchip.ops.layers_of import Precision
from onchip.ops.nests import nests_of_operator
from onchip.reports.program.outcome import Outcome, Seconds
from onchip.scheduling.tiles.bounds import least_peak_of_tilings, smallest_need
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, Run, WarmStart
from onchip.search.strategy.start import RunStarter, silent_run, started_as_stage, with_bound, without_bound
from onchip.verify.figures import Figures
from onchip.verify.verifier import verify
from onchip.without_collecting import without_collecting

T = TypeVar("T")
PROCESSOR_SECONDS_TO_FINISH: Final = 1.6e-4
"""Processor time per operator for building, verifying and writing a plan, in seconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request of `plan`: a network, its reading, the target, the objective, and search options.

    `share` selects the shared bytes; None: as the accelerator says, or without one as the reading says. `cost` is the
    cycle model for operators without stated cycles, used for latency and recomputation; `recompute_price` is the price
    of a million of these cycles, in the objective's unit, instead of the accelerator's.
    Tilings are searched with `tiles`; None: where an operator does not fit whole.
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
    tiles: TilesOption | None = TilesOption.NEVER

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
    reading, stage = request.reading, started_as_stage(start)
    finder = TargetFinder(graph, reading.count, request.limits, stage, deadline)
    (accelerator, min_peak_bytes), budget_seconds = _timed(
        lambda: finder.accelerator(request.target, request.objective)
    )
    whole = _whole_problem(request, graph, accelerator)
    planner = _Planner(request, accelerator, whole, stage, deadline, known)
    if searches_tilings(request.tiles, whole, request.network, reading):
        (reading, asked, result), solve_seconds = _timed(lambda: planner.in_tiles(start))
        split_seconds = 0.0
    else:
        asked, split_seconds = _timed(lambda: planner.priced(fitted_to_scratchpads(whole, request.network, reading)))
        with planner.started(start, len(asked.graph.operators)) as run:
            result, solve_seconds = _timed(lambda: _with_problem(planner.solve(asked, run), asked))
        result = planner.among_whole_operators(result)
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


@dataclass(frozen=True, slots=True)
class _Planner:
    """The search for plans of whole operators, or of the best tiling."""

    request: Request
    accelerator: Accelerator
    whole: Problem
    stage: RunStarter
    deadline: Deadline
    known: Callable[[Problem], WarmStart | None]

    @property
    def is_model(self) -> bool:
        """Return True if a runtime runs the operators as nodes of a model."""
        return is_model(self.request.network)

    def priced(self, problem: Problem) -> Problem:
        """Return the problem with the durations of its operators and the cost of recomputation."""
        request, graph = self.request, problem.graph
        durations = _durations(request, graph, self.accelerator, self.stage, self.deadline)
        return replace(problem, durations=durations, recomputation=_runs_again(request, self.accelerator, graph))

    def started(self, start: RunStarter, operators: int) -> AbstractContextManager[Run]:
        """Start a run that leaves the time to finish a plan with this number of operators."""
        to_finish = self.deadline.seconds_for(PROCESSOR_SECONDS_TO_FINISH * operators)
        return start(self.request.limits, self.deadline.within(self.deadline.seconds_left - to_finish))

    def solve(self, problem: Problem, run: Run) -> SearchResult[Plan]:
        """Plan one problem, with the known answer (if it exists) as a warm start."""
        return method_named(self.request.method)(problem, replace(run, warm_start=self.known(problem)))

    def among_whole_operators(self, result: SearchResult[Plan]) -> SearchResult[Plan]:
        """Return the result, with its space unless its status holds for all tilings as well."""
        if result.space or result.answer is None or not can_be_tiled(self.whole, is_model=self.is_model):
            return result
        is_least = self.whole.objective.counts_transfers and result.objective_value == 0
        return result if is_least else replace(result, space=WHOLE_OPERATORS)

    def in_tiles(self, start: RunStarter) -> tuple[Reading, Problem, SearchResult[Plan]]:
        """Plan one tiling after another; return the best plan, with its problem and the reading that reproduces it.

        Each tiling is planned in its own order first, in half of the time left; then the best in any order. The search
        ends with a plan that no tiling can improve.
        """
        whole = self.whole
        found: list[tuple[TiledProblem, SearchResult[Plan]]] = []
        least = self._least_peak() if whole.objective is Objective.PEAK else None
        for one in self._tilings(found):
            tiled = replace(one, problem=self.priced(one.problem))
            least = self._least(tiled.problem) if least is None else least
            with self.started(start, len(tiled.problem.graph.operators)) as run:
                share = run.within(run.seconds_left / 2) if tiled.order else run
                result = self._of_tiling(tiled, least, share, Order.GIVEN if tiled.order else whole.order)
                is_over = run.stop is not None
            found.append((tiled, result))
            if is_over or result.status is Status.OPTIMAL:
                break
        if least is None:
            raise InternalError("the search tried no tiling", place="plan tiles auto")
        tiled, result = min(found, key=lambda one: inf if one[1].objective_value is None else one[1].objective_value)
        if tiled.order and result.status is not Status.OPTIMAL:
            with self.started(start, len(tiled.problem.graph.operators)) as run:
                other = self._of_tiling(tiled, least, run, Order.FREE)
            result = other if _is_better(other, result) or other.optimal_among else result
        return tiled.reading, tiled.problem, result

    def _tilings(self, found: Sequence[tuple[TiledProblem, SearchResult[Plan]]]) -> Iterator[TiledProblem]:
        """Yield tilings, found in half of the time; raises UntiledError if none is left and none has a plan."""
        half = self.deadline.within(self.deadline.seconds_left / 2)
        try:
            yield from tilings_to_plan(self.whole, self.request.network, self.request.reading, lambda: half.is_past)
        except UntiledError:
            if all(result.answer is None for _, result in found):
                raise

    def _of_tiling(self, tiled: TiledProblem, least: int, run: Run, order: Order) -> SearchResult[Plan]:
        """Plan a tiling in its own order or in any; status and bound of the result hold for all tilings.

        A proof for one tiling does not answer the question, so the work for it is limited even without limits.
        """
        told = without_bound(with_bound(run, least))
        if not run.deadline.is_set and run.limits.node_limit is None:
            told = replace(told, limits=replace(run.limits, node_limit=ORDERS.start_states))
        result = self.solve(replace(tiled.ordered, order=order), told)
        if tiled.order and order is Order.GIVEN and result.status is Status.OPTIMAL:
            result = replace(result, status=Status.FEASIBLE, lower_bound=0)
        return _with_problem(for_all_tilings(tiled.of_this(result), least), tiled.problem)

    def _least(self, asked: Problem) -> int:
        """Return a lower bound on an objective other than the peak, for all tilings."""
        timed = replace(self.whole, durations=asked.durations)
        return bound_of_all_tilings(timed, self.request.network, self.accelerator, self.request.cost)

    def _least_peak(self) -> int:
        """Return a lower bound on the peak of all tilings, found in a quarter of the time; 0 in several scratchpads.

        Operators that run again need not keep their outputs.
        """
        quarter = self.deadline.within(self.deadline.seconds_left / 4)
        if len(self.whole.memories) > 1:
            return 0
        if self.request.reading.recompute is Recompute.ALLOWED:
            return smallest_need(self.whole, is_model=self.is_model).need_bytes
        return least_peak_of_tilings(self.whole, is_model=self.is_model, is_late=lambda: quarter.is_past)


def _is_better(result: SearchResult[Plan], best: SearchResult[Plan]) -> bool:
    if result.objective_value is None or best.objective_value is None:
        return best.objective_value is None and result.objective_value is not None
    return result.objective_value < best.objective_value


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
    """Return the cost of recomputation, or None if it is not allowed; raises UsageError for conflicting options.

    Operators without stated cycles take those of `onchip time`, unless another cycle model is named.
    """
    if request.reading.recompute is Recompute.ALLOWED:
        cost = MACS if request.cost == MAPPING else request.cost
        return recomputation_on(accelerator, graph, request.objective, cost, request.recompute_price)
    if request.recompute_price is not None:
        raise UsageError("operators do not run again", place="recompute_price", expected="`recompute='allowed'`")
    if request.objective is Objective.RECOMPUTATION:
        place = f"minimize {request.objective}"
        raise UsageError("operators may not run again", place=place, expected="`recompute='allowed'`")
    return None


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
) -> SearchResult[Plan]:
    """Solve and verify a problem, until the deadline if there is one; raises InternalError if the plan is not legal."""
    limits = limits or Limits()
    with start(limits, deadline or Deadline.after(limits.time_limit_seconds)) as run:
        result = _with_problem(method_named(method)(problem, replace(run, warm_start=warm_start)), problem)
    _verified(_as_planned(problem, result), result)
    return result


def _with_problem(result: SearchResult[Plan], problem: Problem) -> SearchResult[Plan]:
    """Attach the problem to the plan, for pictures, unless the method attached its own."""
    answer = result.answer
    return replace(result, answer=answer and replace(answer, problem=answer.problem or problem))


def _as_planned(problem: Problem, result: SearchResult[Plan]) -> Problem:
    """Return the problem that a plan answers; without a plan, the given problem."""
    return problem if result.answer is None else result.answer.problem or problem


def _with_bands(reading: Reading, asked: Graph, planned: Graph) -> Reading:
    """Return the reading that reproduces the channel tiles chosen by a method."""
    bands = Counter(one.tile.operator for one in planned.operators if one.tile is not None)
    chosen = {name: bands[name] for name in asked.operator if bands[name] > 1 and name not in planned.operator}
    return replace(reading, bands={**reading.bands, **chosen}) if chosen else reading


@phase("verifying")
@without_collecting()
def _verified(problem: Problem, result: SearchResult[Plan]) -> Figures | None:
    """Return the figures of the plan as the verifier computes them; raises InternalError for an illegal plan."""
    if result.answer is None or result.objective_value is None:
        return None
    claim = Claim(result.method, result.status, problem.objective, result.objective_value, result.lower_bound)
    verdict = verify(problem, result.answer, claim)
    if verdict.violations:
        raise InternalError(
            f"the plan has {len(verdict.violations)} violations, the first: {verdict.violations[0]}",
            place=f"method {result.method}",
        )
    return verdict.figures


def _document(
    reading: Reading, accelerator: Accelerator, problem: Problem, result: SearchResult[Plan]
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


def bound_of_all_tilings(problem: Problem, network: Network, accelerator: Accelerator, cost: str) -> int:
    """Return a lower bound on the objective for all tilings of a problem of whole operators.

    The bound is 0 for objectives that count non-compulsory transfers, and for the peak. A latency is at least that of
    all MACs on a full array, and that of the transfers that every tiling makes.
    """
    if problem.objective is not Objective.LATENCY:
        return 0
    graph, of_model = problem.graph, is_model(network)
    cycles = {each.name: _least_cycles(graph, each, accelerator, cost) for each in graph.operators}
    durations = replace(problem.known_durations, cycles=cycles)
    ways = WaysToRun(merged_problem(replace(problem, durations=durations)))
    loaded, stored = set[str](), set[str]()
    if not graph.states and not graph.shares_bytes:
        loaded = {name for each in graph.operators for name in _read_by_all_tilings(problem, each, is_model=of_model)}
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


def _read_by_all_tilings(problem: Problem, operator: Operator, *, is_model: bool) -> Iterator[str]:
    """Yield the operands that the tiles of an operator read completely in every tiling."""
    geometry = geometry_of(operator, problem.graph, is_model=is_model)
    reads_all = dict.fromkeys(operator.reads, True)
    for access in () if geometry is None else geometry.reads:
        axes = [span.axis for span in access.spans if span.axis is not None]
        begins = all(span.axis is None or span.offset <= 0 for span in access.spans)
        reads_all[access.tensor] &= begins and len(set(axes)) == len(axes)
    yield from (name for name, is_all in reads_all.items() if is_all and problem.counts(problem.graph.tensor[name]))
