"""The page of a schedule: one HTML file that opens offline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from onchip.answer.residencies import Began, Residency
from onchip.answer.schedule import WORKSPACE
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.errors import InternalError
from onchip.ir.layer import Layer
from onchip.model.program.figures import ScheduleFigures
from onchip.plugins import PluginError, PluginGroup
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.mapping.loop_nest import loop_nest
from onchip.reports.program.memories import memory_title
from onchip.reports.schedule.network_figure import network_figure, tiling_words
from onchip.reports.schedule.operator_figures import (
    MappedNestOfOperator,
    OperatorFigures,
    figures_of_operators,
    mapped_nests,
)
from onchip.reports.schedule.outcome import ScheduleOutcome
from onchip.reports.schedule.stack_figures import (
    COPIES,
    MACS,
    TRAFFIC,
    StackFigures,
    causes,
    figures_of_stacks,
    memory_names,
    total_energy,
)
from onchip.reports.schedule.summary import bound_rows, cards, stack_rows, summary_rows
from onchip.reports.schedule.text import schedule_object
from onchip.reports.shared.address_cells import cells_meta, edges_of, most_of, shares_of
from onchip.reports.shared.bars import MAC_PAINT, PartedBars, energy_bars, memory_paints
from onchip.reports.shared.latency import PART_PAINTS, PART_WORDS
from onchip.reports.shared.level_line import level_line
from onchip.reports.shared.page import Json, Page
from onchip.reports.shared.timeline_figure import TimelineFigure
from onchip.reports.shared.words import exact_bytes, short_energy

MOST_RECTANGLES: Final = 1500
MOST_NAMED: Final = 300
"""With more, names are in the hover only: writing them takes a browser longer than drawing all else."""
COARSE_STEPS, COARSE_ADDRESSES = 500, 100
MOST_FOOTPRINT_STEPS: Final = 1200
SHADES: Final = (1.0, 0.8, 0.9)
KIND_PAINTS: Final = {
    "input": "role-input",
    "activation": "role-activation",
    "output": "role-output",
    "parameter": "role-parameter",
    "workspace": "role-workspace",
    "reloaded": "back-activation",
    "moved from another memory": "role-moved",
}

CAUSE_PAINTS: Final = {
    MACS: MAC_PAINT,
    "input": "role-input",
    "weight": "back-activation",
    "output": "role-output",
    COPIES: "role-moved",
}
CYCLE_PAINTS: Final = {PART_WORDS[name]: paint for name, paint in PART_PAINTS.items()}
TRAFFIC_PAINTS: Final = dict(zip(TRAFFIC, ("slice-load", "slice-spill", "role-input", "role-output"), strict=True))

MOST_NESTS: Final = 20
"""Of one operator: its further kinds of tiles, at the edges of its map, are counted and not shown."""

PICTURES: Final = PluginGroup[[ScheduleOutcome], Mapping[str, object]]("onchip.pictures", Mapping)
"""By name, which is the picture's title, a function that returns a figure as `reports/shared/bars.py` makes them."""


def schedule_html(outcome: ScheduleOutcome, typed: str) -> str:
    """The page's text; `typed` is the command line.

    Raises InternalError for an outcome without a schedule, UsageError where a package is missing that makes pages,
    PluginError where an outside picture cannot be drawn.
    """
    page = _ScheduledPage.of(outcome)
    values = {
        "title": f"{outcome.network.name} on {outcome.accelerator.name}",
        "cards": cards(outcome, page.figures),
        "summary_rows": summary_rows(outcome, page.figures, typed),
        "bound_rows": bound_rows(outcome),
        "stacks": stack_rows(page.stacks),
        "memories": page.memory_rows(),
        "operators": [page.operator_row(one) for one in page.operators],
        "pictures": PICTURES.names,
    }
    return Page("schedule.html.j2", ("words.js", "time.js"), page.facts(), values).html()


