"""The timeline of a schedule: the array, each DMA queue and DRAM over the cycles, as a plotly figure in plain dicts.

What is too much to be told apart is drawn in equal periods: of each, how high a part of the lane a kind takes is its
share of the cycles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onchip.arch.memory import DRAM
from onchip.cost.activity import Activity
from onchip.cost.schedule.timeline import ScheduleTimeline
from onchip.reports.shared.page import Json

MOST_SLICES: Final = 3000
PERIODS: Final = 500
HEIGHT: Final = 0.7
"""Of a lane, of which the next is one above."""
ARRAY: Final = "array"
TURN: Final = "turn at DRAM"
KIND_PAINTS: Final = {
    "compute": "slice-compute",
    "load": "slice-load",
    "write-back": "slice-spill",
    "move": "slice-move",
    TURN: "kept",
}


@dataclass(frozen=True, slots=True)
class TimelineSlice:
    """Cycles [start, stop) of one lane; `kind` takes [bottom, bottom + height) of the lane's height."""

    lane: str
    kind: str
    start: int
    stop: int
    words: str
    bottom: float = 0.0
    height: float = HEIGHT

    @property
    def cycles(self) -> int:
        """The cycles from start to stop."""
        return self.stop - self.start


def timeline_figure(timeline: ScheduleTimeline, queues: int) -> Json:
    """A lane for the array, one for each DMA queue, and one for the turns at DRAM."""
    total = max(timeline.latency_cycles, 1)
    lanes = [ARRAY, *(f"DMA {queue}" for queue in range(queues)), "DRAM"]
    slices = list(slices_of(timeline.activities))
    drawn = slices if len(slices) <= MOST_SLICES else list(in_periods(slices, total))
    traces = [
        _trace(kind, paint, chosen)
        for kind, paint in KIND_PAINTS.items()
        if (chosen := [one for one in drawn if one.kind == kind])
    ]
    return {"kind": "timeline", "traces": traces, "height": 130 + 46 * len(lanes), "x": [0, total], "lanes": lanes}


def slices_of(activities: Iterable[Activity]) -> Iterator[TimelineSlice]:
    """Each Compute and each Copy, and its turn at DRAM."""
    for one in activities:
        name = one.subject.replace("<", "&lt;")
        if one.queue is None:
            yield TimelineSlice(ARRAY, "compute", one.start, one.stop, _when(name, one.start, one.stop))
        else:
            words = _when(f"{name}<br>{one.source} to {one.target}", one.start, one.stop)
            yield TimelineSlice(f"DMA {one.queue}", _kind_of_copy(one), one.start, one.stop, words)
        if one.dram_cycles:
            stop = one.start + one.dram_cycles
            yield TimelineSlice("DRAM", TURN, one.start, stop, _when(name, one.start, stop))


def in_periods(slices: Sequence[TimelineSlice], total_cycles: int) -> Iterator[TimelineSlice]:
    """Of each period, lane and kind a slice as high as its share; the kinds of a lane stand upon each other."""
    count = min(PERIODS, total_cycles)
    edges = [total_cycles * number // count for number in range(count + 1)]
    busy: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in slices:
        period = min(one.start * count // total_cycles, count - 1)
        while edges[period] > one.start:
            period -= 1
        while edges[period + 1] <= one.start:
            period += 1
        while period < count and edges[period] < one.stop:
            within = min(one.stop, edges[period + 1]) - max(one.start, edges[period])
            busy[period, one.lane][one.kind] += within
            period += 1
    for (period, lane), kinds in busy.items():
        start, stop, bottom = edges[period], edges[period + 1], 0.0
        for kind, cycles in sorted(kinds.items()):
            height = HEIGHT * cycles / (stop - start)
            words = _when(f"{cycles:,} of {stop - start:,} cycles", start, stop)
            yield TimelineSlice(lane, kind, start, stop, words, bottom, height)
            bottom += height


def _kind_of_copy(one: Activity) -> str:
    return "load" if one.source == DRAM else "write-back" if one.target == DRAM else "move"


def _when(name: str, start: int, stop: int) -> str:
    return f"{name}<br>cycles {start:,} to {stop:,} ({stop - start:,})"


def _trace(kind: str, paint: str, slices: Sequence[TimelineSlice]) -> Json:
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind,
        "base": [one.start for one in slices],
        "x": [one.cycles for one in slices],
        "y": [one.lane for one in slices],
        "offset": [round(one.bottom - HEIGHT / 2, 4) for one in slices],
        "width": [round(one.height, 4) for one in slices],
        "customdata": [one.words for one in slices],
        "hovertemplate": f"{kind}: %{{customdata}}<extra></extra>",
        "meta": {"paint": paint},
    }
