"""The page of a schedule: one HTML file that opens offline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from math import log2
from platform import python_version
from typing import Final

from onchip.answer.program import Began, Residency
from onchip.answer.result import Status
from onchip.answer.schedule import WORKSPACE, ScheduledStack
from onchip.answer.words import (
    amount,
    counted,
    energy_per_mac,
    exact_bytes,
    percent,
    short_amount,
    short_bytes,
    short_energy,
)
from onchip.arch.memory import Memory
from onchip.errors import InternalError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.model.program.figures import ScheduleFigures
from onchip.plugins import PluginError, PluginGroup
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.mapping.outcome import loop_nest
from onchip.reports.program.outcome import memory_title
from onchip.reports.schedule.explanation import (
    COPIES,
    MACS,
    TRAFFIC,
    OperatorFigures,
    StackFigures,
    causes,
    figures_of_operators,
    figures_of_stacks,
    mapped_nests,
    total_energy,
)
from onchip.reports.schedule.outcome import ScheduleOutcome, schedule_object
from onchip.reports.shared.page import (
    MAC_PAINT,
    PAINTS,
    Card,
    Json,
    Page,
    PartedBars,
    TimelineFigure,
    address_cells,
    addressed,
    capacity_line,
    energy_bars,
    level_line,
    memory_names,
    memory_paints,
    range_edges,
    residency_bars,
    residency_place,
    tensor_row,
    trace,
)
from onchip.reports.shared.words import PART_PAINTS, PART_WORDS, latency_words

TILED_PAINTS: Final = PAINTS[:6]
ALONE_PAINT: Final = "role-parameter"
END_DEPTH: Final = -0.4
"""Depth below the operators of the lines from network inputs and to outputs."""
ARC_HEIGHT: Final = 0.25

MOST_NAMED_OPERATORS: Final = 24
"""Limit on operators whose names are drawn; beyond, names are in the hover text."""

Point = tuple[float, float]


def network_figure(network: Graph, found: Sequence[OperatorFigures], maps_in_dram: frozenset[str]) -> Json:
    """Return operators in order, with lines for feature maps, coloured by whether any part is in DRAM."""
    places = {one.name: place for place, one in enumerate(found)}
    in_dram, on_chip = list[Point | None](), list[Point | None]()
    for tensor, line in _lines(network, places):
        (in_dram if tensor in maps_in_dram else on_chip).extend([*line, None])
    traces = [
        _edges("feature maps that stay on the chip", "stays", on_chip),
        _edges("feature maps of which DRAM has any", "streams", in_dram),
        *_markers(found),
    ]
    return {"traces": traces, "x": _axis(found), "y": {"hidden": True}, "height": 260}


def tiling_words(stack: ScheduledStack) -> str:
    """Return `4x72 fully-cached`, or `whole`."""
    return "whole" if stack.tiling is None else str(stack.tiling)


def _axis(found: Sequence[OperatorFigures]) -> Json:
    if len(found) > MOST_NAMED_OPERATORS:
        return {"title": "operators in their order"}
    return {"tickvals": list(range(len(found))), "ticktext": [one.name for one in found]}


def _lines(network: Graph, places: dict[str, int]) -> Iterator[tuple[str, list[Point]]]:
    for operator in network.operators:
        end = float(places[operator.name])
        for name in dict.fromkeys(operator.inputs):
            if name not in network.producer:
                yield name, [(end - 0.4, END_DEPTH), (end, 0.0)]
                continue
            begin = float(places[network.producer[name].name])
            height = ARC_HEIGHT * log2(end - begin)
            yield name, [(begin, 0.0), ((begin + end) / 2, height), (end, 0.0)]
        for name in operator.outputs:
            if not network.readers[name]:
                yield name, [(end, 0.0), (end + 0.4, END_DEPTH)]


def _edges(name: str, paint: str, points: Sequence[Point | None]) -> Json:
    x, y = ([None if point is None else round(point[axis], 3) for point in points] for axis in (0, 1))
    return trace("lines", name, x, y, paint, line={"shape": "spline", "width": 1.5})


def _markers(found: Sequence[OperatorFigures]) -> Iterator[Json]:
    tiled = list(dict.fromkeys(one.stack for one in found if one.scheduled.tiling is not None))
    alone = [place for place, one in enumerate(found) if one.scheduled.tiling is None]
    if alone:
        yield _operators("alone, whole", ALONE_PAINT, alone, found)
    for number, paint in enumerate(TILED_PAINTS):
        stacks = tiled[number :: len(TILED_PAINTS)]
        chosen = [place for place, one in enumerate(found) if one.stack in stacks]
        if chosen:
            tiling = tiling_words(found[chosen[0]].scheduled)
            name = f"stack {stacks[0]}: {tiling}" if len(stacks) == 1 else f"{len(stacks)} stacks in tiles"
            yield _operators(name, paint, chosen, found)


def _operators(name: str, paint: str, chosen: Sequence[int], found: Sequence[OperatorFigures]) -> Json:
    hover, opens = [_hover(found[place]) for place in chosen], {"opens": [f"operator-{place}" for place in chosen]}
    marker = {"size": 16, "symbol": "square"}
    y = [0.0] * len(chosen)
    return trace("markers", name, chosen, y, paint, "%{customdata}", opens, customdata=hover, marker=marker)


def _hover(one: OperatorFigures) -> str:
    lines = [
        f"{one.name} ({one.kind})",
        f"stack {one.stack}, {tiling_words(one.scheduled)}, {counted(one.tile_operators, 'tile operator')}",
        f"{short_energy(one.stated_energy_pj)}, {one.cycles:,} cycles, {counted(one.macs, 'MAC')}",
        f"writes {short_bytes(one.written_bytes)}",
    ]
    return "<br>".join(line.replace("<", "&lt;") for line in lines)


Rows = list[tuple[str, str]]


def cards(outcome: ScheduleOutcome, figures: ScheduleFigures) -> tuple[Card, ...]:
    """Return the headline figures of the page."""
    result, unit = outcome.result, outcome.unit
    tone = "good" if result.status is Status.OPTIMAL else "fair"
    gap = "" if result.gap is None else f"gap {percent(result.gap)}"
    stacks = () if outcome.document is None else outcome.document.answer.stacks
    cycles, operators = figures.latency_cycles, len(outcome.network.operators)
    tiled = sum(stack.tiling is not None for stack in stacks)
    capacities = {level.memory.name: level.memory.capacity_bytes for level in outcome.accelerator.levels}
    return (
        Card("Status", str(result.status), f"least {outcome.objective}, {result.method}", tone),
        Card("Lower bound", short_amount(result.lower_bound, unit), gap),
        Card("Energy", short_energy(figures.energy_pj), _femtojoules(figures)),
        Card("Latency", short_amount(cycles, "cycles").removesuffix(" cycles"), f"{cycles:,} cycles"),
        Card("DRAM traffic", short_bytes(figures.traffic_bytes), exact_bytes(figures.traffic_bytes)),
        Card("Stacks", f"{len(stacks):,}", f"{tiled:,} in tiles, of {counted(operators, 'operator')}"),
        Card("MACs", f"{outcome.macs:,}", energy_per_mac(figures.energy_pj, outcome.macs)),
        *(
            Card(f"Peak of {name}", short_bytes(one.peak_bytes), f"{one.peak_bytes / capacities[name]:.1%} of it")
            for name, one in figures.memories.items()
        ),
    )


def summary_rows(outcome: ScheduleOutcome, figures: ScheduleFigures, typed: str) -> Rows:
    """Return every figure in all digits, and the origin of the page."""
    result, seconds = outcome.result, outcome.seconds
    return [
        ("network", f"{outcome.network.name}, {counted(len(outcome.network.operators), 'operator')}"),
        ("accelerator", outcome.accelerator.name),
        ("status", _status(outcome)),
        ("objective", f"least {outcome.objective}: {amount(result.objective_value or 0, outcome.unit)}"),
        ("lower bound", amount(result.lower_bound, outcome.unit)),
        *_figure_rows(figures),
        *_size_rows(outcome),
        *_memory_rows(outcome, figures),
        *((("remark", outcome.remark),) if outcome.remark is not None else ()),
        ("among", "; ".join(f"{what}: {how}" for what, how in outcome.proven_space.items())),
        ("verified", "every rule of a legal schedule, and every figure, recomputed by the verifier"),
        *(("accelerator", note) for note in outcome.accelerator.notes),
        *(("not checked", what) for what in outcome.not_checked),
        ("seconds", f"read {seconds.read:.3f}, solve {seconds.solve:.3f}, verify {seconds.verify:.3f}"),
        ("versions", f"onchip {version('onchip')}, plotly {version('plotly')}, Python {python_version()}"),
        ("command line", typed),
    ]


def bound_rows(outcome: ScheduleOutcome) -> list[tuple[str, str, str]]:
    """Return the parts of the bounds: name, amount, and the figure that they bound."""
    parts = outcome.relaxation
    return [
        ("multiply-accumulates", short_energy(parts.mac_pj), "energy"),
        *((f"feeding of {operand}", short_energy(part), "energy") for operand, part in parts.feeding_pj.items()),
        ("feeding of all operands under one unrolling, beyond that", short_energy(parts.unrolling_pj), "energy"),
        ("operators without a loop nest", short_energy(parts.without_nest_pj), "energy"),
        ("first reads of DRAM", short_energy(parts.dram_read_pj), "energy"),
        ("for want of room", short_energy(float(parts.crowding.energy_pj)), "energy"),
        ("all of these", amount(parts.energy_fj, "fJ"), "least energy"),
        ("the array", f"{parts.computing_cycles:,} cycles", "latency"),
        ("DRAM", f"{parts.dram_cycles:,} cycles", "latency"),
        ("DRAM for want of room, beside that", f"{int(parts.crowding.dram_cycles):,} cycles", "latency"),
        ("the array, or DRAM", f"{parts.latency_cycles:,} cycles", "least latency"),
        (
            "inputs, parameters and outputs, as needed, and what has no room",
            exact_bytes(parts.traffic_bytes),
            "least traffic",
        ),
    ]


def stack_rows(found: Sequence[StackFigures]) -> list[Json]:
    """Return a row for each stack."""
    return [
        {
            "label": one.label,
            "operators": len(one.stack.operators),
            "tiling": tiling_words(one.stack),
            "tile_operators": f"{one.tile_operators:,}",
            "macs": f"{one.macs:,}",
            "energy": short_energy(one.stated_energy_pj),
            "cycles": f"{one.latency_cycles:,}",
            "traffic": short_bytes(one.traffic_bytes),
        }
        for one in found
    ]


def _status(outcome: ScheduleOutcome) -> str:
    result = outcome.result
    if not outcome.is_from_file:
        return f"{result.status}, by method {result.method}, stopped: {result.stopped_by}"
    is_claimed = outcome.document is not None and outcome.document.claim is not None
    return (
        f"{result.status}, by method {result.method}, as its file claims" if is_claimed else "its file claims nothing"
    )


def _femtojoules(figures: ScheduleFigures) -> str:
    return "-" if figures.stated_energy_fj is None else amount(figures.stated_energy_fj, "fJ")


def _figure_rows(figures: ScheduleFigures) -> Rows:
    traffic, latency, energy = figures.traffic, figures.latency, figures.energy
    accesses = sum(energy.compute_access_pj.values())
    return [
        ("energy", _femtojoules(figures)),
        (
            "energy for",
            f"MACs {short_energy(energy.mac_pj)}, accesses of Computes {short_energy(accesses)}, "
            f"Copies {short_energy(sum(energy.copy_access_pj.values()))}",
        ),
        ("latency", f"{figures.latency_cycles:,} cycles"),
        ("cycles of", latency_words(latency)),
        ("energy x latency", "-" if figures.stated_energy_fj is None else f"{figures.edp:,} fJ x cycles"),
        ("traffic", exact_bytes(traffic.total)),
        (
            "traffic by",
            f"loads {traffic.loads:,}, write-backs {traffic.write_backs:,}, streamed in {traffic.streamed_reads:,}, "
            f"streamed out {traffic.streamed_writes:,}",
        ),
    ]


def _size_rows(outcome: ScheduleOutcome) -> Rows:
    tiles, document = outcome.tiles, outcome.document
    if tiles is None or document is None:
        return []
    schedule = document.answer
    rows = [
        ("tile operators", f"{len(tiles.operators):,}, {outcome.operators_without_nest:,} of them without a loop nest"),
        ("MACs", f"{outcome.macs:,}"),
        (
            "schedule",
            f"{counted(len(schedule.stacks), 'stack')}, {counted(len(schedule.mappings), 'mapping')}, "
            f"{counted(len(schedule.program.instructions), 'instruction')}",
        ),
    ]
    return [*rows, *([("not counted", counted(len(tiles.not_counted), "parameter"))] if tiles.not_counted else [])]


def _memory_rows(outcome: ScheduleOutcome, figures: ScheduleFigures) -> Iterator[tuple[str, str]]:
    capacities = {level.memory.name: level.memory.capacity_bytes for level in outcome.accelerator.levels}
    for name, one in figures.memories.items():
        sizes = f"peak {exact_bytes(one.peak_bytes)}, arena {exact_bytes(one.arena_bytes)}"
        yield name, f"{sizes}, of {exact_bytes(capacities[name])}"


MOST_RECTANGLES: Final = 1500
MOST_NAMED: Final = 300
"""Limit on residencies whose names are drawn, because names slow browsers down; beyond, names are in the hover text."""
MOST_FOOTPRINT_STEPS: Final = 1200
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
"""Limit on the shown loop nests of one operator; further ones, of tiles at the edges, are counted."""

PICTURES: Final = PluginGroup[[ScheduleOutcome], Mapping[str, object]]("onchip.pictures", Mapping)
"""Plug-ins by title: functions that return a figure in the form of `reports/shared/page.py`."""


def schedule_html(outcome: ScheduleOutcome, typed: str) -> str:
    """Return the page's text; `typed` is the command line.

    Raises InternalError without a schedule, UsageError if a package for pages is missing, PluginError for a plug-in
    picture that cannot be drawn.
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
        """Memories that the program addresses, nearest the MACs first."""
        return [level.memory for level in self.outcome.accelerator.addressed]

    def facts(self) -> Json:
        """Return the facts for the page's script; `answer` is the object of `--json`."""
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
        """Return each addressed memory's title, the kind of its map, and its number of residencies."""
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
        """Return an operator's row of the mappings, with its loop nests as text."""
        nests = mapped_nests(one, self.history)
        return {
            "name": one.name,
            "kind": one.kind,
            "stack": one.stack,
            "tiling": tiling_words(one.scheduled),
            "energy": short_energy(one.stated_energy_pj),
            "cycles": f"{one.cycles:,}",
            "nests": [
                {
                    "title": _extents(each.problem.layer),
                    "times": each.times,
                    "text": loop_nest(each.problem, each.mapping),
                }
                for each in nests[:MOST_NESTS]
            ],
            "further": len(nests[MOST_NESTS:]),
        }

    def _figures(self) -> Json:
        figures: Json = {
            "network-plot": network_figure(self.outcome.network, self.operators, self.history.tensors_in_dram),
            **self._stack_bars(),
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

    def _stack_bars(self) -> Json:
        """Return energies, cycles and traffic, by memory, by cause and by stack."""
        stacks, names = self.stacks, memory_names(self.outcome.accelerator)
        labels, total, why = [one.label for one in stacks], total_energy(stacks), causes(stacks)
        by_cause = {cause: [total.get((name, cause), 0.0) for name in (MACS, *names)] for cause in why}
        by_memory = {name: [one.energy_at(name) for one in stacks] for name in (MACS, *names)}
        cycles = {words: [one.cycles.get(name, 0) for one in stacks] for name, words in PART_WORDS.items()}
        traffic = {part: [one.traffic.get(part, 0) for one in stacks] for part in TRAFFIC}
        of_stacks = {cause: [one.energy_for(cause) for one in stacks] for cause in why}
        paints = {MACS: MAC_PAINT, **memory_paints(names)}
        return {
            "energy-plot": energy_bars([MACS, *names], by_cause, CAUSE_PAINTS),
            "stacks-by-memory": energy_bars(labels, by_memory, paints),
            "stacks-by-cause": energy_bars(labels, of_stacks, CAUSE_PAINTS),
            "cycles-plot": PartedBars(labels, cycles, CYCLE_PAINTS, "{:,.0f} cycles".format, "cycles").figure(),
            "traffic-of-stacks": PartedBars(
                labels, traffic, TRAFFIC_PAINTS, lambda size: exact_bytes(int(size)), "bytes"
            ).figure(),
        }

    def _timeline(self) -> Json:
        timeline, dma = self.figures.timeline, self.outcome.accelerator.dma
        queues = 1 if dma is None else dma.queues
        drawn = timeline.activities, timeline.places, self.memories, queues
        return TimelineFigure(*drawn, self.history.role).figure()

    def _outside_pictures(self) -> Json:
        names = enumerate(PICTURES.names)
        return {f"outside-{number}": _outside_picture(name, self.outcome) for number, name in names}


def _outside_picture(name: str, outcome: ScheduleOutcome) -> Json:
    """Return the figure of a plug-in; raises PluginError for a figure that is not JSON."""
    draw = PICTURES.find(name)
    figure: Json = {} if draw is None else dict(draw(outcome))
    try:
        json.dumps(figure, allow_nan=False)
    except (TypeError, ValueError) as error:
        place, expected = f"plug-in {name!r} of {PICTURES.name}", "dictionaries, lists, text and finite numbers"
        raise PluginError(f"its figure is not JSON: {error}", place=place, expected=expected) from error
    return figure


def _extents(layer: Layer) -> str:
    return ", ".join(f"{name} {size}" for name, size in layer.bounds.items() if size > 1) or "one element"


@dataclass(frozen=True, slots=True)
class DrawnResidencies:
    """`numbers` of the history's residencies that are drawn; memories that have too many are `coarse`."""

    history: ScheduleHistory
    numbers: tuple[int, ...]
    coarse: frozenset[str]
    counts: Mapping[str, int]

    @classmethod
    def of(cls, history: ScheduleHistory, most: int) -> DrawnResidencies:
        """Choose the residencies of memories with at most `most` of them."""
        counts = Counter(one.memory for one in history.residencies)
        coarse = frozenset(memory for memory, count in counts.items() if count > most)
        numbers = tuple(number for number, one in enumerate(history.residencies) if one.memory not in coarse)
        return cls(history, numbers, coarse, counts)

    def count(self, memory: str) -> int:
        """Return the number of residencies of a memory."""
        return self.counts.get(memory, 0)

    def indices(self, memory: str) -> Mapping[int, int]:
        """Map the number of each residency in a memory to its place in the page's list."""
        residencies = self.history.residencies
        return {number: place for place, number in enumerate(self.numbers) if residencies[number].memory == memory}

    def rows(self) -> list[list[object]]:
        """Return tensor, memory, offset, start and stop step, beginning, and bytes of spill, reload and move."""
        places = {name: place for place, name in enumerate(self._names)}
        return [_row(places, self.history.residencies[number]) for number in self.numbers]

    def tensors(self) -> list[Json]:
        """Name, role, shape, bytes, the step that makes it and those that read it; sizes of workspaces are greatest."""
        step = {name: number for number, name in enumerate(self.history.operators)}
        graph, sizes = self.history.tiles.graph, self._sizes
        found: list[Json] = []
        for name in self._names:
            if name in graph.tensor:
                row = tensor_row(graph, graph.tensor[name], step)
            else:
                own = step[name.removesuffix(WORKSPACE)]
                row = {"name": name, "role": "", "shape": "tiles of streamed operands", "bytes": 0}
                row |= {"made": own, "read": [own]}
            found.append(row | {"role": self.history.role(name), "bytes": sizes[name]})
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
    return [*residency_place(places, one), *(one.size_bytes if has_cost else 0 for has_cost in costs)]


def memory_map(history: ScheduleHistory, memory: Memory, indices: Mapping[int, int]) -> Json:
    """Return a bar over steps and addresses for each residency; `indices` are their places in the page's list."""
    groups: dict[str, list[int]] = {}
    for number in indices:
        groups.setdefault(_kind(history, history.residencies[number]), []).append(number)
    named = len(indices) <= MOST_NAMED
    traces = [
        residency_bars(
            history.residencies, chosen, [indices[number] for number in chosen], kind, KIND_PAINTS[kind], named=named
        )
        for kind in KIND_PAINTS
        if (chosen := groups.get(kind))
    ]
    return addressed("map", [*traces, capacity_line(history.step_count, memory)], history.step_count, memory)


def coarse_map(history: ScheduleHistory, memory: Memory) -> Json:
    """Return steps against addresses in cells, for a memory with more residencies than readers can tell apart."""
    boxes = (
        (_kind(history, one), one.start_step, one.stop_step, one.offset_bytes, one.end_bytes)
        for one in history.residencies
        if one.memory == memory.name
    )
    cells = address_cells(boxes, (history.step_count, memory.capacity_bytes), KIND_PAINTS, timed=False)
    hover = "about step %{x:,.0f}, address %{y:,.0f}<br>mostly %{text}<extra></extra>"
    shown = {kind for row in cells["z"] for kind in row}  # type: ignore[attr-defined]  # rows of cells
    keys = [_key(kind) for number, kind in enumerate(KIND_PAINTS) if number in shown]
    traces = [{**cells, "hovertemplate": hover}, *keys, capacity_line(history.step_count, memory)]
    return addressed("coarse", traces, history.step_count, memory)


def footprint(history: ScheduleHistory, memory: Memory, peak_bytes: int) -> Json:
    """Return the bytes resident in each step by role, with peak and capacity; groups of steps show the fullest."""
    resident = history.footprint(memory.name)
    edges = range_edges(history.step_count, MOST_FOOTPRINT_STEPS)
    shown = _fullest(resident, edges)
    traces = [
        _area(role, [resident[role][step] for step in shown], edges, shown)
        for role in KIND_PAINTS
        if any(resident.get(role, ()))
    ]
    peak = level_line(history.step_count, peak_bytes, "peak", "peak", dash="solid")
    traces += [peak, capacity_line(history.step_count, memory)]
    return addressed("footprint", traces, history.step_count, memory, height=300)


def _kind(history: ScheduleHistory, one: Residency) -> str:
    if one.began in (Began.RELOADED, Began.MOVED):
        return "reloaded" if one.began is Began.RELOADED else "moved from another memory"
    return history.role(one.tensor)


def _key(kind: str) -> Json:
    """Return a mark for the legend alone, as cells have none."""
    return trace("markers", kind, [None], [None], KIND_PAINTS[kind], marker={"size": 12, "symbol": "square"})


def _area(role: str, values: Sequence[int], edges: Sequence[int], shown: Sequence[int]) -> Json:
    """Return each value from one edge to the next; the last point closes the last step."""
    notes = [[step, exact_bytes(value)] for step, value in zip(shown, values, strict=True)]
    return trace(
        "lines",
        role,
        edges,
        [*values, values[-1]],
        KIND_PAINTS[role],
        "step %{customdata[0]:,}<br>" + role + ": %{customdata[1]}",
        {"edges": True},
        customdata=[*notes, notes[-1]],
        stackgroup="resident",
        line={"shape": "hv", "width": 0.8},
    )


def _fullest(resident: Mapping[str, Sequence[int]], edges: Sequence[int]) -> list[int]:
    total = [sum(values) for values in zip(*resident.values(), strict=True)] or [0] * edges[-1]
    return [max(range(start, stop), key=total.__getitem__) for start, stop in pairwise(edges)]