@dataclass(frozen=True)
class _ScheduledPage:
    outcome: ScheduleOutcome
    figures: ScheduleFigures
    history: ScheduleHistory
    stacks: Sequence[StackFigures]
    operators: Sequence[OperatorFigures]
    drawn: DrawnResidencies

    @classmethod
    def of(cls, outcome: ScheduleOutcome) -> _ScheduledPage:
        document, tiles, figures = outcome.document, outcome.tiles, outcome.figures
        if document is None or tiles is None or figures is None:
            raise InternalError("there is no schedule to draw", place="report")
        history = ScheduleHistory(document.answer, tiles, outcome.accelerator, outcome.compute_costs)
        stacks = figures_of_stacks(history, figures.timeline)
        operators = figures_of_operators(outcome.network, history)
        return cls(outcome, figures, history, stacks, operators, DrawnResidencies.of(history, MOST_RECTANGLES))

    @property
    def memories(self) -> list[Memory]:
        """The memories that the program addresses, nearest the MACs first."""
        return [level.memory for level in self.outcome.accelerator.addressed]

    def facts(self) -> Json:
        """What the page's script draws and looks up; `answer` is what `--json` says."""
        history = self.history
        starts = [one.start for one in self.figures.timeline.activities if one.queue is None]
        graph = history.tiles.graph
        return {
            "figures": self._figures(),
            "cycles": [*starts, self.figures.latency_cycles],
            "operators": [[name, graph.operator[name].kind] for name in history.operators],
            "unit": "bytes",
            "memories": [memory.name for memory in self.memories],
            "tensors": self.drawn.tensors(),
            "residencies": self.drawn.rows(),
            "answer": schedule_object(self.outcome),
        }

    def memory_rows(self) -> list[Json]:
        """Each addressed memory's title, whether its map is coarse, and how many residencies it has."""
        return [
            {
                "name": memory.name,
                "title": memory_title(memory),
                "kind": "coarse" if memory.name in self.drawn.coarse else "map",
                "residencies": self.drawn.count(memory.name),
            }
            for memory in self.memories
        ]

    def operator_row(self, one: OperatorFigures) -> Json:
        """What the section of mappings says of an operator, with the texts of its loop nests."""
        nests = mapped_nests(one, self.history)
        return {
            "name": one.name,
            "kind": one.kind,
            "stack": one.stack,
            "tiling": tiling_words(one.scheduled),
            "energy": short_energy(one.stated_energy_pj),
            "cycles": f"{one.cycles:,}",
            "nests": [_nest_row(each) for each in nests[:MOST_NESTS]],
            "further": len(nests[MOST_NESTS:]),
        }

    def _figures(self) -> Json:
        accelerator, stacks = self.outcome.accelerator, self.stacks
        figures: Json = {
            "network-plot": network_figure(self.outcome.network, self.operators, self.history.tensors_in_dram),
            "energy-plot": energy_by_memory_and_cause(stacks, accelerator),
            "stacks-by-memory": energy_of_stacks_by_memory(stacks, accelerator),
            "stacks-by-cause": energy_of_stacks_by_cause(stacks),
            "cycles-plot": cycles_of_stacks(stacks),
            "traffic-of-stacks": traffic_of_stacks(stacks),
            "timeline-plot": self._timeline(),
        }
        for number, memory in enumerate(self.memories):
            if not self.drawn.count(memory.name):
                continue
            is_coarse = memory.name in self.drawn.coarse
            indices = self.drawn.indices(memory.name)
            drawn = coarse_map(self.history, memory) if is_coarse else memory_map(self.history, memory, indices)
            figures[f"map-{number}"] = drawn
            peak_bytes = self.figures.memories[memory.name].peak_bytes
            figures[f"footprint-{number}"] = footprint(self.history, memory, peak_bytes)
        return figures | self._outside_pictures()

    def _timeline(self) -> Json:
        timeline, dma = self.figures.timeline, self.outcome.accelerator.dma
        queues = 1 if dma is None else dma.queues
        drawn = timeline.activities, timeline.places, self.memories, queues
        return TimelineFigure(*drawn, self.history.role).figure()

    def _outside_pictures(self) -> Json:
        names = enumerate(PICTURES.names)
        return {f"outside-{number}": _outside_picture(name, self.outcome) for number, name in names}


