"""Timed plans and schedules as tables and JSON objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import unknown_energy
from onchip.arch.memory import Dma
from onchip.model.program.figures import ScheduleFigures
from onchip.reports.program.outcome import Check, Json, check_object
from onchip.reports.schedule.outcome import ScheduleCheck, schedule_check_object, schedule_check_tables
from onchip.reports.shared.latency import activity_object, latency_rows, wait_objects
from onchip.reports.shared.words import picked

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.model.timeline.plan_timeline import Timeline

NOT_COUNTED = "what moves within the array and its own memories: a plan has no mappings; `onchip schedule` makes them"


def _milliseconds(cycles: int | None, clock_mhz: float | None) -> float | None:
    return None if cycles is None or clock_mhz is None else cycles / clock_mhz / 1000


@dataclass(frozen=True, slots=True)
class Timing:
    """A verified plan and, if it is legal, its timeline."""

    check: Check
    accelerator: Accelerator
    timeline: Timeline | None = None

    @property
    def milliseconds(self) -> float | None:
        """Return the latency in milliseconds, or None without a timeline or a clock."""
        cycles = None if self.timeline is None else self.timeline.total_cycles
        return _milliseconds(cycles, self.accelerator.clock_mhz)


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """A verified schedule and, if it is legal, its figures."""

    check: ScheduleCheck
    figures: ScheduleFigures | None = None

    @property
    def milliseconds(self) -> float | None:
        """Return the latency in milliseconds, or None without figures or a clock."""
        cycles = None if self.figures is None else self.figures.latency_cycles
        return _milliseconds(cycles, self.check.document.accelerator.clock_mhz)

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of all tile operators."""
        tiles = self.check.tiles
        return 0 if tiles is None else sum(nest.macs for one in tiles.operators.values() for nest in one.nests)

    @property
    def mac_utilisation(self) -> float | None:
        """Multiply-accumulates done, divided by those that the array could have done; None without an array."""
        array = self.check.document.accelerator.array
        if self.figures is None or array is None:
            return None
        return self.macs / (array.macs * self.figures.latency_cycles) if self.figures.latency_cycles else 0.0

    @property
    def dma_utilisation(self) -> float | None:
        """Share of the time in which a DMA queue is busy, set-up included."""
        if self.figures is None:
            return None
        busy = sum(one.cycles for one in self.figures.timeline.activities if one.queue is not None)
        all_cycles = (self.check.document.accelerator.dma or Dma()).queues * self.figures.latency_cycles
        return busy / all_cycles if all_cycles else 0.0


def timing_object(timing: Timing) -> Json:
    """Return the result of `time` for `--json`, with every activity; for an illegal plan, the object of `check`."""
    timeline = timing.timeline
    if timeline is None:
        return {"accelerator": timing.accelerator.name, "timeline": None, "check": check_object(timing.check)}
    parts = ("total", "mac", "scratchpad_read", "scratchpad_write", "dram_read", "dram_write")
    cycles = ("total_cycles", "compute_cycles", "stalled_cycles", "transfer_cycles")
    return {
        "network": timing.check.problem.graph.name,
        "accelerator": timing.accelerator.name,
        **picked(timeline, *cycles, "dma_utilisation", "mac_utilisation", "macs"),
        "milliseconds": timing.milliseconds,
        "not_counted": [NOT_COUNTED],
        "energy_pj": {part: getattr(timeline.energy, f"{part}_pj") for part in parts},
        "latency_parts": timeline.parts.by_name,
        "waits": wait_objects(timeline.activities),
        "timeline": [activity_object(activity, has_dram_turns=False) for activity in timeline.activities],
    }


