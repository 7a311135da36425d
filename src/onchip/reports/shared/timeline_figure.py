"""One timeline: the array, each DMA queue and DRAM, and what lies where in each scratchpad, over the same cycles.

A plotly figure in plain dicts. What is too much to be told apart is drawn in equal periods: of each, how high a part of
the lane a kind takes is its share of the cycles; of a scratchpad, what takes most of each cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from onchip.arch.memory import DRAM, Memory
from onchip.model.timeline.activity import Activity, PlaceUse
from onchip.model.timeline.array_waits import array_waits
from onchip.reports.shared.address_cells import address_cells
from onchip.reports.shared.latency import PART_PAINTS, PART_WORDS, wait_lines
from onchip.reports.shared.page import Json

MOST_SLICES: Final = 3000
MOST_PLACES: Final = 1500
PERIODS: Final = 500
HEIGHT: Final = 0.7
"""Of a lane, of which the next is one above."""
LANE_PIXELS, MEMORY_PIXELS, MARGIN_PIXELS = 46, 190, 130
ARRAY: Final = "array"
DRAM_LANE: Final = "DRAM"
TURN: Final = "turn at DRAM"
PLACE_PAINTS: Final = {
    "input": "role-input",
    "activation": "role-activation",
    "output": "role-output",
    "parameter": "role-parameter",
    "workspace": "role-workspace",
}
KIND_PAINTS: Final = {
    "compute": "slice-compute",
    **{PART_WORDS[name]: paint for name, paint in PART_PAINTS.items() if name != "computing"},
    "load": "slice-load",
    "reload": "slice-reload",
    "write": "slice-write",
    "spill": "slice-spill",
    "store": "slice-spill",
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


def _kind_of(one: Activity) -> str:
    return str(one.kind)


@dataclass(frozen=True, slots=True)
class TimelineFigure:
    """What is drawn: activities, residencies in time, and the scratchpads; `role_of` says what a tensor is.

    `kind_of` says what a Compute or a Copy does. Where no turns at DRAM are counted, a transfer from or to DRAM has it
    from the end of its set-up on.
    """

    activities: Sequence[Activity]
    places: Sequence[PlaceUse]
    memories: Sequence[Memory]
    queues: int
    role_of: Callable[[str], str]
    kind_of: Callable[[Activity], str] = _kind_of
    setup_cycles: int = 0
    paints: Mapping[str, str] = field(default_factory=lambda: KIND_PAINTS, hash=False)

    def figure(self) -> Json:
        """Return a lane for the array, one for each DMA queue, one for DRAM, and below a map of each scratchpad."""
        total = max((one.end for one in self.activities), default=0) or 1
        lanes = [ARRAY, *(f"DMA {queue}" for queue in range(self.queues)), DRAM_LANE]
        slices = list(self.slices())
        drawn = slices if len(slices) <= MOST_SLICES else list(in_periods(slices, total))
        traces = [
            _trace(kind, paint, chosen)
            for kind, paint in self.paints.items()
            if (chosen := [one for one in drawn if one.kind == kind])
        ]
        used = [one for one in self.memories if any(place.memory == one.name for place in self.places)]
        for number, memory in enumerate(used, start=2):
            traces += self._map(memory, f"y{number}", total)
        height = MARGIN_PIXELS + LANE_PIXELS * len(lanes) + MEMORY_PIXELS * len(used)
        rows = [{"name": memory.name, "top": memory.capacity_bytes} for memory in used]
        sizes = {"lane": LANE_PIXELS * len(lanes), "memory": MEMORY_PIXELS}
        return {
            "kind": "timeline",
            "traces": traces,
            "height": height,
            "x": [0, total],
            "lanes": lanes,
            "memories": rows,
            "sizes": sizes,
        }

    def slices(self) -> Iterator[TimelineSlice]:
        """Yield each Compute and each Copy, its turn at DRAM, and each gap of the array with what it waits for."""
        for one in self.activities:
            name = escaped(one.subject)
            if one.queue is None:
                yield TimelineSlice(ARRAY, "compute", one.start, one.stop, _when(name, one.start, one.stop))
            else:
                words = _when(f"{name}<br>{one.source} to {one.target}", one.start, one.stop)
                yield TimelineSlice(f"DMA {one.queue}", self.kind_of(one), one.start, one.stop, words)
            start, stop = self._turn(one)
            if start < stop:
                yield TimelineSlice(DRAM_LANE, TURN, start, stop, _when(name, start, stop))
        for wait in array_waits(self.activities):
            words = "<br>".join(map(escaped, wait_lines(wait, self.activities)))
            yield TimelineSlice(ARRAY, PART_WORDS[wait.greatest_part], wait.start, wait.stop, words)

    def _turn(self, one: Activity) -> tuple[int, int]:
        if one.dram_cycles or DRAM not in (one.source, one.target):
            return one.start, one.start + one.dram_cycles
        return min(one.start + self.setup_cycles, one.stop), one.stop

    def _map(self, memory: Memory, axis: str, total_cycles: int) -> Iterator[Json]:
        """Rectangles as long as residencies are in use, or cells where there are too many of them."""
        used = [one for one in self.places if one.memory == memory.name and one.stop is not None]
        by_kind: dict[str, list[PlaceUse]] = defaultdict(list)
        for one in used:
            by_kind[self.role_of(one.tensor)].append(one)
        if len(used) > MOST_PLACES:
            cells = address_cells(by_kind, (total_cycles, memory.capacity_bytes), PLACE_PAINTS)
            yield {**cells, "yaxis": axis, "hovertemplate": "about cycle %{x:,.0f}<br>mostly %{text}<extra></extra>"}
            return
        for kind, paint in PLACE_PAINTS.items():
            if by_kind[kind]:
                yield _rectangles(by_kind[kind], kind, paint, axis)


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


def escaped(text: str) -> str:
    """A name as plotly shows it, which would take `<` for the beginning of a tag."""
    return text.replace("<", "&lt;")


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
        "meta": {"paint": paint, "timed": True},
    }


def _rectangles(uses: Iterable[PlaceUse], kind: str, paint: str, axis: str) -> Json:
    ones = sorted(uses, key=lambda one: one.begun)
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind,
        "base": [one.start for one in ones],
        "x": [(one.stop or one.start) - one.start for one in ones],
        "y": [one.offset_bytes + one.size_bytes / 2 for one in ones],
        "width": [one.size_bytes for one in ones],
        "yaxis": axis,
        "customdata": [_place_words(one) for one in ones],
        "hovertemplate": f"%{{customdata}}<extra>{kind}</extra>",
        "marker": {"opacity": [(1.0, 0.8, 0.9)[number % 3] for number in range(len(ones))]},
        "meta": {"paint": paint, "timed": True},
    }


def _place_words(one: PlaceUse) -> str:
    addresses = f"addresses {one.offset_bytes:,} to {one.offset_bytes + one.size_bytes:,}"
    return f"{_when(escaped(one.tensor), one.start, one.stop or one.start)}<br>{addresses}"
