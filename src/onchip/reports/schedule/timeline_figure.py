"""The timeline of a schedule: the array, each DMA queue and DRAM over the cycles, as a plotly figure in plain dicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onchip.arch.memory import DRAM
from onchip.cost.schedule.activity import ScheduledActivity, ScheduleTimeline
from onchip.reports.shared.page import Json

MOST_SLICES: Final = 1500
"""More than so many of a lane cannot be told apart: those without a visible gap between them are drawn as one."""
KINDS: Final = {"compute": "slice-compute", "load": "slice-load", "write-back": "slice-spill", "move": "slice-move"}
TURN: Final = "turn at DRAM"
TURN_PAINT: Final = "kept"
ARRAY: Final = "array"


@dataclass(frozen=True, slots=True)
class Slice:
    """Cycles [start, stop) of one lane in which `count` activities of a kind run, busy for `cycles` of them."""

    lane: str
    start: int
    stop: int
    cycles: int
    count: int
    words: str


def timeline_figure(timeline: ScheduleTimeline, queues: int) -> Json:
    """A lane for the array, one for each DMA queue, and one for the turns at DRAM."""
    total = max(timeline.latency_cycles, 1)
    lanes = [ARRAY, *(f"DMA {queue}" for queue in range(queues)), "DRAM"]
    visible = total // MOST_SLICES
    by_kind: dict[str, list[Slice]] = {kind: [] for kind in KINDS}
    for one in timeline.activities:
        by_kind[_kind(one)].append(_slice(one, one.stop))
    turns = sorted((_turn(one) for one in timeline.activities if one.dram_cycles), key=lambda one: one.start)
    drawn = {**by_kind, TURN: turns}
    paints = {**KINDS, TURN: TURN_PAINT}
    traces = [_trace(kind, paints[kind], merged(slices, visible)) for kind, slices in drawn.items() if slices]
    return {"kind": "timeline", "traces": traces, "height": 130 + 46 * len(lanes), "x": [0, total], "lanes": lanes}


def merged(slices: Sequence[Slice], visible_cycles: int) -> list[Slice]:
    """Slices of one kind by lane; neighbours with a gap below `visible_cycles` become one, if there are too many."""
    if len(slices) <= MOST_SLICES:
        return list(slices)
    lanes: dict[str, list[Slice]] = {}
    for one in slices:
        lanes.setdefault(one.lane, []).append(one)
    return [joined for lane in lanes.values() for joined in _joined(lane, visible_cycles)]


def _joined(lane: Sequence[Slice], visible_cycles: int) -> Iterator[Slice]:
    last = lane[0]
    for one in lane[1:]:
        if one.start - last.stop <= visible_cycles:
            stop, words = max(last.stop, one.stop), last.words
            last = Slice(last.lane, last.start, stop, last.cycles + one.cycles, last.count + one.count, words)
        else:
            yield last
            last = one
    yield last


def _kind(one: ScheduledActivity) -> str:
    if one.queue is None:
        return "compute"
    return "load" if one.source == DRAM else "write-back" if one.target == DRAM else "move"


def _slice(one: ScheduledActivity, stop: int) -> Slice:
    lane = ARRAY if one.queue is None else f"DMA {one.queue}"
    way = "" if one.queue is None else f"<br>{one.source} to {one.target}"
    return Slice(lane, one.start, stop, stop - one.start, 1, one.subject.replace("<", "&lt;") + way)


def _turn(one: ScheduledActivity) -> Slice:
    stop = one.start + one.dram_cycles
    return Slice("DRAM", one.start, stop, one.dram_cycles, 1, one.subject.replace("<", "&lt;"))


def _trace(kind: str, paint: str, slices: Sequence[Slice]) -> Json:
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind,
        "base": [one.start for one in slices],
        "x": [one.stop - one.start for one in slices],
        "y": [one.lane for one in slices],
        "width": 0.7,
        "customdata": [_words(one) for one in slices],
        "hovertemplate": f"{kind}: %{{customdata}}<extra></extra>",
        "meta": {"paint": paint},
    }


def _words(one: Slice) -> str:
    more = f" and {one.count - 1:,} more" if one.count > 1 else ""
    return f"{one.words}{more}<br>cycles {one.start:,} to {one.stop:,} ({one.cycles:,})"
