"""The `plan` use case: the tilings to choose from, the durations of operators, the search, the check, the document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, inf, prod
from typing import Final, TypeVar

from onchip.answer.document import RECOMPUTED_MACS, Claim, PlanDocument, Reading, Source
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.operator_tiles import OperatorTiles, TilesOption
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.problem import Durations, Objective, Order, Placement, Problem, Recomputation, Recompute
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status
from onchip.answer.schedule import Homes
from onchip.api.networks import Network, fitted_to_scratchpads, is_model, network_in_runtime, network_to_plan, text_of
from onchip.api.phases import phase
from onchip.api.target import Target, TargetFinder, budgets_of, roomy_problem
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import with_assumed_energies
from onchip.arch.memory import Operand
from onchip.arch.sharing import Share, SharedKinds
from onchip.bounds.latency.latency_bounds import LatencyBounds, merged_problem
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.errors import AcceleratorError, GraphError, InternalError, UntiledError, UsageError
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.ir.tile import size_of
from onchip.mapping.methods.cache import best_mapping_at
from onchip.memory.effort import STEP
from onchip.memory.methods import method_named
from onchip.model.capacity.bounds import (
    InfeasibleOperator,
    compulsory_bytes,
    greatest_need,
    infeasible_operator,
    operator_need,
)
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest, nest_cost
from onchip.model.program.recomputation import recomputation_on
from onchip.model.timeline.mac_count import MACS, MacCount, cycles_by_model, durations_on, recomputed_macs
from onchip.ops.entries import geometry_of, has_bounded_operand
from onchip.ops.layers_of import Precision
from onchip.ops.nests import nests_of_operator, operands_of
from onchip.reports.program.outcome import Description, NeedInTiles, Outcome, RecomputingNeed, Seconds, SharedNeed
from onchip.scheduling.tiles.bounds import SmallestNeed, least_peak_of_tilings, least_spills_of_tilings, smallest_need
from onchip.scheduling.tiles.single_operators import tiles_that_fit
from onchip.scheduling.tiles.tilings import least_peaks_found, tilings, tilings_within
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, Run, WarmStart
from onchip.search.strategy.start import RunStarter, silent_run, started_as_stage, with_bound, without_bound
from onchip.transform.rewrite.shared_bytes import SharedBytes, declared_in
from onchip.transform.slices.emission import counted_geometries
from onchip.verify.figures import Figures
from onchip.verify.verifier import verify
from onchip.without_collecting import without_collecting

MAPPING: Final = "mapping"
"""Name of the cost model by mappings."""
SHARE_OF_TIME: Final = 0.3
"""Share of a limited run's time for the mappings of all layers."""
ROOM_FOR_SUMS: Final = 64
"""Maximum width in bits of a partial sum of one-bit elements."""


@phase("counting cycles")
def durations_of(graph: Graph, accelerator: Accelerator, cost: str, run: Run) -> Durations:
    """Return the durations of operators without stated cycles, by the named cost model, and of transfers.

    Raises AcceleratorError if the accelerator, and UsageError or PluginError if `cost`, lacks information.
    """
    unstated = [operator for operator in graph.operators if operator.stated.cycles is None]
    if not unstated:
        return durations_on(accelerator, {})
    if cost == MAPPING:
        cycles = cycles_by_mapping(graph, accelerator, run)
    else:
        cycles_of = cycles_by_model(cost, graph, accelerator)
        cycles = {operator.name: cycles_of(operator) for operator in unstated}
    return durations_on(accelerator, {operator.name: cycles[operator.name] for operator in unstated})


