"""Charts that several pages share, as figures for plotly and for SVG.

A figure is a JSON object: `traces` of plotly, axes `x` and `y`, and a `kind` if the reader can zoom. Colours are names
that the page's theme resolves. A memory map with too many rectangles is drawn in cells: a cell has the kind that takes
most of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, floor, log2, log10
from typing import Final, TypeAlias

from onchip.answer.program import Began, Residency
from onchip.answer.schedule import WORKSPACE
from onchip.answer.words import exact_amount, exact_bytes, short_amount, short_bytes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor

Json: TypeAlias = dict[str, object]

PAINTS: Final = (
    "role-input", "role-activation", "role-output", "back-activation", "back-output", "role-moved", "back-input",
    "back-parameter",
)  # fmt: skip
"""Colours that readers can tell apart."""
MACS: Final = "MACs"
MAC_PAINT: Final = "role-parameter"
OPERAND_PAINTS: Final = {"input": "role-input", "weight": "back-activation", "output": "role-output"}
RELOADED, RECOMPUTED, MOVED = "reloaded", "recomputed", "moved from another memory"
RESIDENCY_PAINTS: Final = {
    "input": "role-input",
    "activation": "role-activation",
    "output": "role-output",
    "parameter": "role-parameter",
    "workspace": "role-workspace",
    RELOADED: "back-activation",
    RECOMPUTED: "back-output",
    MOVED: "role-moved",
}
"""Colour of a residency by the role of its tensor or, if it began otherwise than by a first write, by its origin."""
SHADES: Final = (1.0, 0.8, 0.9)
MOST_COLUMNS: Final = 500
MOST_ROWS: Final = 100
MOST_PLACES: Final = 1500
MOST_NAMED: Final = 300
"""Limit on rectangles whose names are drawn, because names slow browsers down; beyond, names are in the hover text."""
MOST_FOOTPRINT_STEPS: Final = 1200
MOST_LABELS: Final = 40
"""Limit on the names along an axis."""
Box: TypeAlias = tuple[str, int, int, int, int]
"""A kind, its cycles or steps [start, stop) and its addresses [low, high)."""


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
    """Return a trace of plotly; `mode` is `bar` or the mode of a scatter trace.

    `hover` is the template of the hover text, None for no text; `meta` is for the page's script.
    """
    head = {"type": "bar"} if mode == "bar" else {"type": "scatter", "mode": mode}
    hovered = {"hoverinfo": "skip"} if hover is None else {"hovertemplate": f"{hover}<extra></extra>"}
    return {**head, "name": name, "x": [*x], "y": [*y], **fields, "meta": {"paint": paint, **(meta or {})}, **hovered}


def ticks(low: float, high: float, unit: str = "", most: int = 6) -> Json:
    """Return round tick values of an axis, at most `most` and one, with their texts in readable units."""
    raw = (high - low) / most or 1.0
    if unit == "steps":
        raw, unit = max(raw, 1.0), ""
    if unit == "bytes":
        step = 2.0 ** ceil(log2(raw)) if raw > 1 else 1.0
    else:
        power = 10.0 ** floor(log10(raw))
        step = next(power * by for by in (1, 2, 5, 10) if power * by >= raw * (1 - 1e-9))
    values = [step * number for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
    return {"tickvals": values, "ticktext": [_tick(value, unit) for value in values]}


def _tick(value: float, unit: str) -> str:
    return "0" if value == 0 else short_amount(value, unit, 4).strip() if unit else f"{value:,.6g}"


def powers_of_ten(high: float, unit: str) -> Json:
    """Return tick values of a logarithmic axis from 1, with their texts in readable units."""
    values = [10.0**power for power in range(ceil(log10(max(high, 1))) + 1)]
    return {"tickvals": values, "ticktext": [_tick(value, unit) for value in values]}


def axis_of_names(names: Sequence[str]) -> Json:
    """Return an axis of positions 0, 1, ... with names, of which every k-th is shown if there are too many."""
    every = ceil(len(names) / MOST_LABELS)
    shown = range(0, len(names), max(every, 1))
    return {"tickvals": [*shown], "ticktext": [clipped(names[place]) for place in shown]}


def clipped(name: str, most: int = 24) -> str:
    """Return a name with its middle left out if it is long."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}\u2026{name[-(most // 2) :]}"


def stacked_bars(
    labels: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    paints: Mapping[str, str],
    unit: str,
    title: str = "",
    *,
    is_grouped: bool = False,
) -> Json:
    """Return bars of a quantity in `unit`, a bar for each label, without the parts that are 0 everywhere.

    `parts` maps a name to a height for each label, and `paints` maps it to a colour.
    """
    widths: Json = {} if is_grouped else {"width": [min(0.75, len(labels) / 8)] * len(labels)}
    traces = [
        trace(
            "bar",
            name,
            labels,
            heights,
            paints[name],
            f"%{{x}}<br>{name}: %{{customdata}}",
            customdata=[exact_amount(height, unit) for height in heights],
        )
        | widths
        for name, heights in parts.items()
        if any(heights)
    ]
    columns = [sum(column) for column in zip(*parts.values(), strict=True)]
    y: Json = {"title": title or unit, **ticks(0, max(columns, default=0) or 1, unit)}
    return {"traces": traces, "x": {"type": "category"}, "y": y, "bars": "group" if is_grouped else "stack"}


