"""The page of a schedule: one HTML file that opens offline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Final

from onchip.answer.program import Began, Residency
from onchip.answer.schedule import ScheduledStack
from onchip.answer.words import counted, exact_bytes, short_amount, short_bytes, short_energy
from onchip.arch.memory import Memory
from onchip.errors import InternalError
from onchip.ir.graph import Graph
from onchip.model.program.figures import ScheduleFigures
from onchip.plugins import PluginError, PluginGroup
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.mapping.outcome import loop_nest
from onchip.reports.schedule.explanation import (
    COPIES,
    TRAFFIC,
    OperatorFigures,
    StackFigures,
    causes,
    figures_of_operators,
    figures_of_stacks,
    mapped_nests,
    total_energy,
)
from onchip.reports.schedule.outcome import ScheduleOutcome, remarks, schedule_object, schedule_proof, schedule_rows
from onchip.reports.shared.facts import DataTable
from onchip.reports.shared.figures import (
    MAC_PAINT,
    MACS,
    OPERAND_PAINTS,
    PAINTS,
    RESIDENCY_PAINTS,
    DrawnResidencies,
    Json,
    axis_of_names,
    energy_bars,
    level_line,
    memory_names,
    memory_paints,
    stacked_bars,
    trace,
)
from onchip.reports.shared.page import (
    AnswerPage,
    Part,
    Section,
    code,
    details,
    heading,
    lead,
    memory_parts,
    moving,
    section,
    still,
    table,
)
from onchip.reports.shared.timeline import TIMELINE_WORDS, TimelineFigure
from onchip.reports.shared.words import PART_PAINTS, PART_WORDS

TILED_PAINTS: Final = PAINTS[:6]
ALONE_PAINT: Final = "role-parameter"
END_DEPTH: Final = -0.4
"""Depth below the operators of the lines from network inputs and to outputs."""
ARC_HEIGHT: Final = 0.25

Point = tuple[float, float]


def network_figure(network: Graph, found: Sequence[OperatorFigures], maps_in_dram: frozenset[str]) -> Json:
    """Return operators in execution order with lines for feature maps; a colour marks the maps that go to DRAM."""
    places = {one.name: place for place, one in enumerate(found)}
    in_dram, on_chip = list[Point | None](), list[Point | None]()
    for tensor, line in _lines(network, places):
        (in_dram if tensor in maps_in_dram else on_chip).extend([*line, None])
    traces = [
        _edges("feature maps kept on chip", "stays", on_chip),
        _edges("feature maps spilled to DRAM", "streams", in_dram),
        *_markers(found),
    ]
    return {"traces": traces, "x": axis_of_names([one.name for one in found]), "y": {"hidden": True}, "height": 260}


def tiling_words(stack: ScheduledStack) -> str:
    """Return `4x72 fully-cached`, or `whole`."""
    return "whole" if stack.tiling is None else str(stack.tiling)


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
        yield _operators("single operators", ALONE_PAINT, alone, found)
    for number, paint in enumerate(TILED_PAINTS):
        stacks = tiled[number :: len(TILED_PAINTS)]
        chosen = [place for place, one in enumerate(found) if one.stack in stacks]
        if chosen:
            tiling = tiling_words(found[chosen[0]].scheduled)
            name = f"group {stacks[0]}: {tiling}" if len(stacks) == 1 else f"{len(stacks)} fused groups"
            yield _operators(name, paint, chosen, found)


def _operators(name: str, paint: str, chosen: Sequence[int], found: Sequence[OperatorFigures]) -> Json:
    hover, opens = [_hover(found[place]) for place in chosen], {"opens": [f"operator-{place}" for place in chosen]}
    marker = {"size": 16, "symbol": "square"}
    y = [0.0] * len(chosen)
    return trace("markers", name, chosen, y, paint, "%{customdata}", opens, customdata=hover, marker=marker)


def _hover(one: OperatorFigures) -> str:
    lines = [
        f"{one.name} ({one.kind})",
        f"group {one.stack}, {tiling_words(one.scheduled)}, {counted(one.tile_operators, 'tile')}",
        f"{short_energy(one.stated_energy_pj)}, {one.cycles:,} cycles, {one.macs:,} MACs",
        f"writes {short_bytes(one.written_bytes)}",
    ]
    return "<br>".join(line.replace("<", "&lt;") for line in lines)


def bound_grid(outcome: ScheduleOutcome) -> DataTable:
    """Return the parts of the bounds: name, amount, and the figure that they bound."""
    parts = outcome.relaxation
    energies = [
        ("multiply-accumulates", parts.mac_pj),
        *((f"on-chip {operand} accesses", part) for operand, part in parts.feeding_pj.items()),
        ("further accesses under one spatial unrolling", parts.unrolling_pj),
        ("operators without a loop nest", parts.without_nest_pj),
        ("compulsory DRAM reads", parts.dram_read_pj),
        ("capacity-induced traffic", float(parts.crowding.energy_pj)),
    ]
    cycles = [
        ("compute", parts.computing_cycles),
        ("compulsory DRAM transfers", parts.dram_cycles),
        ("capacity-induced DRAM transfers", int(parts.crowding.dram_cycles)),
        ("maximum of compute and DRAM", parts.latency_cycles),
    ]
    rows = [
        *((name, short_energy(part), "energy") for name, part in energies),
        ("sum", short_amount(parts.energy_fj, "fJ"), "energy"),
        *((name, f"{count:,} cycles", "latency") for name, count in cycles),
        ("compulsory and capacity-induced traffic", exact_bytes(parts.traffic_bytes), "traffic"),
    ]
    return DataTable(("part", "lower bound", "figure"), rows)


def groups_grid(found: Sequence[StackFigures]) -> DataTable:
    """Return a row for each fused group."""
    columns = ("group", "operators", "tile size", "tile operators", "MACs", "energy", "cycles", "DRAM traffic")
    rows = [
        (
            one.label,
            len(one.stack.operators),
            tiling_words(one.stack),
            one.tile_operators,
            one.macs,
            short_energy(one.stated_energy_pj),
            one.latency_cycles,
            short_bytes(one.traffic_bytes),
        )
        for one in found
    ]
    return DataTable(columns, rows)


CAUSE_PAINTS: Final = {MACS: MAC_PAINT, **OPERAND_PAINTS, COPIES: "role-moved"}
CYCLE_PAINTS: Final = {PART_WORDS[name]: paint for name, paint in PART_PAINTS.items()}
TRAFFIC_PAINTS: Final = dict(zip(TRAFFIC, ("slice-load", "slice-spill", "back-input", "role-output"), strict=True))

MOST_GROUPS_SHOWN: Final = 40
"""Limit on the fused groups of a table that is shown without a click."""
MOST_NESTS: Final = 20
"""Limit on the shown loop nests of one operator; further ones, of tiles at the edges, are counted."""

PICTURES: Final = PluginGroup[[ScheduleOutcome], Mapping[str, object]]("onchip.pictures", Mapping)
"""Plug-ins by title: functions that return a figure in the form of `reports/shared/page.py`."""


def schedule_html(outcome: ScheduleOutcome, typed: str) -> str:
    """Return the page's text; `typed` is the command line.

    Raises InternalError without a schedule, UsageError if a package for pages is missing, PluginError for a plug-in
    picture that cannot be drawn.
    """
    page = DrawnSchedule(outcome)
    exact = {name: value for name, value in schedule_object(outcome).items() if name != "bound_parts"}
    bounds = "The bounds hold for all groups, tilings, operand placements, mappings and transfers."
    return AnswerPage(
        f"{outcome.network.name} on {outcome.accelerator.name}",
        [*schedule_rows(outcome), schedule_proof(outcome).time],
        exact,
        typed,
        (*page.sections(),),
        page.figures_by_id(),
        (*remarks(outcome),),
        (details("Parts of the lower bound", lead(bounds), table(bound_grid(outcome))),),
        page.facts(),
    ).html()


@dataclass(frozen=True)
class DrawnSchedule:
    """A schedule with the figures of its page; raises InternalError without a schedule."""

    outcome: ScheduleOutcome

    @cached_property
    def figures(self) -> ScheduleFigures:
        """Energy, latency, traffic and timeline of the schedule; raises InternalError without one."""
        if self.outcome.figures is None:
            raise InternalError("there is no schedule to draw", place="report")
        return self.outcome.figures

    @cached_property
    def history(self) -> ScheduleHistory:
        """The memories while the schedule runs; raises InternalError without a schedule."""
        document, tiles = self.outcome.document, self.outcome.tiles
        if document is None or tiles is None:
            raise InternalError("there is no schedule to draw", place="report")
        return ScheduleHistory(document.answer, tiles, self.outcome.accelerator, self.outcome.compute_costs)

    @cached_property
    def stacks(self) -> Sequence[StackFigures]:
        """Figures of each fused group."""
        return figures_of_stacks(self.history, self.figures.timeline)

    @cached_property
    def operators(self) -> Sequence[OperatorFigures]:
        """Figures of each operator of the network."""
        return figures_of_operators(self.outcome.network, self.history)

    @cached_property
    def drawn(self) -> DrawnResidencies:
        """The residencies of all addressed memories."""
        history = self.history
        return DrawnResidencies(history.residencies, history.tiles.graph, history.operators, history.role)

    @property
    def memories(self) -> list[Memory]:
        """Memories that the program addresses, nearest the MACs first."""
        return [level.memory for level in self.outcome.accelerator.addressed]

    def facts(self) -> Json:
        """Return the facts for the page's script; `answer` is the object of `--json`."""
        history, figures = self.history, self.figures
        starts = [one.start for one in figures.timeline.activities if one.queue is None]
        return {
            "cycles": [*starts, figures.latency_cycles],
            "operators": [[name, history.tiles.graph.operator[name].kind] for name in history.operators],
            "unit": "bytes",
            "memories": [memory.name for memory in self.memories],
            **self.drawn.facts(lambda number: moved_bytes(history.residencies[number])),
            "answer": schedule_object(self.outcome),
        }

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the page."""
        yield section(
            "network",
            "Network",
            "Operators of one colour run as a fused group, tile by tile; grey operators run alone. Click an operator "
            "to open its mapping.",
            still("network-plot", "Fused groups of the network"),
            details("Fused groups", table(groups_grid(self.stacks)), is_open=len(self.stacks) <= MOST_GROUPS_SHOWN),
        )
        yield section(
            "energy",
            "Energy",
            "Energy of multiply-accumulates, of accesses for operands, and of copies between memories.",
            heading("Energy by memory and cause"),
            still("energy-plot", "Energy by memory and cause"),
            heading("Energy by group and memory"),
            still("stacks-by-memory", "Energy of each group by memory"),
            heading("Energy by group and cause"),
            still("stacks-by-cause", "Energy of each group by cause"),
        )
        yield section(
            "latency",
            "Latency",
            "Cycle breakdown: compute and stalls.",
            still("cycles-plot", "Cycle breakdown of each group"),
            heading("Timeline"),
            lead(TIMELINE_WORDS),
            moving("timeline-plot", "Timeline of the array, of DMA, of DRAM and of each memory", "timeline"),
        )
        yield section(
            "traffic",
            "Traffic",
            "Bytes from and to DRAM: loads and write-backs by DMA, and operands that operators stream.",
            still("traffic-of-stacks", "DRAM traffic of each group"),
        )
        yield section(
            "memory-map",
            "Memory map",
            "Addresses over steps; a step runs one tile operator. Workspaces hold the tiles of streamed operands. The "
            "footprint below each map shows the bytes resident in each step.",
            *memory_parts(self.drawn, self.memories, has_cycles=True),
        )
        yield section(
            "mappings",
            "Mappings",
            "Loop nests of each operator, outermost loop first; each memory stands above the loops of its tile.",
            *(self._mappings(one, f"operator-{place}") for place, one in enumerate(self.operators)),
        )
        if PICTURES.names:
            drawn = (
                part for at, name in enumerate(PICTURES.names) for part in (heading(name), still(f"outside-{at}", name))
            )
            yield section("outside", "More", "Figures of plug-ins.", *drawn)

    def _mappings(self, one: OperatorFigures, anchor: str) -> Part:
        """Return the loop nests of an operator."""
        nests = mapped_nests(one, self.history)
        head = f"{one.name} ({one.kind}), group {one.stack}, {tiling_words(one.scheduled)}"
        parts = list[Part]()
        for each in nests[:MOST_NESTS]:
            if len(nests) > 1:
                bounds = each.problem.layer.bounds.items()
                extents = ", ".join(f"{name} {size}" for name, size in bounds if size > 1)
                parts.append(lead(f"{extents or 'one element'} ({each.times:,} times)"))
            parts.append(code(loop_nest(each.problem, each.mapping)))
        if not nests:
            parts.append(lead("Data movement only: the operator reads each operand once, and writes each output once."))
        if len(nests) > MOST_NESTS:
            parts.append(lead(f"{len(nests) - MOST_NESTS} more kinds of tiles are not shown."))
        return details(f"{head}: {short_energy(one.stated_energy_pj)}, {one.cycles:,} cycles", *parts, anchor=anchor)

    def figures_by_id(self) -> Json:
        """Return the figures by their element ids."""
        figures: Json = {
            "network-plot": network_figure(self.outcome.network, self.operators, self.history.tensors_in_dram),
            "energy-plot": self.energy(),
            **self._stack_bars(),
            "timeline-plot": self.timeline(),
        }
        for number, memory in enumerate(self.memories):
            if self.drawn.counts.get(memory.name):
                figures[f"map-{number}"] = self.drawn.figure(memory)
                figures[f"footprint-{number}"] = self.footprint(memory)
        return figures | {
            f"outside-{at}": _outside_picture(name, self.outcome) for at, name in enumerate(PICTURES.names)
        }

    def energy(self) -> Json:
        """Return the energy of each memory and of the MACs, by cause."""
        names = [MACS, *memory_names(self.outcome.accelerator)]
        total = total_energy(self.stacks)
        parts = {cause: [total.get((name, cause), 0.0) for name in names] for cause in causes(self.stacks)}
        return energy_bars(names, parts, CAUSE_PAINTS)

    def footprint(self, memory: Memory) -> Json:
        """Return the bytes resident in each step by role, with peak and capacity."""
        peak_bytes = self.figures.memories[memory.name].peak_bytes
        peak = level_line(self.history.step_count, peak_bytes, "peak", "peak", dash="solid")
        return self.drawn.map(memory).footprint(self.history.footprint(memory.name), RESIDENCY_PAINTS, peak)

    def timeline(self) -> Json:
        """Return the timeline of the array, each DMA queue, DRAM and the memories."""
        timeline, dma = self.figures.timeline, self.outcome.accelerator.dma
        queues = 1 if dma is None else dma.queues
        return TimelineFigure(timeline.activities, timeline.places, self.memories, queues, self.history.role).figure()

    def _stack_bars(self) -> Json:
        """Return energies, cycles and traffic of each fused group."""
        stacks, names = self.stacks, memory_names(self.outcome.accelerator)
        labels = [one.label for one in stacks]
        by_memory = {name: [one.energy_at(name) for one in stacks] for name in (MACS, *names)}
        by_cause = {cause: [one.energy_for(cause) for one in stacks] for cause in causes(stacks)}
        cycles = {words: [one.cycles.get(name, 0) for one in stacks] for name, words in PART_WORDS.items()}
        traffic = {part: [one.traffic.get(part, 0) for one in stacks] for part in TRAFFIC}
        return {
            "stacks-by-memory": energy_bars(labels, by_memory, memory_paints(names)),
            "stacks-by-cause": energy_bars(labels, by_cause, CAUSE_PAINTS),
            "cycles-plot": stacked_bars(labels, cycles, CYCLE_PAINTS, "cycles", "latency"),
            "traffic-of-stacks": stacked_bars(labels, traffic, TRAFFIC_PAINTS, "bytes", "DRAM traffic"),
        }


def moved_bytes(one: Residency) -> tuple[int, int, int]:
    """Return the bytes of a residency's spill, its reload and the move to it."""
    is_paid = one.is_spilled, one.began is Began.RELOADED, one.began is Began.MOVED
    spill, reload, move = (one.size_bytes * paid for paid in is_paid)
    return spill, reload, move


def _outside_picture(name: str, outcome: ScheduleOutcome) -> Json:
    """Return the figure of a plug-in; raises PluginError for a figure that is not JSON."""
    draw = PICTURES.find(name)
    figure: Json = {} if draw is None else dict(draw(outcome))
    try:
        json.dumps(figure, allow_nan=False)
    except (TypeError, ValueError) as error:
        place, expected = f"plug-in {name!r} of {PICTURES.name}", "dictionaries, lists, text and finite numbers"
        raise PluginError(f"the figure is not JSON: {error}", place, expected) from error
    return figure
