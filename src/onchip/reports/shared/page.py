"""HTML pages that open offline: tables, and the Plotly figures that several pages share.

Colours are names that the page's theme resolves. Detail too fine to be seen is drawn in equal periods: the height of a
kind in a lane is its share of the cycles, and a cell of a scratchpad has the kind that takes most of it.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import Final, TypeAlias

from onchip.answer.program import Residency
from onchip.answer.words import exact_bytes, short_bytes, short_energy
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Memory
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor
from onchip.model.timeline.activity import Activity, PlaceUse, array_waits
from onchip.reports.shared.words import PART_PAINTS, PART_WORDS, wait_lines

Json: TypeAlias = dict[str, object]

_ASSETS = "onchip.reports.assets"
_DRAWING = "figures.js"


def trace(
    mode: str,
    name: str,
    x: Sequence[object],
    y: Sequence[object],
    paint: str,
    hover: str | None = None,
    meta: Mapping[str, object] | None = None,
    **fields: object,
) -> Json:
    """Return a trace of plotly; `mode` is `bar` or what a scatter draws.

    `hover` is the template of the hover text, None for no text; `meta` is for the page's script.
    """
    head = {"type": "bar"} if mode == "bar" else {"type": "scatter", "mode": mode}
    hovered = {"hoverinfo": "skip"} if hover is None else {"hovertemplate": f"{hover}<extra></extra>"}
    return {**head, "name": name, "x": [*x], "y": [*y], **fields, "meta": {"paint": paint, **(meta or {})}, **hovered}


@dataclass(frozen=True, slots=True)
class Card:
    """A figure in large print; a `tone` (`good` or `fair`) colours it."""

    label: str
    value: str
    note: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of `template`: `scripts` draw figures from `facts`; `values` and `filters` go to the template.

    Scripts that draw on a canvas need no plotly.
    """

    template: str
    scripts: tuple[str, ...]
    facts: Json
    values: Mapping[str, object]
    filters: Mapping[str, Callable[..., str]] = field(default_factory=dict)
    has_plotly: bool = True

    def html(self) -> str:
        """Return the whole text of the file; raises UsageError if a package for pages is missing."""
        ensure_report_can_be_made()
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from plotly.offline import get_plotlyjs

        environment = Environment(
            loader=PackageLoader("onchip.reports", "assets"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= self.filters
        return environment.get_template(self.template).render(
            **self.values,
            style=_text("report.css"),
            script="\n".join(_text(name) for name in (_DRAWING, *self.scripts)),
            plotly=get_plotlyjs() if self.has_plotly else "",
            facts=_embedded(self.facts),
        )


def ensure_report_can_be_made() -> None:
    """Raise UsageError unless the packages that make reports are installed."""
    try:
        import jinja2
        import plotly.offline
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed",
            place="report",
            expected="the extra `report`: pip install 'onchip[report]'",
        ) from None
    del jinja2, plotly


def _text(name: str) -> str:
    return files(_ASSETS).joinpath(name).read_text(encoding="utf-8")


def _embedded(value: Json) -> str:
    """Return JSON without characters that an HTML parser could take for the end of its script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table with escaped text; numbers have commas, and None is empty."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(_shown(value))}</td>' for value in row)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


PAINTS: Final = (
    "role-input", "role-activation", "role-output", "back-activation", "back-output", "role-moved", "back-input",
    "back-parameter",
)  # fmt: skip
"""Colours that readers can tell apart."""
MAC_PAINT: Final = "role-parameter"
SHADES: Final = (1.0, 0.8, 0.9)
COLUMNS: Final = 500
ROWS: Final = 100
MOST_SLICES: Final = 3000
MOST_PLACES: Final = 1500
PERIODS: Final = 500
HEIGHT: Final = 0.7
"""Height of a lane; the next lane is one above."""
LANE_PIXELS, MEMORY_PIXELS, MARGIN_PIXELS = 46, 190, 130
ARRAY: Final = "array"
DRAM_LANE: Final = "DRAM"
TURN: Final = "turn at DRAM"
PLACE_PAINTS: Final = {kind: f"role-{kind}" for kind in ("input", "activation", "output", "parameter", "workspace")}
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
Box: TypeAlias = tuple[str, int, int, int, int]
"""A kind, its cycles or steps [start, stop) and its addresses [low, high)."""


@dataclass(frozen=True, slots=True)
class PartedBars:
    """Stacked bars: `parts` maps a name to a height for each of `labels`, and `paints` maps it to a colour.

    `words` formats a height; `title` is the title of the axis of heights.
    """

    labels: Sequence[str]
    parts: Mapping[str, Sequence[float]]
    paints: Mapping[str, str]
    words: Callable[[float], str]
    title: str

    def figure(self) -> Json:
        """Return the figure without parts that are 0 everywhere."""
        traces = [self._trace(name, heights) for name, heights in self.parts.items() if any(heights)]
        return {"traces": traces, "x": {"type": "category"}, "y": {"title": self.title}}

    def _trace(self, name: str, heights: Sequence[float]) -> Json:
        words = [self.words(height) for height in heights]
        hover = f"%{{x}}<br>{name}: %{{customdata}}"
        return trace("bar", name, self.labels, heights, self.paints[name], hover, customdata=words)


def energy_bars(labels: Sequence[str], parts: Mapping[str, Sequence[float]], paints: Mapping[str, str]) -> Json:
    """Return stacked bars of energies in picojoules."""
    return PartedBars(labels, parts, paints, short_energy, "pJ").figure()


def memory_names(accelerator: Accelerator) -> list[str]:
    """Return the names of all memories, nearest the MACs first, DRAM last."""
    return [*(level.memory.name for level in accelerator.levels), DRAM]


def memory_paints(memories: Sequence[str]) -> dict[str, str]:
    """Return a colour for each memory, by its position."""
    return {name: PAINTS[at % len(PAINTS)] for at, name in enumerate(memories)}


def level_line(steps: int, value: int, name: str, paint: str, *, dash: str) -> Json:
    """Return a horizontal line at a number of bytes from the first to the last step."""
    words, line, hover = f"{name} ({short_bytes(value)})", {"dash": dash, "width": 1.5}, f"{name}: {exact_bytes(value)}"
    return trace("lines", words, [0, steps], [value, value], paint, hover, {"level": True}, line=line)


def addressed(kind: str, traces: Sequence[Json], steps: int, memory: Memory, height: int = 460) -> Json:
    """Return a figure of steps against addresses, or against bytes, up to a memory's capacity."""
    top = memory.capacity_bytes * 1.04
    return {"kind": kind, "traces": list(traces), "height": height, "x": [0, steps], "y": [0, top]}


def capacity_line(steps: int, memory: Memory) -> Json:
    """Return the line of a memory's capacity."""
    return level_line(steps, memory.capacity_bytes, "capacity", "capacity", dash="dash")


def residency_bars(
    residencies: Sequence[Residency],
    chosen: Sequence[int],
    places: Sequence[int],
    name: str,
    paint: str,
    *,
    named: bool,
) -> Json:
    """Return a bar over steps and addresses for each chosen residency; `places` number them in the page's list."""
    ones = [residencies[number] for number in chosen]
    labels: Json = {}
    if named:
        labels = {"text": [one.tensor for one in ones], "textposition": "inside", "insidetextanchor": "middle"}
        labels |= {"textangle": 0}
    drawn = trace(
        "bar",
        name,
        [(one.start_step + one.stop_step) / 2 for one in ones],
        [one.size_bytes for one in ones],
        paint,
        "%{hovertext}",
        width=[max(one.stop_step - one.start_step, 0.05) for one in ones],
        base=[one.offset_bytes for one in ones],
        customdata=places,
        marker={"opacity": [SHADES[number % len(SHADES)] for number in chosen]},
    )
    return {**drawn, **labels}


def residency_place(tensors: Mapping[str, int], one: Residency) -> list[object]:
    """Return the tensor's number, the memory, the offset in bytes, the start and stop steps, and the beginning."""
    return [tensors[one.tensor], one.memory, one.offset_bytes, one.start_step, one.stop_step, one.began]


def shape_words(tensor: Tensor) -> str:
    """Return a shape, as 1x3x224x224 with multiplication signs."""
    return "not known" if tensor.shape is None else "\u00d7".join(map(str, tensor.shape)) or "scalar"


def tensor_row(graph: Graph, tensor: Tensor, step: Mapping[str, int]) -> Json:
    """Return name, role, shape, bytes, the step that makes a tensor and those that read it; `step` is by operator."""
    return {
        "name": tensor.name,
        "role": tensor.role,
        "shape": shape_words(tensor),
        "bytes": tensor.size_bytes,
        "made": step[graph.producer[tensor.name].name] if tensor.name in graph.producer else None,
        "read": sorted(step[reader.name] for reader in graph.readers[tensor.name]),
    }


def address_cells(
    boxes: Iterable[Box], size: tuple[int, int], paints: Mapping[str, str], *, timed: bool = True
) -> Json:
    """Return cycles, or steps, against addresses in cells, `size` of both; a mostly free cell is None."""
    import numpy as np

    kinds = list(paints)
    cycles, addresses = range_edges(size[0], COLUMNS), range_edges(size[1], ROWS)
    taken = np.zeros((len(kinds), len(addresses) - 1, len(cycles) - 1))
    for kind, start, stop, low, high in boxes:
        if start < stop:
            rows, of_rows = _shares(addresses, low, high)
            columns, of_columns = _shares(cycles, start, stop)
            taken[kinds.index(kind), rows, columns] += np.outer(of_rows, of_columns)
    most = taken.argmax(axis=0)
    is_free = taken.max(axis=0) <= 1 - taken.sum(axis=0)
    cells = [
        [None if free else int(kind) for kind, free in zip(*line, strict=True)]
        for line in zip(most, is_free, strict=True)
    ]
    meta = {"scale": "levels", "labels": kinds, "paints": list(paints.values()), "edges": True, "timed": timed}
    return {"type": "heatmap", "x": cycles, "y": addresses, "z": cells, "meta": meta}


def range_edges(length: int, most: int) -> list[int]:
    """Return the edges of at most `most` nearly equal integer ranges of [0, length)."""
    count = min(length, most)
    return [length * number // count for number in range(count + 1)]


def _shares(edges: Sequence[int], start: int, stop: int) -> tuple[slice, list[float]]:
    """Return the ranges that the non-empty [start, stop) overlaps, and its share of each."""
    first, end = bisect_right(edges, start) - 1, bisect_left(edges, stop)
    ranges = pairwise(edges[first : end + 1])
    return slice(first, end), [(min(high, stop) - max(low, start)) / (high - low) for low, high in ranges]


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

    `role_of` gives the role of a tensor, `kind_of` the kind of a Copy. If the timeline counts no turns at DRAM, a
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
        """Yield each Compute and each Copy, its turn at DRAM, and each gap of the array with its reason."""
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
            boxes = (
                (
                    self.role_of(one.tensor),
                    one.start,
                    one.stop or 0,
                    one.offset_bytes,
                    one.offset_bytes + one.size_bytes,
                )
                for one in used
            )
            cells = address_cells(boxes, (total_cycles, memory.capacity_bytes), PLACE_PAINTS)
            yield {**cells, "yaxis": axis, "hovertemplate": "about cycle %{x:,.0f}<br>mostly %{text}<extra></extra>"}
            return
        by_kind: dict[str, list[PlaceUse]] = defaultdict(list)
        for one in used:
            by_kind[self.role_of(one.tensor)].append(one)
        for kind, paint in PLACE_PAINTS.items():
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
        "marker": {"opacity": [SHADES[number % len(SHADES)] for number in range(len(ones))]},
        "meta": {"paint": paint, "timed": True},
    }


def _place_words(one: PlaceUse) -> str:
    addresses = f"addresses {one.offset_bytes:,} to {one.offset_bytes + one.size_bytes:,}"
    return f"{_when(escaped(one.tensor), one.start, one.stop or one.start)}<br>{addresses}"
