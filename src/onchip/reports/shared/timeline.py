"""The timeline of the compute array, the DMA queues, DRAM and the memories, as a figure.

With too many slices, equal periods are drawn: the height of a kind in a lane is its share of the cycles.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from onchip.arch.memory import DRAM, Memory
from onchip.model.timeline.activity import Activity, PlaceUse, array_waits
from onchip.reports.shared.figures import MOST_PLACES, RESIDENCY_PAINTS, SHADES, Json, address_cells, range_edges, trace
from onchip.reports.shared.words import PART_PAINTS, PART_WORDS, wait_lines

TIMELINE_WORDS: Final = (
    "Compute array with its stalls, DMA queues and DRAM; below, the addresses in use in each memory. The hover text of "
    "a stall names the transfer that causes it."
)
MOST_SLICES: Final = 3000
PERIODS: Final = 500
HEIGHT: Final = 0.7
"""Height of a lane; the next lane is one above."""
LANE_PIXELS, MEMORY_PIXELS, MARGIN_PIXELS = 46, 190, 130
ARRAY: Final = "array"
DRAM_LANE: Final = "DRAM"
TURN: Final = "DRAM transfer"
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
        """Number of cycles from start to stop."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class TimelineFigure:
    """The array, each DMA queue, DRAM and the scratchpads over the same cycles.

    `role_of` gives the role of a tensor, `kind_of` the kind of a Copy. If the timeline counts no DRAM transfers, a
    transfer from or to DRAM occupies DRAM from the end of its set-up.
    """

    activities: Sequence[Activity]
    places: Sequence[PlaceUse]
    memories: Sequence[Memory]
    queues: int
    role_of: Callable[[str], str]
    kind_of: Callable[[Activity], str] = lambda one: str(one.kind)
    setup_cycles: int = 0
    paints: Mapping[str, str] = field(default_factory=lambda: KIND_PAINTS, hash=False)

    def figure(self) -> Json:
        """Return a lane for the array, each DMA queue and DRAM, and a map of each scratchpad below."""
        total = max((one.end for one in self.activities), default=0) or 1
        lanes = [ARRAY, *(f"DMA {queue}" for queue in range(self.queues)), DRAM_LANE]
        slices = list(self.slices())
        drawn = slices if len(slices) <= MOST_SLICES else list(in_periods(slices, total))
        traces = [
            _slices(kind, paint, chosen)
            for kind, paint in self.paints.items()
            if (chosen := [one for one in drawn if one.kind == kind])
        ]
        used = [one for one in self.memories if any(place.memory == one.name for place in self.places)]
        for number, memory in enumerate(used, start=2):
            traces += self._map(memory, f"y{number}", total)
        return {
            "kind": "timeline",
            "traces": traces,
            "height": MARGIN_PIXELS + LANE_PIXELS * len(lanes) + MEMORY_PIXELS * len(used),
            "x": [0, total],
            "lanes": lanes,
            "memories": [{"name": memory.name, "top": memory.capacity_bytes} for memory in used],
            "sizes": {"lane": LANE_PIXELS * len(lanes), "memory": MEMORY_PIXELS},
        }

    def slices(self) -> Iterator[TimelineSlice]:
        """Yield each Compute and each Copy, its DRAM transfer, and each gap of the array with its reason."""
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
        used = [one for one in self.places if one.memory == memory.name and one.stop is not None]
        if len(used) > MOST_PLACES:
            boxes = ((self.role_of(one.tensor), one.start, one.stop or 0, *_addresses(one)) for one in used)
            cells = address_cells(boxes, (total_cycles, memory.capacity_bytes), RESIDENCY_PAINTS)
            yield {**cells, "yaxis": axis, "hovertemplate": "about cycle %{x:,.0f}<br>mostly %{text}<extra></extra>"}
            return
        by_kind: dict[str, list[PlaceUse]] = defaultdict(list)
        for one in used:
            by_kind[self.role_of(one.tensor)].append(one)
        for kind, paint in RESIDENCY_PAINTS.items():
            if by_kind[kind]:
                yield _rectangles(by_kind[kind], kind, paint, axis)


def in_periods(slices: Sequence[TimelineSlice], total_cycles: int) -> Iterator[TimelineSlice]:
    """Yield a slice for each period, lane and kind, as high as its share; the kinds of a lane are stacked."""
    count = min(PERIODS, total_cycles)
    edges = range_edges(total_cycles, PERIODS)
    busy: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in slices:
        period = bisect_right(edges, one.start) - 1
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
    """Return a name without characters that plotly would read as the beginning of a tag."""
    return text.replace("<", "&lt;")


def _when(name: str, start: int, stop: int) -> str:
    return f"{name}<br>cycles {start:,} to {stop:,} ({stop - start:,})"


def _slices(kind: str, paint: str, slices: Sequence[TimelineSlice]) -> Json:
    return trace(
        "bar",
        kind,
        [one.cycles for one in slices],
        [one.lane for one in slices],
        paint,
        f"{kind}: %{{customdata}}",
        {"timed": True},
        orientation="h",
        base=[one.start for one in slices],
        offset=[round(one.bottom - HEIGHT / 2, 4) for one in slices],
        width=[round(one.height, 4) for one in slices],
        customdata=[one.words for one in slices],
    )


def _rectangles(uses: Iterable[PlaceUse], kind: str, paint: str, axis: str) -> Json:
    ones = sorted(uses, key=lambda one: one.begun)
    return trace(
        "bar",
        kind,
        [(one.stop or one.start) - one.start for one in ones],
        [one.offset_bytes + one.size_bytes / 2 for one in ones],
        paint,
        f"{kind}: %{{customdata}}",
        {"timed": True},
        orientation="h",
        base=[one.start for one in ones],
        width=[one.size_bytes for one in ones],
        yaxis=axis,
        customdata=[_place_words(one) for one in ones],
        marker={"opacity": [SHADES[number % len(SHADES)] for number in range(len(ones))]},
    )


def _place_words(one: PlaceUse) -> str:
    addresses = "addresses {:,} to {:,}".format(*_addresses(one))
    return f"{_when(escaped(one.tensor), one.start, one.stop or one.start)}<br>{addresses}"


def _addresses(one: PlaceUse) -> tuple[int, int]:
    return one.offset_bytes, one.offset_bytes + one.size_bytes
