"""The network as a schedule runs it: its stacks in colours, and which feature maps stay on the chip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2
from typing import Final

from onchip.answer.schedule import ScheduledStack
from onchip.ir.graph import Graph
from onchip.reports.schedule.operator_figures import OperatorFigures
from onchip.reports.shared.bars import PAINTS
from onchip.reports.shared.page import Json
from onchip.reports.shared.words import counted, short_bytes, short_energy

TILED_PAINTS: Final = PAINTS[:6]
ALONE_PAINT: Final = "role-parameter"
END_DEPTH: Final = -0.4
"""How far below the operators the lines from network inputs begin, and those to outputs end."""
ARC_HEIGHT: Final = 0.25

MOST_NAMED: Final = 24
"""Of more operators the names are in the hover only."""

Point = tuple[float, float]


def network_figure(network: Graph, found: Sequence[OperatorFigures], maps_in_dram: frozenset[str]) -> Json:
    """Operators in their order; lines are the feature maps between them, coloured by whether DRAM has any of them."""
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
    """`4x72 fully-cached`, or that it runs whole."""
    return "whole" if stack.tiling is None else str(stack.tiling)


def _axis(found: Sequence[OperatorFigures]) -> Json:
    """Names where there is room for them, else places."""
    if len(found) > MOST_NAMED:
        return {"title": "operators in their order"}
    return {"tickvals": list(range(len(found))), "ticktext": [one.name for one in found]}


def _lines(network: Graph, places: dict[str, int]) -> Iterator[tuple[str, list[Point]]]:
    """Of each feature map a line to each reader; parameters are none."""
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
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [None if point is None else round(point[0], 3) for point in points],
        "y": [None if point is None else round(point[1], 3) for point in points],
        "line": {"shape": "spline", "width": 1.5},
        "meta": {"paint": paint},
        "hoverinfo": "skip",
    }


def _markers(found: Sequence[OperatorFigures]) -> Iterator[Json]:
    """A trace for the operators alone and whole, and one for each colour of stacks in tiles."""
    tiled = list(dict.fromkeys(one.stack for one in found if one.scheduled.tiling is not None))
    alone = [place for place, one in enumerate(found) if one.scheduled.tiling is None]
    if alone:
        yield _trace("alone, whole", ALONE_PAINT, alone, found)
    for number, paint in enumerate(TILED_PAINTS):
        stacks = tiled[number :: len(TILED_PAINTS)]
        chosen = [place for place, one in enumerate(found) if one.stack in stacks]
        if chosen:
            tiling = tiling_words(found[chosen[0]].scheduled)
            name = f"stack {stacks[0]}: {tiling}" if len(stacks) == 1 else f"{len(stacks)} stacks in tiles"
            yield _trace(name, paint, chosen, found)


def _trace(name: str, paint: str, chosen: Sequence[int], found: Sequence[OperatorFigures]) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(chosen),
        "y": [0.0] * len(chosen),
        "customdata": [_hover(found[place]) for place in chosen],
        "meta": {"paint": paint, "opens": [f"operator-{place}" for place in chosen]},
        "marker": {"size": 16, "symbol": "square"},
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _hover(one: OperatorFigures) -> str:
    lines = [
        f"{one.name} ({one.kind})",
        f"stack {one.stack}, {tiling_words(one.scheduled)}, {counted(one.tile_operators, 'tile operator')}",
        f"{short_energy(one.stated_energy_pj)}, {one.cycles:,} cycles, {counted(one.macs, 'MAC')}",
        f"writes {short_bytes(one.written_bytes)}",
    ]
    return "<br>".join(line.replace("<", "&lt;") for line in lines)