def energy_bars(labels: Sequence[str], parts: Mapping[str, Sequence[float]], paints: Mapping[str, str]) -> Json:
    """Return stacked bars of energies in picojoules."""
    return stacked_bars(labels, parts, paints, "pJ", "energy")


def memory_names(accelerator: Accelerator) -> list[str]:
    """Return the names of all memories, nearest the MACs first, DRAM last."""
    return [*(level.memory.name for level in accelerator.levels), DRAM]


def memory_paints(memories: Sequence[str]) -> dict[str, str]:
    """Return a colour for each memory by its position, and one for the MACs."""
    return {MACS: MAC_PAINT, **{name: PAINTS[at % len(PAINTS)] for at, name in enumerate(memories)}}


def level_line(steps: int, value: int, name: str, paint: str, *, dash: str) -> Json:
    """Return a horizontal line at a number of bytes from the first to the last step."""
    words, line, hover = f"{name} ({short_bytes(value)})", {"dash": dash, "width": 1.5}, f"{name}: {exact_bytes(value)}"
    return trace("lines", words, [0, steps], [value, value], paint, hover, {"edges": True}, line=line)


def residency_kind(role: str, began: Began) -> str:
    """Return the kind of a residency that decides its colour: its origin or the role of its tensor."""
    origins = {Began.RELOADED: RELOADED, Began.RECOMPUTED: RECOMPUTED, Began.MOVED: MOVED}
    return origins.get(began, role)


@dataclass(frozen=True, slots=True)
class ResidencyMap:
    """The residencies of one memory over `steps`; `kind_of` gives the kind of a residency."""

    memory: Memory
    steps: int
    residencies: Sequence[Residency]
    kind_of: Callable[[Residency], str]

    def figure(self, places: Mapping[int, int] | None = None) -> Json:
        """Return steps against addresses with a bar for each residency.

        `places` maps the index of each residency to draw to its place in the page's list; None draws all of the memory.
        """
        if places is None:
            places = {number: number for number, one in enumerate(self.residencies) if one.memory == self.memory.name}
        groups: dict[str, list[int]] = {}
        for number in places:
            groups.setdefault(self.kind_of(self.residencies[number]), []).append(number)
        named = len(places) <= MOST_NAMED
        traces = [
            self._bars(kind, paint, groups[kind], places, named=named)
            for kind, paint in RESIDENCY_PAINTS.items()
            if kind in groups
        ]
        return self._addressed("map", [*traces, self._capacity()])

    def coarse_figure(self) -> Json:
        """Return steps against addresses in cells, for more residencies than readers can tell apart."""
        boxes = (
            (self.kind_of(one), one.start_step, one.stop_step, one.offset_bytes, one.end_bytes)
            for one in self.residencies
            if one.memory == self.memory.name
        )
        cells = address_cells(boxes, (self.steps, self.memory.capacity_bytes), RESIDENCY_PAINTS, timed=False)
        hover = "about step %{x:,.0f}, address %{y:,.0f}<br>mostly %{text}<extra></extra>"
        shown = {kind for row in cells["z"] for kind in row}  # type: ignore[attr-defined]  # rows of cells
        square = {"size": 12, "symbol": "square"}  # marks for the legend alone: cells have none
        keys = [
            trace("markers", kind, [None], [None], paint, marker=square)
            for number, (kind, paint) in enumerate(RESIDENCY_PAINTS.items())
            if number in shown
        ]
        return self._addressed("coarse", [{**cells, "hovertemplate": hover}, *keys, self._capacity()])

    def footprint(self, parts: Mapping[str, Sequence[int]], paints: Mapping[str, str], *levels: Json) -> Json:
        """Return the bytes resident in each step by part, below the capacity; groups of steps show the fullest.

        `parts` maps a name to the bytes of each step, and `levels` are further lines.
        """
        edges = range_edges(self.steps, MOST_FOOTPRINT_STEPS)
        total = [sum(values) for values in zip(*parts.values(), strict=True)] or [0] * self.steps
        shown = [max(range(start, stop), key=total.__getitem__) for start, stop in pairwise(edges)]
        traces = [
            _area(name, [values[step] for step in shown], edges, shown, paints[name])
            for name, values in parts.items()
            if any(values)
        ]
        return self._addressed("footprint", [*traces, *levels, self._capacity()], height=300)

    def _capacity(self) -> Json:
        return level_line(self.steps, self.memory.capacity_bytes, "capacity", "capacity", dash="dash")

    def _addressed(self, kind: str, traces: Sequence[Json], height: int = 460) -> Json:
        top = self.memory.capacity_bytes * 1.04
        return {"kind": kind, "traces": list(traces), "height": height, "x": [0, self.steps], "y": [0, top]}

    def _bars(self, name: str, paint: str, chosen: Sequence[int], places: Mapping[int, int], *, named: bool) -> Json:
        ones = [self.residencies[number] for number in chosen]
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
            {"residencies": True},
            width=[max(one.stop_step - one.start_step, 0.05) for one in ones],
            base=[one.offset_bytes for one in ones],
            customdata=[places[number] for number in chosen],
            marker={"opacity": [SHADES[number % len(SHADES)] for number in chosen]},
        )
        return {**drawn, **labels}