def _outside_picture(name: str, outcome: ScheduleOutcome) -> Json:
    """The figure that a plug-in draws; raises PluginError for one that cannot stand in a page."""
    draw = PICTURES.find(name)
    figure: Json = {} if draw is None else dict(draw(outcome))
    try:
        json.dumps(figure, allow_nan=False)
    except (TypeError, ValueError) as error:
        place, expected = f"plug-in {name!r} of {PICTURES.name}", "dictionaries, lists, text and finite numbers"
        raise PluginError(f"its figure is not JSON: {error}", place=place, expected=expected) from error
    return figure


def _nest_row(one: MappedNestOfOperator) -> Json:
    return {
        "title": _extents(one.problem.layer),
        "times": one.times,
        "text": loop_nest(one.problem, one.mapping),
    }


def _extents(layer: Layer) -> str:
    return ", ".join(f"{name} {size}" for name, size in layer.bounds.items() if size > 1) or "one element"


def energy_by_memory_and_cause(found: Sequence[StackFigures], accelerator: Accelerator) -> Json:
    """A bar for the MACs and for each memory; its parts are what the energy is for."""
    names = [MACS, *memory_names(accelerator)]
    total = total_energy(found)
    parts = {cause: [total.get((name, cause), 0.0) for name in names] for cause in causes(found)}
    return energy_bars(names, parts, CAUSE_PAINTS)


def energy_of_stacks_by_memory(found: Sequence[StackFigures], accelerator: Accelerator) -> Json:
    """A bar for each stack; its parts are the MACs and the memories."""
    names = memory_names(accelerator)
    parts = {name: [one.energy_at(name) for one in found] for name in (MACS, *names)}
    return energy_bars(_labels(found), parts, {MACS: MAC_PAINT, **memory_paints(names)})


def energy_of_stacks_by_cause(found: Sequence[StackFigures]) -> Json:
    """A bar for each stack; its parts are what the energy is for."""
    parts = {cause: [one.energy_for(cause) for one in found] for cause in causes(found)}
    return energy_bars(_labels(found), parts, CAUSE_PAINTS)


def cycles_of_stacks(found: Sequence[StackFigures]) -> Json:
    """A bar for each stack; its parts are computing, and what the array waits for."""
    parts = {words: [one.cycles.get(name, 0) for one in found] for name, words in PART_WORDS.items()}
    return PartedBars(_labels(found), parts, CYCLE_PAINTS, "{:,.0f} cycles".format, "cycles").figure()


def traffic_of_stacks(found: Sequence[StackFigures]) -> Json:
    """A bar for each stack; its parts are the bytes that Copies and Computes move from and to DRAM."""
    parts = {part: [one.traffic.get(part, 0) for one in found] for part in TRAFFIC}
    return PartedBars(_labels(found), parts, TRAFFIC_PAINTS, _bytes, "bytes").figure()


def _bytes(size: float) -> str:
    return exact_bytes(int(size))


def _labels(found: Sequence[StackFigures]) -> list[str]:
    return [one.label for one in found]


