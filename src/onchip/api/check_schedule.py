"""The check of a schedule file, and the cost of a legal one by its own mappings, without any search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

from onchip.answer.document import ScheduleDocument
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.result import SearchResult, Status
from onchip.answer.schedule import Homes, ScheduledMapping, ScheduledStack, ScheduleError
from onchip.api.check_request import CheckRequest
from onchip.api.networks import Network, ensure_reading_is, network_to_schedule
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import states_energies, with_free_accesses
from onchip.bounds.network.relaxation import Relaxation, relaxation
from onchip.errors import InputError
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.accelerator_yaml import accelerator_sha256
from onchip.formats.own.graph_json import graph_sha256
from onchip.formats.own.schedule_json import DECISIONS, read_schedule
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.model.program.compute_cost import (
    ComputeCost,
    NestCost,
    OperandAtHome,
    cost_of_nests,
    cost_without_nest,
    nest_cost,
    with_declared,
)
from onchip.model.program.figures import ScheduleFigures, homes_of_computes, schedule_figures
from onchip.model.timeline.mac_count import cycles_of_plan
from onchip.model.timeline.plan_timeline import Links, PlanClock
from onchip.model.timeline.schedule_timeline import time_schedule
from onchip.ops.layers_of import Precision
from onchip.reports.execution import ChangeKind, MachineChange, Timed, TimeExplanation, changes_on, most_helpful
from onchip.reports.program.outcome import Check
from onchip.reports.schedule.outcome import ScheduleCheck, ScheduleOutcome, ScheduleSeconds
from onchip.scheduling.program.runs import NestPlace, Step, step_of
from onchip.scheduling.program.usable import ensure_usable
from onchip.search.budget.clock import Stopwatch
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph, tile_graph_of_schedule
from onchip.verify.rules import Rule, Violation
from onchip.verify.schedule.machine import ScheduleSetting, ScheduleVerdict, outside_violations
from onchip.verify.schedule.tiles import verify_stacks
from onchip.verify.schedule.verifier import verify_schedule
from onchip.without_collecting import without_collecting


@phase("reading")
@without_collecting()
def check_schedule_file(request: CheckRequest) -> ScheduleCheck:
    """Verify a schedule file for its network, which is read as the file says.

    A schedule for another network or accelerator gets a violation. Raises InputError for unreadable files, UsageError
    for contradictory options, AcceleratorError for an unusable accelerator.
    """
    document = read_schedule(request.file)
    ensure_reading_is(document.reading, request.insisted, str(request.file))
    own, other = document.accelerator, request.accelerator
    if other is not None and accelerator_sha256(load_any_accelerator(other)) != accelerator_sha256(own):
        network = network_to_schedule(request.graph_source, document.reading)
        detail = f"the schedule is for the accelerator {own.name!r} that it holds, not for {accelerator_text(other)!r}"
        differs = Violation(Rule.ACCELERATOR_DIFFERS, document.accelerator.name, detail)
        return ScheduleCheck(document, network, graph_sha256(network), ScheduleVerdict((differs,), None, ()))
    try:
        return check_schedule_document(document, request.graph_source)
    except InputError as error:
        raise error if error.file else error.in_file(str(request.file)) from None


def check_schedule_document(document: ScheduleDocument, source: Network) -> ScheduleCheck:
    """Verify a schedule for the network `source`; raises InputError as for its file."""
    network = network_to_schedule(source, document.reading)
    sha256 = graph_sha256(network)
    if document.graph.sha256 not in (None, sha256):
        planned = f"{document.graph.name!r} {document.graph.sha256}"
        detail = f"the schedule is for {planned}, and this is {network.name!r} {sha256}"
        differs = Violation(Rule.NETWORK_DIFFERS, document.graph.name, detail)
        return ScheduleCheck(document, network, sha256, ScheduleVerdict((differs,), None, ()))
    ensure_usable(document.accelerator, document.claim.objective if document.claim else ScheduleObjective.LATENCY)
    precision = precision_of(document)
    stacks = document.answer.stacks
    if found := verify_stacks(network, stacks):
        return ScheduleCheck(document, network, sha256, ScheduleVerdict(found, None, ()))
    try:
        tiles = tile_graph_of_schedule(network, document.answer, precision)
    except ScheduleError as error:
        no_tiles = Violation(Rule.NOT_IN_TILES, error.place or "stacks", f"{error.what}; expected {error.expected}")
        return ScheduleCheck(document, network, sha256, ScheduleVerdict((no_tiles,), None, ()))
    return ScheduleCheck(document, network, sha256, _verdict(document, network, tiles, precision), tiles)


def precision_of(document: ScheduleDocument) -> Precision:
    """Return the bits of a schedule's elements (None: each tensor's own) and of its partial sums."""
    reading = document.reading
    return Precision(reading.bits, reading.partial_bits).on(document.accelerator)


@phase("verifying")
def _verdict(document: ScheduleDocument, network: Graph, tiles: TileGraph, precision: Precision) -> ScheduleVerdict:
    setting = ScheduleSetting(network, document.accelerator, tiles.graph, precision.sum_bits)
    verdict = verify_schedule(setting, document.answer, document.claim, nest_cost)
    if verdict.is_legal and (found := outside_violations(setting, document.answer)):
        return replace(verdict, violations=found, figures=None)
    return verdict


@dataclass(frozen=True, slots=True)
class PricedSchedule:
    """The cost of each Compute of a legal schedule, by tile operator, and all figures."""

    costs: Mapping[str, ComputeCost]
    figures: ScheduleFigures


@phase("pricing")
def priced_schedule(document: ScheduleDocument, tiles: TileGraph) -> PricedSchedule:
    """Price a verified schedule by its own mappings, without any search."""
    schedule, accelerator = document.answer, document.accelerator
    steps = {operator.name: step_of(tiles, operator) for operator in tiles.graph.operators}
    prices = _Prices(accelerator, schedule.mappings)
    operands = {name: step.operands for name, step in steps.items()}
    homes = homes_of_computes(accelerator.addressed, schedule.program, operands)
    costs = {name: prices.of(steps[name], at) for name, at in homes}
    return PricedSchedule(costs, schedule_figures(tiles.graph, accelerator, schedule.program, costs))


@dataclass(slots=True)
class _Prices:
    """A price table of Computes; each nest is priced once, by its mapping."""

    accelerator: Accelerator
    mappings: Sequence[ScheduledMapping]
    _nests: dict[NestPlace, NestCost] = field(default_factory=dict)
    _mapping_of: dict[tuple[int, Layer, Homes], ScheduledMapping] = field(init=False)

    def __post_init__(self) -> None:
        self._mapping_of = {(one.stack, one.layer, one.homes): one for one in self.mappings}

    def of(self, step: Step, homes: Sequence[str | None]) -> ComputeCost:
        """Return the cost of a Compute whose operands have these homes."""
        found = self._alone(step, homes)
        return with_declared(found, self.accelerator, step.declared_bytes)

    def _alone(self, step: Step, homes: Sequence[str | None]) -> ComputeCost:
        """Return the cost without the workspace that the operator declares."""
        if step.nests or step.filled_bits:
            costs = [self._nest(nest) for nest in step.nest_places(homes)]
            return cost_of_nests(costs, step.filled(homes, self.accelerator))
        operands = [
            OperandAtHome(one.operand, one.bits, one.row_bits, home)
            for one, home in zip(step.operands, homes, strict=True)
        ]
        return cost_without_nest(operands, self.accelerator, step.declared_bytes)

    def _nest(self, nest: NestPlace) -> NestCost:
        if nest not in self._nests:
            one = self._mapping_of[nest.stack, nest.layer, nest.homes]
            problem = LayerProblem(one.layer, self.accelerator, one.homes, weight_is_an_input=nest.weight_is_an_input)
            self._nests[nest] = nest_cost(problem, one.mapping)
        return self._nests[nest]


ANYTHING: Final[Mapping[str, str]] = dict.fromkeys(DECISIONS, "any")
"""Space of the bound for a file without a claim."""
NOT_SAID: Final = "not said"
"""Method of a schedule without a claim."""


@phase("pricing")
def outcome_of_check(check: ScheduleCheck, source: str, read_seconds: float) -> ScheduleOutcome | None:
    """Return a checked schedule as `schedule` shows it, with the parts of its bound; None for an illegal one.

    A file without `result` is shown for minimum energy (latency if energies are unknown), with the bound over all
    schedules. A stored bound of more than 64 bits is a rounded double, so it is clipped to the value.
    """
    if check.tiles is None or not check.is_legal:
        return None
    watch, document, claim, tiles = Stopwatch(), check.document, check.document.claim, check.tiles
    schedule, machine = document.answer, document.accelerator
    priced = priced_schedule(document, tiles)
    keeps = claim is not None and claim.space["mappings"] != "any"
    is_whole, precision = document.reading.key_slices == 1, precision_of(document)
    parts = relaxation_of(check.network, machine, precision, every_memory_keeps=keeps, prices_room=is_whole)
    unclaimed = ScheduleObjective.ENERGY if states_energies(machine) else ScheduleObjective.LATENCY
    objective = unclaimed if claim is None else ScheduleObjective(claim.objective)
    value, least = objective.value_of(priced.figures), objective.value_of(parts)
    result = SearchResult(Status.FEASIBLE, schedule, value, min(least, value), 0.0, NOT_SAID)
    if claim is not None:
        bound = value if claim.status is Status.OPTIMAL else min(ceil(claim.lower_bound), value)
        result = SearchResult(claim.status, schedule, value, bound, 0.0, claim.method)
    asked = source, check.network, machine, objective, objective.unit
    space, seconds = ANYTHING if claim is None else claim.space, ScheduleSeconds(watch.seconds, 0.0, read_seconds)
    found = tiles, priced.figures, document, priced.costs, check.verdict.not_checked
    return ScheduleOutcome(*asked, result, parts, space, seconds, *found, is_from_file=True)


def relaxation_of(
    network: Graph,
    accelerator: Accelerator,
    precision: Precision,
    *,
    every_memory_keeps: bool,
    prices_room: bool = True,
) -> Relaxation:
    """Return the parts of the bound on all schedules; if every memory keeps its operands, without memory bypass.

    Capacities count only if the bound `prices_room`.
    """
    whole = tile_graph(network, [ScheduledStack((operator.name,)) for operator in network.operators], precision)
    machine, operands = with_free_accesses(accelerator), whole.nest_operands
    return relaxation(
        whole.graph,
        whole.nests,
        machine,
        every_memory_keeps=every_memory_keeps,
        operands=operands,
        prices_room=prices_room,
    )


@phase("timing")
def time_of_schedule(outcome: ScheduleOutcome) -> TimeExplanation | None:
    """Explain the latency of a schedule; None without one."""
    document, tiles, figures = outcome.document, outcome.tiles, outcome.figures
    if document is None or tiles is None or figures is None:
        return None
    accelerator, program = document.accelerator, document.answer.program

    def timed(change: MachineChange) -> Timed:
        machine, costs = change.machine(accelerator), outcome.compute_costs
        if change.kind in (ChangeKind.BANDWIDTH, ChangeKind.PORTS):
            costs = priced_schedule(replace(document, accelerator=machine), tiles).costs
        changed = {name: replace(cost, cycles=change.cycles(cost.cycles)) for name, cost in costs.items()}
        timeline = time_schedule(tiles.graph, machine, program, changed, change.roomy)
        return timeline.activities, timeline.places

    addressed = [level.memory.name for level in accelerator.addressed]
    ported = [level.memory.name for level in accelerator.levels if level.ports]
    helpful = most_helpful(changes_on(addressed, ported), figures.latency_cycles, timed)
    return TimeExplanation(figures.timeline.activities, helpful)


@phase("timing")
def time_of_plan(check: Check, accelerator: Accelerator | None, cost: str | None) -> TimeExplanation | None:
    """Explain the latency of a legal plan, on an accelerator or with its own durations; None if there are neither.

    Operators take the cycles of the named cost model; without a name, those of the plan, or of their MACs. Raises
    AcceleratorError if the accelerator, and UsageError if `cost`, lacks information.
    """
    problem, plan = check.problem, check.document.answer
    if accelerator is None and problem.durations is None:
        return None
    ported: list[str] = []
    if accelerator is not None:
        cycles = cycles_of_plan(problem, accelerator, cost)
        ported = [level.memory.name for level in accelerator.levels if level.is_scratchpad and level.ports]
    else:
        cycles = problem.known_durations.of_operator

    def timed(change: MachineChange) -> Timed:
        return _clock(check, accelerator, change, _changed(cycles, change)).run(change.roomy)

    if accelerator is None:
        activities, _ = PlanClock.stated(problem, plan).run()
    else:
        activities, _ = PlanClock(problem, plan, Links(problem, accelerator), cycles).run()
    latency = max((one.end for one in activities), default=0)
    changes = changes_on([memory.name for memory in problem.memories], ported)
    return TimeExplanation(activities, most_helpful(changes, latency, timed))


def _changed(cycles: Callable[[Operator], int], change: MachineChange) -> Callable[[Operator], int]:
    return lambda operator: change.cycles(cycles(operator))


def _clock(
    check: Check, accelerator: Accelerator | None, change: MachineChange, cycles: Callable[[Operator], int]
) -> PlanClock:
    problem, plan = check.problem, check.document.answer
    if accelerator is not None:
        return PlanClock(problem, plan, Links(problem, change.machine(accelerator)), cycles)
    return replace(PlanClock.stated(change.problem(problem), plan), compute_cycles=cycles)
