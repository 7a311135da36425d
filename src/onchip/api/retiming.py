"""Sensitivity of an answer's latency: the same program, timed on modified machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from onchip.api.check_schedule import priced_schedule
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
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
from onchip.reports.schedule.outcome import ScheduleOutcome


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
