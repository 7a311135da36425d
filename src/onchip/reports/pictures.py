"""The figures that show an answer in a notebook or a document, by title."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onchip.answer.program import Began, Residency
from onchip.arch.memory import Memory
from onchip.reports.shared.figures import Json, ResidencyMap, memory_title

if TYPE_CHECKING:
    from onchip.answer.problem import Problem
    from onchip.answer.program import Plan
    from onchip.reports.mapping.outcome import MappingOutcome
    from onchip.reports.packing import OverflowOutcome, PackingOutcome
    from onchip.reports.program.outcome import Outcome
    from onchip.reports.schedule.outcome import FrontOutcome, ScheduleOutcome
    from onchip.reports.stack.outcome import FusionOutcome


def memory_maps(plan: Plan, problem: Problem) -> dict[str, Json]:
    """Return the memory map of each scratchpad."""
    from onchip.reports.explain.history import History
    from onchip.reports.program.html import drawn_residencies

    drawn = drawn_residencies(History(problem, plan))
    return {f"Memory map of {memory_title(memory)}": drawn.map(memory).figure() for memory in plan.memories}


def plan_figures(outcome: Outcome) -> dict[str, Json]:
    """Return the memory maps of a plan, or nothing without a plan."""
    return {} if outcome.document is None else memory_maps(outcome.document.answer, outcome.problem)


def packing_figures(outcome: PackingOutcome | OverflowOutcome) -> dict[str, Json]:
    """Return the packed buffers over steps and offsets, or nothing without a packing."""
    answer, buffers = outcome.result.answer, outcome.problem.buffers
    if answer is None:
        return {}
    placed = [
        Residency(name, "arena", offset, one.size_bytes, at, at, one.start, one.stop, Began.COMPUTED)
        for at, (name, one, offset) in enumerate(zip(outcome.ids, buffers, answer.offsets_bytes, strict=True))
        if offset is not None
    ]
    capacity_bytes = getattr(outcome, "capacity_bytes", outcome.problem.capacity_bytes)  # None: as large as needed
    top = capacity_bytes or max((one.end_bytes for one in placed), default=0) or 1
    drawn = ResidencyMap(Memory("arena", top), len(outcome.problem.steps), placed, lambda _: "activation")
    return {f"Packing of {len(placed):,} buffers": drawn.figure()}


def schedule_figures(outcome: ScheduleOutcome) -> dict[str, Json]:
    """Return the energy breakdown and the timeline of a schedule, or nothing without a schedule."""
    from onchip.reports.schedule.html import DrawnSchedule

    if outcome.document is None or outcome.figures is None:
        return {}
    drawn = DrawnSchedule(outcome)
    return {"Energy by memory and cause": drawn.energy(), "Timeline": drawn.timeline()}


def mapping_figures(outcome: MappingOutcome) -> dict[str, Json]:
    """Return the energy and the cycle breakdown of each layer, or nothing without a mapping."""
    from onchip.reports.mapping.outcome import costed_layers, energy_by_memory, utilisation

    layers = costed_layers(outcome)
    if not layers:
        return {}
    energy = energy_by_memory(layers, outcome.accelerator)
    return {"Energy by memory": energy, "Cycle breakdown": utilisation(layers)}


def fusion_figures(outcome: FusionOutcome) -> dict[str, Json]:
    """Return the energy and the cycle breakdown of each fused group, or nothing without a strategy."""
    from onchip.reports.stack.html import energy_by_memory, latency

    if outcome.figures is None:
        return {}
    return {"Energy by memory": energy_by_memory(outcome), "Cycle breakdown": latency(outcome)}


def front_figures(outcome: FrontOutcome) -> dict[str, Json]:
    """Return a scatter plot for each pair of axes of a Pareto front, or nothing without a point."""
    from onchip.reports.schedule.outcome import front_pairs

    return front_pairs(outcome) if outcome.points else {}