@dataclass(frozen=True, slots=True)
class DrawnResidencies:
    """`numbers` of the history's residencies that are drawn; memories that have too many are `coarse`."""

    history: ScheduleHistory
    numbers: tuple[int, ...]
    coarse: frozenset[str]
    counts: Mapping[str, int]

    @classmethod
    def of(cls, history: ScheduleHistory, most: int) -> DrawnResidencies:
        """Those in memories with at most so many."""
        counts = Counter(one.memory for one in history.residencies)
        coarse = frozenset(memory for memory, count in counts.items() if count > most)
        numbers = tuple(number for number, one in enumerate(history.residencies) if one.memory not in coarse)
        return cls(history, numbers, coarse, counts)

    def count(self, memory: str) -> int:
        """How many residencies a memory has."""
        return self.counts.get(memory, 0)

    def indices(self, memory: str) -> Mapping[int, int]:
        """By number of each residency in a memory, its place in the page's list."""
        residencies = self.history.residencies
        return {number: place for place, number in enumerate(self.numbers) if residencies[number].memory == memory}

    def rows(self) -> list[list[object]]:
        """Tensor, memory, offset, start and stop step, how it began; bytes of its spill, its reload and its move."""
        places = {name: place for place, name in enumerate(self._names)}
        return [_row(places, self.history.residencies[number]) for number in self.numbers]

    def tensors(self) -> list[Json]:
        """Name, role, shape, bytes, the step that makes it and those that read it; sizes of workspaces are greatest."""
        step = {name: number for number, name in enumerate(self.history.operators)}
        graph, sizes = self.history.tiles.graph, self._sizes
        found: list[Json] = []
        made: int | None
        for name in self._names:
            tensor = graph.tensor.get(name)
            if tensor is None:
                own = step[name.removesuffix(WORKSPACE)]
                made, read, shape = own, [own], "tiles of streamed operands"
            else:
                made = step[graph.producer[name].name] if name in graph.producer else None
                read = sorted(step[reader.name] for reader in graph.readers[name])
                shape = "not known" if tensor.shape is None else "\u00d7".join(map(str, tensor.shape)) or "scalar"
            size, role = sizes[name], self.history.role(name)
            found.append({"name": name, "role": role, "shape": shape, "bytes": size, "made": made, "read": read})
        return found

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(self.history.residencies[number].tensor for number in self.numbers))

    @property
    def _sizes(self) -> Mapping[str, int]:
        sizes: dict[str, int] = {}
        for number in self.numbers:
            one = self.history.residencies[number]
            sizes[one.tensor] = max(sizes.get(one.tensor, 0), one.size_bytes)
        return sizes


def _row(places: Mapping[str, int], one: Residency) -> list[object]:
    costs = (one.is_spilled, one.began is Began.RELOADED, one.began is Began.MOVED)
    where = [places[one.tensor], one.memory, one.offset_bytes, one.start_step, one.stop_step, one.began]
    return [*where, *(one.size_bytes if has_cost else 0 for has_cost in costs)]


def memory_map(history: ScheduleHistory, memory: Memory, indices: Mapping[int, int]) -> Json:
    """Step against address: a bar for each residency; `indices` are their places in the page's list of residencies.

    Where there are more residencies than can be told apart the map is coarse: a picture of cells, each of the kind that
    takes most of it. A footprint of very many steps shows of each group of neighbours the fullest one.
    """
    groups: dict[str, list[int]] = {}
    for number in indices:
        groups.setdefault(_kind(history, history.residencies[number]), []).append(number)
    is_named = len(indices) <= MOST_NAMED
    traces = [_bars(history, groups[kind], kind, indices, is_named=is_named) for kind in KIND_PAINTS if kind in groups]
    return _addressed("map", [*traces, _capacity(history, memory)], history, memory)


def coarse_map(history: ScheduleHistory, memory: Memory) -> Json:
    """Step against address: of each cell the kind that takes most of it, nothing where most of it is free."""
    steps = edges_of(history.step_count, COARSE_STEPS)
    addresses = edges_of(memory.capacity_bytes, COARSE_ADDRESSES)
    kinds = list(KIND_PAINTS)
    taken = np.zeros((len(kinds), len(addresses) - 1, len(steps) - 1))
    for one in history.residencies:
        if one.memory == memory.name:
            rows, of_rows = shares_of(addresses, one.offset_bytes, one.end_bytes)
            columns, of_columns = shares_of(steps, one.start_step, one.stop_step)
            taken[kinds.index(_kind(history, one)), rows, columns] += np.outer(of_rows, of_columns)
    cells = most_of(taken)
    trace: Json = {
        "type": "heatmap",
        "x": steps,
        "y": addresses,
        "z": cells,
        "meta": {**cells_meta(KIND_PAINTS), "timed": False},
        "hovertemplate": "about step %{x:,.0f}, address %{y:,.0f}<br>mostly %{text}<extra></extra>",
    }
    shown = {kind for row in cells for kind in row}
    keys = [_key(kind) for number, kind in enumerate(kinds) if number in shown]
    return _addressed("coarse", [trace, *keys, _capacity(history, memory)], history, memory)


