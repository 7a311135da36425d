"""A timeline as a trace shows it: when each instruction happens, and what the array waits for."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.model.timeline.activity import Activity
from onchip.model.timeline.array_waits import array_waits, latency_parts
from onchip.reports.shared.latency import PART_WORDS, wait_lines, wait_object
from onchip.reports.trace.spans import TracedWaits, TraceSpan, TraceWait


def traced_activities(activities: Sequence[Activity], clock_mhz: float | None) -> dict[int, TraceSpan]:
    """By instruction when a Compute or a Copy runs, in microseconds; without a clock a cycle is one."""
    microseconds = 1 / (clock_mhz or 1.0)
    return {one.instruction: _span(one.start, one.stop, microseconds, _lane(one)) for one in activities}


def traced_waits(activities: Sequence[Activity], clock_mhz: float | None) -> TracedWaits:
    """Every gap of the array with what it waits for, and the parts of the latency."""
    microseconds = 1 / (clock_mhz or 1.0)
    found = tuple(
        TraceWait(
            PART_WORDS[one.greatest_part],
            _span(one.start, one.stop, microseconds),
            {**wait_object(one, activities), "why": list(wait_lines(one, activities))},
        )
        for one in array_waits(activities)
    )
    return TracedWaits(latency_parts(activities).by_name, found)


def _lane(one: Activity) -> str | None:
    return None if one.queue is None else f"DMA queue {one.queue}"


def _span(start: int, stop: int, microseconds: float, lane: str | None = None) -> TraceSpan:
    return TraceSpan(start * microseconds, stop * microseconds, lane)
