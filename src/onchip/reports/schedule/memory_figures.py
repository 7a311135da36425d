"""What lies where in each memory that a schedule addresses, as plotly figures in plain dicts.

Where there are more residencies than can be told apart the map is coarse: a picture of cells, each of the kind that
takes most of it. A footprint of very many steps shows of each group of neighbours the fullest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from onchip.answer.residencies import Began, Residency
from onchip.arch.memory import Memory
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.shared.address_cells import cells_meta, edges_of, most_of, shares_of
from onchip.reports.shared.level_line import level_line
from onchip.reports.shared.page import Json
from onchip.reports.shared.words import exact_bytes

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


def memory_map(history: ScheduleHistory, memory: Memory, indices: Mapping[int, int]) -> Json:
    """Step against address: a bar for each residency; `indices` are their places in the page's list of residencies."""
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
