"""How long a plan takes, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.arch.accelerator import Accelerator
from onchip.reports.program.json_view import Json, check_object
from onchip.reports.program.outcome import Check
from onchip.reports.shared.latency import activity_object, latency_rows, wait_objects

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.model.timeline.plan_timeline import Timeline


NOT_COUNTED = "what moves within the array and its own memories: a plan has no mappings; `onchip schedule` makes them"


@dataclass(frozen=True, slots=True)
class Timing:
    """A plan that was verified and, if legal, timed."""

    check: Check
    accelerator: Accelerator
    timeline: Timeline | None = None

    @property
    def milliseconds(self) -> float | None:
        """None where the accelerator has no clock."""
        if self.timeline is None or self.accelerator.clock_mhz is None:
            return None
        return self.timeline.total_cycles / self.accelerator.clock_mhz / 1000


def timing_object(timing: Timing) -> Json:
    """Say what `time` found, every activity included; without a legal plan, `check` is as `onchip check` says it."""
    timeline = timing.timeline
    if timeline is None:
        return {"accelerator": timing.accelerator.name, "timeline": None, "check": check_object(timing.check)}
    energy = timeline.energy
    return {
        "network": timing.check.problem.graph.name,
        "accelerator": timing.accelerator.name,
        "total_cycles": timeline.total_cycles,
        "compute_cycles": timeline.compute_cycles,
        "stalled_cycles": timeline.stalled_cycles,
        "transfer_cycles": timeline.transfer_cycles,
        "dma_utilisation": timeline.dma_utilisation,
        "mac_utilisation": timeline.mac_utilisation,
        "macs": timeline.macs,
        "milliseconds": timing.milliseconds,
        "not_counted": [NOT_COUNTED],
        "energy_pj": {
            "total": energy.total_pj,
            "mac": energy.mac_pj,
            "scratchpad_read": energy.scratchpad_read_pj,
            "scratchpad_write": energy.scratchpad_write_pj,
            "dram_read": energy.dram_read_pj,
            "dram_write": energy.dram_write_pj,
        },
        "latency_parts": timeline.parts.by_name,
        "waits": wait_objects(timeline.activities),
        "timeline": [activity_object(activity, has_dram_turns=False) for activity in timeline.activities],
    }


def timing_report(timing: Timing) -> tuple[RenderableType, ...]:
    """Return the table of what `time` found: cycles, shares of use, energies."""
    from rich.text import Text

    from onchip.reports.program.terminal import check_report, facts

    timeline = timing.timeline
    if timeline is None:
        return (*check_report(timing.check), Text("the plan is not legal: it was not timed"))
    milliseconds = "" if timing.milliseconds is None else f", {timing.milliseconds:,.3f} ms"
    energy = timeline.energy
    rows = [
        ("network", repr(timing.check.problem.graph.name)),
        ("accelerator", timing.accelerator.name),
        ("time", f"{timeline.total_cycles:,} cycles{milliseconds}"),
        *latency_rows(timeline.parts),
        ("MACs in use", f"{timeline.mac_utilisation:.1%} ({timeline.macs:,} multiply-accumulates)"),
        ("DMA in use", f"{timeline.dma_utilisation:.1%}"),
        ("energy", _microjoules(energy.total_pj)),
        ("  of the MACs", _microjoules(energy.mac_pj)),
        ("  of scratchpads", _both(energy.scratchpad_read_pj, energy.scratchpad_write_pj)),
        ("  of DRAM", _both(energy.dram_read_pj, energy.dram_write_pj)),
    ]
    return facts(rows), Text(f"not counted: {NOT_COUNTED}")


def _both(read_pj: float | None, write_pj: float | None) -> str:
    return f"{_microjoules(read_pj)} reading, {_microjoules(write_pj)} writing"


def _microjoules(picojoules: float | None) -> str:
    return "not known" if picojoules is None else f"{picojoules / 1e6:,.3f} uJ"