def _area(name: str, values: Sequence[int], edges: Sequence[int], shown: Sequence[int], paint: str) -> Json:
    """Return each value from one edge to the next; the last point closes the last step."""
    notes = [[step, exact_bytes(value)] for step, value in zip(shown, values, strict=True)]
    return trace(
        "lines",
        name,
        edges,
        [*values, values[-1]],
        paint,
        "step %{customdata[0]:,}<br>" + name + ": %{customdata[1]}",
        {"edges": True},
        customdata=[*notes, notes[-1]],
        stackgroup="resident",
        line={"shape": "hv", "width": 0.8},
    )


@dataclass(frozen=True)
class DrawnResidencies:
    """The residencies that a page lists; memories with more than `most` are `coarse`, and are drawn in cells.

    `operators` are in execution order, and `role_of` gives the role of a tensor or of a workspace.
    """

    residencies: Sequence[Residency]
    graph: Graph
    operators: Sequence[str]
    role_of: Callable[[str], str]
    most: int = MOST_PLACES

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Map from memory to the number of its residencies."""
        return Counter(one.memory for one in self.residencies)

    @cached_property
    def coarse(self) -> frozenset[str]:
        """Memories with too many residencies to draw one by one."""
        return frozenset(memory for memory, count in self.counts.items() if count > self.most)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Indices of the drawn residencies."""
        return tuple(number for number, one in enumerate(self.residencies) if one.memory not in self.coarse)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Map from drawn tensor to its bytes; a workspace has its greatest size."""
        sizes: dict[str, int] = {}
        for number in self.numbers:
            one = self.residencies[number]
            sizes[one.tensor] = max(sizes.get(one.tensor, 0), one.size_bytes)
        return sizes

    def kind_of(self, one: Residency) -> str:
        """Return the kind of a residency that decides its colour."""
        return residency_kind(self.role_of(one.tensor), one.began)

    def map(self, memory: Memory) -> ResidencyMap:
        """Return the map of a memory."""
        return ResidencyMap(memory, len(self.operators), self.residencies, self.kind_of)

    def figure(self, memory: Memory) -> Json:
        """Return the memory map, in cells if the memory is coarse."""
        drawn = self.map(memory)
        if memory.name in self.coarse:
            return drawn.coarse_figure()
        places = {number: at for at, number in enumerate(self.numbers)}
        return drawn.figure({n: at for n, at in places.items() if self.residencies[n].memory == memory.name})

    def facts(self, costs_of: Callable[[int], tuple[int, int, int]]) -> Json:
        """Return the page's lists of tensors and residencies; `costs_of` gives the costs of spill, reload and move."""
        places = {name: place for place, name in enumerate(self.sizes)}
        rows = [
            [places[one.tensor], one.memory, one.offset_bytes, one.start_step, one.stop_step, one.began, *costs_of(n)]
            for n in self.numbers
            for one in [self.residencies[n]]
        ]
        step = {name: number for number, name in enumerate(self.operators)}
        return {"tensors": [self._tensor(name, step) for name in self.sizes], "residencies": rows}

    def _tensor(self, name: str, step: Mapping[str, int]) -> Json:
        tensor = self.graph.tensor.get(name)
        row: Json = {"name": name, "role": self.role_of(name), "bytes": self.sizes[name]}
        if tensor is None:
            own = step[name.removesuffix(WORKSPACE)]
            return {**row, "shape": "tiles of streamed operands", "made": own, "read": [own]}
        made = step[self.graph.producer[name].name] if name in self.graph.producer else None
        read = sorted(step[reader.name] for reader in self.graph.readers[name])
        return {**row, "shape": shape_words(tensor), "made": made, "read": read}


def shape_words(tensor: Tensor) -> str:
    """Return a shape, as 1x3x224x224 with multiplication signs."""
    return "not known" if tensor.shape is None else "\u00d7".join(map(str, tensor.shape)) or "scalar"


def memory_title(memory: Memory) -> str:
    """Return `left, 4 KiB, for input and weight`."""
    title = f"{memory.name}, {short_bytes(memory.capacity_bytes)}"
    return title if set(memory.holds) == set(Operand) else f"{title}, for {' and '.join(memory.holds)}"


def address_cells(
    boxes: Iterable[Box], size: tuple[int, int], paints: Mapping[str, str], *, timed: bool = True
) -> Json:
    """Return cycles, or steps, against addresses in cells, `size` of both; a mostly free cell is None."""
    import numpy as np

    kinds = list(paints)
    cycles, addresses = range_edges(size[0], MOST_COLUMNS), range_edges(size[1], MOST_ROWS)
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
