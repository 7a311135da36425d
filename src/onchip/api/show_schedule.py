"""A schedule file presented as `schedule` would, without any search; and what shortens the latency of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from onchip.answer.document import Claim
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.result import SearchResult, Status
from onchip.answer.schedule import Schedule, ScheduledStack
from onchip.api.check_schedule import PricedSchedule, ScheduleFile, check_schedule_file, precision_of, priced_schedule
from onchip.api.networks import text_of
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import states_energies, with_free_accesses
from onchip.bounds.network.relaxation import Relaxation, relaxation
from onchip.formats.own.schedule_json import DECISIONS
from onchip.ir.operator import Operator
from onchip.model.timeline.mac_count import cycles_of_plan
from onchip.model.timeline.plan_timeline import Links, PlanClock
from onchip.model.timeline.schedule_timeline import time_schedule
from onchip.reports.execution import (
    ChangeKind,
    MachineChange,
    Timed,
    TimeExplanation,
    changes_on,
    most_helpful,
)
from onchip.reports.program.outcome import Check
from onchip.reports.schedule.outcome import ScheduleCheck, ScheduleOutcome, ScheduleSeconds
from onchip.search.budget.clock import Stopwatch
from onchip.transform.groups.tiled import tile_graph

ANYTHING: Final[Mapping[str, str]] = dict.fromkeys(DECISIONS, "any")
"""Space of the bound for a file without a claim."""
NOT_SAID: Final = "not said"
"""Method of a schedule without a claim."""


@dataclass(frozen=True, slots=True)
class ShownSchedule:
    """The check of a schedule file, and its outcome as `schedule` shows it; None if it is not legal."""

    check: ScheduleCheck
    outcome: ScheduleOutcome | None = None


@phase("pricing")
def schedule_to_show(file: ScheduleFile) -> ShownSchedule:
    """Verify a schedule file and, if it is legal, compute its figures and the parts of the bound.

    A file without `result` is shown for minimum energy (latency if energies are unknown), with the bound over all
    schedules. Raises InputError for unreadable files, UsageError for contradictory options.
    """
    reading = Stopwatch()
    check = check_schedule_file(file)
    read_seconds, figuring = reading.seconds, Stopwatch()
    if check.tiles is None or not check.is_legal:
        return ShownSchedule(check)
    priced = priced_schedule(check.document, check.tiles)
    parts = _relaxation(check)
    seconds = ScheduleSeconds(figuring.seconds, 0.0, read_seconds)
    return ShownSchedule(check, _outcome(check, priced, parts, text_of(file.network), seconds))


def _outcome(
    check: ScheduleCheck, priced: PricedSchedule, parts: Relaxation, source: str, seconds: ScheduleSeconds
) -> ScheduleOutcome:
    document = check.document
    claim = document.claim
    unclaimed = ScheduleObjective.ENERGY if states_energies(document.accelerator) else ScheduleObjective.LATENCY
    objective = unclaimed if claim is None else ScheduleObjective(claim.objective)
    value = objective.value_of(priced.figures)
    result = _result(document.answer, claim, value, objective.value_of(parts))
    return ScheduleOutcome(
        source,
        check.network,
        document.accelerator,
        objective,
        objective.unit,
        result,
        parts,
        ANYTHING if claim is None else claim.space,
        seconds,
        check.tiles,
        priced.figures,
        document,
        priced.costs,
        check.verdict.not_checked,
        is_from_file=True,
    )


def _result(schedule: Schedule, claim: Claim | None, value: int, least: int) -> SearchResult[Schedule]:
    """Return the claimed result.

    A stored bound of more than 64 bits is a rounded double, so it is clipped to the value.
    """
    if claim is None:
        return SearchResult(Status.FEASIBLE, schedule, value, min(least, value), 0.0, NOT_SAID)
    bound = value if claim.status is Status.OPTIMAL else min(ceil(claim.lower_bound), value)
    return SearchResult(claim.status, schedule, value, bound, 0.0, claim.method)


def _relaxation(check: ScheduleCheck) -> Relaxation:
    """Return the parts of the bound for the mappings that the claim covers."""
    network, document = check.network, check.document
    stacks = [ScheduledStack((operator.name,)) for operator in network.operators]
    whole = tile_graph(network, stacks, precision_of(document))
    keeps = document.claim is not None and document.claim.space["mappings"] != "any"
    graph, machine = whole.graph, with_free_accesses(document.accelerator)
    return relaxation(graph, whole.nests, machine, every_memory_keeps=keeps, operands=whole.nest_operands)


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
