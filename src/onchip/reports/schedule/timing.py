"""How long a schedule takes and what it costs, as it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.arch.energies import unknown_energy
from onchip.arch.memory import Dma
from onchip.model.program.figures import ScheduleFigures
from onchip.reports.schedule.check import ScheduleCheck, schedule_check_object, schedule_check_tables
from onchip.reports.shared.latency import activity_object, latency_rows, wait_objects

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """A schedule that was verified and, if legal, timed; `figures` are None where it is not legal."""

    check: ScheduleCheck
    figures: ScheduleFigures | None = None

    @property
    def milliseconds(self) -> float | None:
        """None where the accelerator has no clock."""
        clock_mhz = self.check.document.accelerator.clock_mhz
        if self.figures is None or clock_mhz is None:
            return None
        return self.figures.latency_cycles / clock_mhz / 1000

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


def schedule_timing_object(timing: ScheduleTiming) -> dict[str, object]:
    """Say what `time` found, every activity included; `check` is as `onchip check` says it."""
    figures, accelerator = timing.figures, timing.check.document.accelerator.name
    if figures is None:
        return {"accelerator": accelerator, "timeline": None, "check": schedule_check_object(timing.check)}
    parts = figures.latency
    return {
        "network": timing.check.network.name,
        "accelerator": accelerator,
        "total_cycles": figures.latency_cycles,
        "milliseconds": timing.milliseconds,
        "latency_parts": parts.by_name,
        "waits": wait_objects(figures.timeline.activities),
        "mac_utilisation": timing.mac_utilisation,
        "dma_utilisation": timing.dma_utilisation,
        "energy_pj": {
            "total": figures.energy_pj,
            "mac": figures.energy.mac_pj,
            "memories": dict(figures.energy.by_memory_pj),
        },
        "traffic_bytes": figures.traffic_bytes,
        "timeline": [activity_object(activity) for activity in figures.timeline.activities],
    }


def schedule_timing_tables(timing: ScheduleTiming) -> Iterator[RenderableType]:
    """Yield what `time` found, or what is wrong with a schedule that was not timed."""
    from rich.text import Text

    from onchip.reports.program.terminal import facts

    figures = timing.figures
    if figures is None:
        yield from schedule_check_tables(timing.check)
        yield Text("the schedule is not legal: it was not timed")
        return
    milliseconds = "" if timing.milliseconds is None else f", {timing.milliseconds:,.3f} ms"
    parts, energy = figures.latency, figures.energy
    yield facts(
        [
            ("network", repr(timing.check.network.name)),
            ("accelerator", timing.check.document.accelerator.name),
            ("time", f"{figures.latency_cycles:,} cycles{milliseconds}"),
            *latency_rows(parts),
            *_utilisation(timing),
            ("energy", _microjoules(figures.energy_pj)),
            ("  of the MACs", _microjoules(energy.mac_pj)),
            *((f"  of {name}", _microjoules(part)) for name, part in energy.by_memory_pj.items()),
            ("traffic", f"{figures.traffic_bytes:,} bytes"),
        ]
    )
    if figures.stated_energy_fj is None:
        yield Text(unknown_energy(timing.check.document.accelerator))


def _utilisation(timing: ScheduleTiming) -> Iterator[tuple[str, str]]:
    if timing.mac_utilisation is not None:
        yield "MACs in use", f"{timing.mac_utilisation:.1%} ({timing.macs:,} multiply-accumulates)"
    if timing.dma_utilisation is not None:
        yield "DMA in use", f"{timing.dma_utilisation:.1%}"


def _microjoules(picojoules: float | None) -> str:
    return "not known" if picojoules is None else f"{picojoules / 1e6:,.3f} uJ"