def footprint(history: ScheduleHistory, memory: Memory, peak_bytes: int) -> Json:
    """Bytes resident in each step by role; the memory's peak and capacity."""
    resident = history.footprint(memory.name)
    edges = edges_of(history.step_count, MOST_FOOTPRINT_STEPS)
    shown = _fullest(resident, edges)
    traces = [
        _area(role, [resident[role][step] for step in shown], edges, shown)
        for role in KIND_PAINTS
        if any(resident.get(role, ()))
    ]
    peak = level_line(history.step_count, peak_bytes, "peak", "peak", dash="solid")
    return _addressed("footprint", [*traces, peak, _capacity(history, memory)], history, memory) | {"height": 300}


def _kind(history: ScheduleHistory, one: Residency) -> str:
    if one.began in (Began.RELOADED, Began.MOVED):
        return "reloaded" if one.began is Began.RELOADED else "moved from another memory"
    return history.role(one.tensor)


def _addressed(kind: str, traces: Sequence[Json], history: ScheduleHistory, memory: Memory) -> Json:
    top = memory.capacity_bytes * 1.04
    return {"kind": kind, "traces": list(traces), "height": 460, "x": [0, history.step_count], "y": [0, top]}


def _bars(
    history: ScheduleHistory, chosen: Sequence[int], kind: str, indices: Mapping[int, int], *, is_named: bool
) -> Json:
    ones = [history.residencies[number] for number in chosen]
    trace: Json = {
        "type": "bar",
        "name": kind,
        "x": [(one.start_step + one.stop_step) / 2 for one in ones],
        "width": [max(one.stop_step - one.start_step, 0.05) for one in ones],
        "base": [one.offset_bytes for one in ones],
        "y": [one.size_bytes for one in ones],
        "customdata": [indices[number] for number in chosen],
        "marker": {"opacity": [SHADES[number % len(SHADES)] for number in chosen]},
        "meta": {"paint": KIND_PAINTS[kind]},
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    if is_named:
        trace |= {"text": [one.tensor for one in ones], "textposition": "inside", "insidetextanchor": "middle"}
        trace |= {"textangle": 0}
    return trace


def _key(kind: str) -> Json:
    """A mark in the legend alone, as cells have none."""
    marker = {"size": 12, "symbol": "square"}
    meta = {"paint": KIND_PAINTS[kind]}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": kind,
        "x": [None],
        "y": [None],
        "marker": marker,
        "meta": meta,
    }


def _area(role: str, values: Sequence[int], edges: Sequence[int], shown: Sequence[int]) -> Json:
    """Each value from one edge to the next; the last point closes the last step."""
    notes = [[step, exact_bytes(value)] for step, value in zip(shown, values, strict=True)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": role,
        "x": list(edges),
        "y": [*values, values[-1]],
        "customdata": [*notes, notes[-1]],
        "stackgroup": "resident",
        "line": {"shape": "hv", "width": 0.8},
        "meta": {"paint": KIND_PAINTS[role], "edges": True},
        "hovertemplate": "step %{customdata[0]:,}<br>" + role + ": %{customdata[1]}<extra></extra>",
    }


def _capacity(history: ScheduleHistory, memory: Memory) -> Json:
    return level_line(history.step_count, memory.capacity_bytes, "capacity", "capacity", dash="dash")


def _fullest(resident: Mapping[str, Sequence[int]], edges: Sequence[int]) -> list[int]:
    """Of the steps between each edge and the next the one in which most is resident."""
    total = [sum(values) for values in zip(*resident.values(), strict=True)] or [0] * edges[-1]
    return [max(range(start, stop), key=total.__getitem__) for start, stop in pairwise(edges)]