def cycles_by_mapping(graph: Graph, accelerator: Accelerator, run: Run) -> Mapping[str, int]:
    """Return by operator the latency of the best mappings found for its loop nests, with all operands in scratchpads.

    The scratchpads are enlarged to hold all operands. A tile takes its share of the whole operator's cycles; an
    operator without a loop nest moves its operands once over the slowest port. Raises AcceleratorError if the
    accelerator has no array, lacks information, or cannot run a layer.
    """
    if accelerator.array is None:
        raise AcceleratorError(
            "the accelerator has no array, so the cycles of operators are unknown",
            place=f"accelerator {accelerator.name!r}",
            expected="`array` in its file, or a network whose file states cycles",
        )
    precision = Precision(None).on(accelerator)
    nests = {one.name: tuple(nests_of_operator(graph, one, precision)) for one in graph.operators}
    distinct = {layer: name for name, own in reversed(nests.items()) for layer, _ in own}
    chip = with_assumed_energies(_with_room_for(graph, accelerator))
    cycles: dict[Layer, int] = {}
    for number, (layer, name) in enumerate(distinct.items()):
        seconds = run.seconds_left * SHARE_OF_TIME / (len(distinct) - number)
        cycles[layer] = _cycles_of_layer(layer, name, chip, run.within(seconds))
    found: dict[str, int] = {}
    for one in graph.operators:
        if nests[one.name]:
            found[one.name] = _share(graph, one, sum(cycles[layer] * times for layer, times in nests[one.name]))
        else:
            operands = operands_of(graph, one)
            moved = (OperandAtHome(each.operand, each.bits, 0, _home(accelerator, each.operand)) for each in operands)
            found[one.name] = max(1, cost_without_nest(moved, accelerator).cycles)
    return found


def _share(graph: Graph, operator: Operator, cycles: int) -> int:
    """Return the cycles of a tile: the whole operator's, times its share of the outputs and of the reduction."""
    tile = operator.tile
    if tile is None:
        return cycles
    part = Fraction(
        sum(size_of(region) for region in tile.regions), sum(prod(tile.shape[name]) for name in tile.outputs)
    )
    count = MacCount(graph)
    own, whole = count.loops(operator), count.loops_of_whole(operator)
    if tile.reduction is not None and own and whole:
        part *= Fraction(own["C"], whole["C"])
    return ceil(cycles * part)