def timing_report(timing: Timing) -> tuple[RenderableType, ...]:
    """Return the table of the result of `time`: cycles, utilisations, energies."""
    from rich.text import Text

    from onchip.reports.program.terminal import check_report, facts

    timeline = timing.timeline
    if timeline is None:
        return (*check_report(timing.check), Text("the plan is not legal: it was not timed"))
    energy = timeline.energy
    rows = [
        ("network", repr(timing.check.problem.graph.name)),
        ("accelerator", timing.accelerator.name),
        ("time", _time(timeline.total_cycles, timing.milliseconds)),
        *latency_rows(timeline.parts),
        ("MACs in use", f"{timeline.mac_utilisation:.1%} ({timeline.macs:,} multiply-accumulates)"),
        ("DMA in use", f"{timeline.dma_utilisation:.1%}"),
        ("energy", _microjoules(energy.total_pj)),
        ("  of the MACs", _microjoules(energy.mac_pj)),
        ("  of scratchpads", _both(energy.scratchpad_read_pj, energy.scratchpad_write_pj)),
        ("  of DRAM", _both(energy.dram_read_pj, energy.dram_write_pj)),
    ]
    return facts(rows), Text(f"not counted: {NOT_COUNTED}")


def schedule_timing_object(timing: ScheduleTiming) -> dict[str, object]:
    """Return the result of `time` for `--json`, with every activity; for an illegal schedule, the object of `check`."""
    figures, accelerator = timing.figures, timing.check.document.accelerator.name
    if figures is None:
        return {"accelerator": accelerator, "timeline": None, "check": schedule_check_object(timing.check)}
    return {
        "network": timing.check.network.name,
        "accelerator": accelerator,
        "total_cycles": figures.latency_cycles,
        "milliseconds": timing.milliseconds,
        "latency_parts": figures.latency.by_name,
        "waits": wait_objects(figures.timeline.activities),
        **picked(timing, "mac_utilisation", "dma_utilisation"),
        "energy_pj": {
            "total": figures.energy_pj,
            "mac": figures.energy.mac_pj,
            "memories": dict(figures.energy.by_memory_pj),
        },
        "traffic_bytes": figures.traffic_bytes,
        "timeline": [activity_object(activity) for activity in figures.timeline.activities],
    }


def schedule_timing_tables(timing: ScheduleTiming) -> Iterator[RenderableType]:
    """Yield the result of `time`, or the violations of a schedule that was not timed."""
    from rich.text import Text

    from onchip.reports.program.terminal import facts

    figures = timing.figures
    if figures is None:
        yield from schedule_check_tables(timing.check)
        yield Text("the schedule is not legal: it was not timed")
        return
    energy, use, dma = figures.energy, timing.mac_utilisation, timing.dma_utilisation
    yield facts(
        [
            ("network", repr(timing.check.network.name)),
            ("accelerator", timing.check.document.accelerator.name),
            ("time", _time(figures.latency_cycles, timing.milliseconds)),
            *latency_rows(figures.latency),
            *([("MACs in use", f"{use:.1%} ({timing.macs:,} multiply-accumulates)")] if use is not None else []),
            *([("DMA in use", f"{dma:.1%}")] if dma is not None else []),
            ("energy", _microjoules(figures.energy_pj)),
            ("  of the MACs", _microjoules(energy.mac_pj)),
            *((f"  of {name}", _microjoules(part)) for name, part in energy.by_memory_pj.items()),
            ("traffic", f"{figures.traffic_bytes:,} bytes"),
        ]
    )
    if figures.stated_energy_fj is None:
        yield Text(unknown_energy(timing.check.document.accelerator))


def _time(cycles: int, milliseconds: float | None) -> str:
    return f"{cycles:,} cycles{'' if milliseconds is None else f', {milliseconds:,.3f} ms'}"


def _both(read_pj: float | None, write_pj: float | None) -> str:
    return f"{_microjoules(read_pj)} reading, {_microjoules(write_pj)} writing"


def _microjoules(picojoules: float | None) -> str:
    return "not known" if picojoules is None else f"{picojoules / 1e6:,.3f} uJ"