def _with_room_for(graph: Graph, accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with scratchpads that hold all operands of an operator, partial sums included."""
    room = ROOM_FOR_SUMS * sum(tensor.size_bytes for tensor in graph.tensors)
    return accelerator.resized({one.name: max(one.capacity_bytes, room) for one in accelerator.scratchpads})


def _home(accelerator: Accelerator, operand: Operand) -> str | None:
    """Return the scratchpad nearest the MACs that holds the operand."""
    return next((memory.name for memory in accelerator.scratchpads if operand in memory.holds), None)


def _cycles_of_layer(layer: Layer, name: str, accelerator: Accelerator, run: Run) -> int:
    homes = Homes(**{str(operand): _home(accelerator, operand) for operand in Operand if operand in layer.operands})
    problem = LayerProblem(layer, accelerator, homes)
    mapping = best_mapping_at(problem, MappingObjective.LATENCY, run).answer
    if mapping is None:
        place = f"accelerator {accelerator.name!r}"
        raise AcceleratorError(
            f"unmappable operator: no mapping of {name!r} was found", place=place, expected="`cost='macs'`"
        )
    return max(1, nest_cost(problem, mapping).cycles)


WHOLE_OPERATORS: Final = "plans of whole operators"
THIS_TILING: Final = "plans of this tiling"
NO_PLAN: Final = "the tilings tried have no plan that fits; others may"


@dataclass(frozen=True, slots=True)
class TiledProblem:
    """A problem whose operators are tiles, the reading that reproduces it, and an order of the tiles to start from."""

    reading: Reading
    problem: Problem
    order: tuple[str, ...] = ()

    @property
    def ordered(self) -> Problem:
        """Return the problem with its operators in the order to start from; its plans are plans of the problem."""
        if not self.order:
            return self.problem
        graph = self.problem.graph
        return replace(self.problem, graph=replace(graph, operators=tuple(map(graph.operator.__getitem__, self.order))))

    def of_this(self, result: SearchResult[Plan]) -> SearchResult[Plan]:
        """Return a result for the ordered problem as one for the problem."""
        answer = result.answer
        if answer is None or not self.order:
            return result
        own = self.problem
        if answer.problem is not None:
            own = replace(answer.problem, graph=self.problem.graph, order=self.problem.order)
        return replace(result, answer=replace(answer, problem=own))


def can_be_tiled(problem: Problem, *, is_model: bool, operator: Operator | None = None) -> bool:
    """Return True if the operator, or some operator, can run in tiles, whether or not it fits whole."""
    geometries = counted_geometries(problem, is_model=is_model)
    asked = geometries.values() if operator is None else (geometries[operator.name],)
    return any(axis.size > 1 and not axis.is_reduction for one in asked if one is not None for axis in one.axes)


def searches_tilings(tiles: TilesOption | None, whole: Problem, network: Network, reading: Reading) -> bool:
    """Return True if tilings are searched: if asked, or by default if an operator does not fit the only scratchpad."""
    if reading.cap_tensors:
        return False
    if not can_be_tiled(whole, is_model=is_model(network)):
        return tiles is TilesOption.AUTO and infeasible_operator(whole) is not None
    if tiles is None:
        has_one_scratchpad = len(whole.memories) == 1
        return has_one_scratchpad and whole.order is Order.FREE and infeasible_operator(whole) is not None
    return tiles is TilesOption.AUTO


def tilings_to_plan(
    whole: Problem, network: Network, reading: Reading, is_late: Callable[[], bool], most_again: float = 0.0
) -> Iterator[TiledProblem]:
    """Yield fused groups in tiles; then whole operators or, if they do not fit, operators tiled one by one.

    Groups may recompute the share `most_again` of the network's multiply-accumulates.

    Raises UntiledError if no tiles are found in which all operators fit, proven if some tile of an operator exceeds the
    only scratchpad in every tiling.
    """
    misfit = infeasible_operator(whole)
    if misfit is not None:
        _ensure_some_tile_fits(whole, network, misfit)
    yield from _in_fused_groups(whole, network, reading, is_late, most_again)
    if misfit is None:
        yield TiledProblem(reading, fitted_to_scratchpads(whole, network, reading))
    else:
        yield tiled_one_by_one(whole, network, reading)


def tiled_one_by_one(whole: Problem, network: Network, reading: Reading) -> TiledProblem:
    """Return the problem with single operators in few tiles, so that all fit.

    Raises UntiledError if no tiles are found, proven if some tile of an operator exceeds the only scratchpad.
    """
    misfit = infeasible_operator(whole)
    if misfit is None:
        return TiledProblem(reading, whole)
    _ensure_some_tile_fits(whole, network, misfit)

    def emitted(tiles: Mapping[str, OperatorTiles]) -> Graph:
        return fitted_to_scratchpads(whole, network, replace(reading, tiles=tiles)).graph

    alone = tiles_that_fit(whole, emitted, is_model=is_model(network))
    if alone is None:
        least = SmallestNeed(misfit.operator, misfit.need_bytes)
        raise _untiled(whole, network, least, "it was not found to fit in any tiling", is_proven=False)
    own = replace(reading, tiles=alone)
    return TiledProblem(own, fitted_to_scratchpads(whole, network, own))


def _ensure_some_tile_fits(whole: Problem, network: Network, misfit: InfeasibleOperator) -> None:
    """Raise UntiledError if an operator does not fit the only scratchpad in any tiling."""
    if len(whole.memories) > 1:
        return
    least = smallest_need(whole, is_model=is_model(network))
    if least.need_bytes == 0 and not can_be_tiled(whole, is_model=is_model(network), operator=misfit.operator):
        least = SmallestNeed(misfit.operator, misfit.need_bytes)
    if least.need_bytes > whole.memories[0].capacity_bytes:
        raise _untiled(whole, network, least, "it does not fit in any tiling", is_proven=True)


def _untiled(whole: Problem, network: Network, least: SmallestNeed, why: str, *, is_proven: bool) -> UntiledError:
    need = operator_need(whole, least.operator).need_bytes
    part = "" if least.need_bytes == need else f", those of its smallest tile {least.need_bytes:,}"
    if has_bounded_operand(least.operator, whole.graph):
        part += "; it cannot be split, because its shapes depend on values"
    listed = ", ".join(f"{memory.name!r} has {memory.capacity_bytes:,}" for memory in whole.memories)
    return UntiledError(
        f"{why}: the operands of the {least.operator.kind} take {need:,} bytes{part}",
        operator=least.operator.name,
        need_bytes=need,
        smallest_part_bytes=least.need_bytes,
        capacity_bytes=sum(memory.capacity_bytes for memory in whole.memories),
        is_proven=is_proven,
        expected=f"a larger scratchpad ({listed})",
    ).in_file(text_of(network))


def _in_fused_groups(
    whole: Problem, network: Network, reading: Reading, is_late: Callable[[], bool], most_again: float
) -> Iterator[TiledProblem]:
    """Yield the tilings of fused groups, in the problems that have any."""
    if not has_fused_groups(whole, reading):
        return
    apart = replace(whole, graph=SharedBytes()(whole.graph))
    if reading.runtime is not None:
        yield from _in_fused_groups_of_runtime(apart, network, reading, is_late)
        return
    for tiling in tilings(apart, is_model=is_model(network), is_late=is_late, most_again=most_again):
        if tiling.tiles:
            tiled = replace(reading, tiles=tiling.tiles)
            yield TiledProblem(tiled, fitted_to_scratchpads(whole, network, tiled), tiling.order)


def has_fused_groups(whole: Problem, reading: Reading) -> bool:
    """Return True if groups are searched: in one scratchpad, in any order, where no file states the cost of tiles."""
    states_tiles = any(operator.stated.splits or operator.tile for operator in whole.graph.operators)
    return len(whole.memories) == 1 and whole.order is Order.FREE and not states_tiles and not reading.bands


LIMIT_RATIO: Final = 0.7
"""Ratio of the limits for which a runtime's tilings are made: its copies of parts take bytes that groups ignore."""
PEAKS: Final = 4
"""Number of limits, from the least on, that are tried for the smallest peak."""


def _in_fused_groups_of_runtime(
    whole: Problem, network: Network, reading: Reading, is_late: Callable[[], bool]
) -> Iterator[TiledProblem]:
    """Yield tilings that a runtime can run: of ever smaller peaks, or for the least peak of ever greater ones."""

    def limits(least: int) -> Iterator[int]:
        if whole.objective is Objective.PEAK:
            yield from (int(least / LIMIT_RATIO**step) for step in range(PEAKS))
            return
        limit = whole.memories[0].capacity_bytes
        while limit > least and not is_late():
            yield limit
            limit = int(limit * LIMIT_RATIO)
        yield least

    seen = [reading.tiles]
    for tiling in tilings_within(whole, limits, is_late):
        if tiling.tiles in seen:
            continue
        seen.append(tiling.tiles)
        tiled = replace(reading, tiles=tiling.tiles)
        with suppress(GraphError):
            found = network_in_runtime(network, tiled, whole)
            yield TiledProblem(tiled, replace(whole, graph=found.graph), found.in_order(tiling.order))


def for_all_tilings(result: SearchResult[Plan], least: int) -> SearchResult[Plan]:
    """Convert a result for one tiling to a status and a bound that hold for all tilings.

    `least` is a lower bound for all tilings. `optimal_among` keeps the proof for this tiling.
    """
    if result.status is Status.INFEASIBLE:
        return replace(result, status=Status.UNKNOWN, lower_bound=least, why_not=NO_PLAN)
    if result.objective_value is None:
        return replace(result, lower_bound=least)
    if result.objective_value <= least:
        return replace(result, status=Status.OPTIMAL, lower_bound=result.objective_value)
    among = THIS_TILING if result.status is Status.OPTIMAL else result.optimal_among
    return replace(result, status=Status.FEASIBLE, lower_bound=least, optimal_among=among)


T = TypeVar("T")
PROCESSOR_SECONDS_TO_FINISH: Final = 1.6e-4
"""Processor time per operator for building, verifying and writing a plan, in seconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request of `plan`: a network, its reading, the target, the objective, and search options.

    `share` selects the shared bytes; None: as the accelerator says, or without one as the reading says. `cost` is the
    cycle model for operators without stated cycles, used for latency and recomputation; `recompute_price` is the price
    of a million of these cycles, in the objective's unit, instead of the accelerator's.
    Tilings are searched with `tiles`; None: where an operator does not fit whole. Tiles may overlap, as long as they
    recompute at most the share `most_again` of the network's multiply-accumulates.
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
    most_again: float = 1.0

    @property
    def reading_as_shared(self) -> Reading:
        """Return the reading with the byte sharing; raises InputError for an unknown accelerator."""
        if self.share is not None:
            return replace(self.reading, sharing=SharedKinds.of(self.share))
        if self.target.accelerator is None:
            return self.reading
        from onchip.formats.foreign_files import load_any_accelerator

        return replace(self.reading, sharing=load_any_accelerator(self.target.accelerator).share)


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
    known: Callable[[Problem], WarmStart | None] = lambda _: None,
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

    @property
    def most_again(self) -> float:
        """Return the share of multiply-accumulates that overlapping tiles may recompute; 0 if there are none."""
        may_overlap = self.request.reading.recompute is Recompute.NEVER
        is_searched = has_fused_groups(self.whole, self.request.reading)
        return self.request.most_again if may_overlap and is_searched else 0.0

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
        half, request = self.deadline.within(self.deadline.seconds_left / 2), self.request
        try:
            yield from tilings_to_plan(
                self.whole, request.network, request.reading, lambda: half.is_past, self.most_again
            )
        except UntiledError:
            if all(result.answer is None for _, result in found):
                raise

    def _of_tiling(self, tiled: TiledProblem, least: int, run: Run, order: Order) -> SearchResult[Plan]:
        """Plan a tiling in its own order or in any; status and bound of the result hold for all tilings.

        A proof for one tiling does not answer the question, so the work for it is limited even without limits.
        """
        told = without_bound(with_bound(run, least))
        if not run.deadline.is_set and run.limits.node_limit is None:
            told = replace(told, limits=replace(run.limits, node_limit=STEP.whole_states))
        result = self.solve(replace(tiled.ordered, order=order), told)
        if tiled.order and order is Order.GIVEN and result.status is Status.OPTIMAL:
            result = replace(result, status=Status.FEASIBLE, lower_bound=0)
        return _with_problem(for_all_tilings(tiled.of_this(result), least), tiled.problem)

    def _least(self, asked: Problem) -> int:
        """Return a lower bound on an objective other than the peak, for all tilings, found in a quarter of the time."""
        whole, reruns = self.whole, self.request.reading.recompute is Recompute.ALLOWED
        if whole.objective is Objective.TRAFFIC and len(whole.memories) == 1 and not reruns:
            quarter = self.deadline.within(self.deadline.seconds_left / 4)
            return least_spills_of_tilings(
                whole, is_model=self.is_model, is_late=lambda: quarter.is_past, repeats=self.most_again > 0
            )
        timed = replace(self.whole, durations=asked.durations)
        return bound_of_all_tilings(timed, self.request.network, self.accelerator, self.request.cost)

    def _least_peak(self) -> int:
        """Return a lower bound on the peak of all tilings, found in a quarter of the time; 0 in several scratchpads.

        Operators that run again, and tiles that overlap, need not keep their outputs.
        """
        quarter = self.deadline.within(self.deadline.seconds_left / 4)
        if len(self.whole.memories) > 1:
            return 0
        if self.most_again or self.request.reading.recompute is Recompute.ALLOWED:
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
    claim = _claim(problem, result, result.objective_value)
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
        _claim(problem, result, result.objective_value),
        problem.transfers,
        problem.placement,
        problem.order,
        problem.durations,
        problem.recomputation,
    )


def _claim(problem: Problem, result: SearchResult[Plan], value: int) -> Claim:
    macs = recomputed_macs(problem.graph)
    figures = {} if macs is None else {RECOMPUTED_MACS: macs}
    return Claim(result.method, result.status, problem.objective, value, result.lower_bound, figures)


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


PERCENTAGES: Final = (10.0, inf)
"""Limits on recomputation in percent, for which the least peak is stated."""


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
    shared, in_tiles = needs if len(needs) > 1 else (), _need_in_tiles(alone, network, deadline)
    return Description(alone, own.required, own.least_peak, compulsory_bytes(alone), shared, in_tiles)


def _need_in_tiles(whole: Problem, network: Network, deadline: Deadline) -> NeedInTiles | None:
    """Return the least capacities of a network in tiles; None if no operator can be tiled, or with states."""
    of_model = is_model(network)
    if whole.graph.states or not can_be_tiled(whole, is_model=of_model):
        return None

    def is_late() -> bool:
        return deadline.is_past

    least = smallest_need(whole, is_model=of_model)
    bound = least_peak_of_tilings(whole, is_model=of_model, is_late=is_late)
    (peak, _), *others = least_peaks_found(whole, of_model, (0.0, *(one / 100 for one in PERCENTAGES)), is_late)
    recomputing = tuple(
        RecomputingNeed(None if limit == inf else limit, *found)
        for limit, found in zip(PERCENTAGES, others, strict=True)
    )
    count = MacCount(whole.graph)
    macs = sum(map(count.macs, whole.graph.operators))
    return NeedInTiles(least.need_bytes, least.operator.name, bound, peak, macs, recomputing)


def _sharing(whole: Graph, share: Share) -> Graph:
    """Return the network with byte sharing restricted to `share`."""
    return SharedBytes(SharedKinds.of(share), declared_in(whole, whole))(whole)
