"""What the page of a strategy draws, as plotly figures in plain dicts; colours are names that the theme resolves."""

from __future__ import annotations

from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.model.layer.tiles import MACS
from onchip.reports.shared.bars import PAINTS, PartedBars, energy_bars, memory_paints
from onchip.reports.shared.page import Json
from onchip.reports.shared.words import short_bytes
from onchip.reports.stack.outcome import CostedStack, FusionOutcome, TilingValue
from onchip.reports.stack.text import value_words

CAUSE_PAINTS = {
    EnergyCause.ACTIVATION: "role-activation",
    EnergyCause.WEIGHT: "back-activation",
    EnergyCause.COPY: "role-moved",
    EnergyCause.MAC: "role-parameter",
}
LATENCY_PAINTS = {
    "ideal": "slice-compute",
    "unused": "kept",
    "stall": "slice-spill",
    "drain": "role-output",
    "preload_and_offload": "slice-load",
    "copies": "role-moved",
}
OPERANDS = ("input", "weight", "output")


def heat_map(one: CostedStack, mode: OverlapMode, unit: str) -> Json | None:
    """Columns by rows of tiles, in one mode; where a tile has not been costed, its bound. None with nothing to show."""
    output, values = one.stack.output, {each.tiling: each for each in one.tilings}
    if not any(tiling.mode is mode for tiling in values) or len(values) < 2:
        return None
    columns = sorted({tiling.columns for tiling in values})
    rows = sorted({tiling.rows for tiling in values})
    cells = [
        [values.get(Tiling(column, row, mode).within(output.columns, output.rows)) for column in columns]
        for row in rows
    ]
    trace = {
        "type": "heatmap",
        "x": [str(column) for column in columns],
        "y": [str(row) for row in rows],
        "z": [[None if each is None else each.value for each in line] for line in cells],
        "customdata": [["" if each is None else _said(each, unit) for each in line] for line in cells],
        "text": [["" if each is None or not each.is_costed else "\u2022" for each in line] for line in cells],
        "texttemplate": "%{text}",
        "meta": {"scale": "log"},
        "hovertemplate": "%{x} x %{y}<br>%{customdata}<extra></extra>",
    }
    axes: Json = {"x": {"type": "category", "title": "columns"}, "y": {"type": "category", "title": "rows"}}
    return {"traces": [trace], **axes}


def network(outcome: FusionOutcome) -> Json:
    """Layers in their order, the maps between them, each stack in its colour; maps that others skip are arcs."""
    places = {name: at for at, (_, name) in enumerate(outcome.layer_of_each())}
    written = {layer.output.name: layer.name for one in outcome.stacks for layer in one.stack.layers}
    lines_x, lines_y = list[float | None](), list[float | None]()
    for one in outcome.stacks:
        for layer in one.stack.layers:
            for read in layer.reads:
                begin = places[written[read.source]] if read.source in written else places[layer.name] - 1
                end = places[layer.name]
                height = 0.0 if end - begin == 1 else 0.35
                lines_x += [begin, (begin + end) / 2, end, None]
                lines_y += [0.0, height, 0.0, None]
    edges: Json = {
        "type": "scatter", "mode": "lines", "name": "feature maps", "x": lines_x, "y": lines_y,
        "line": {"shape": "spline"}, "meta": {"paint": "line"}, "hoverinfo": "skip", "showlegend": False,
    }  # fmt: skip
    traces = [edges, *(_stack_trace(at, one, places) for at, one in enumerate(outcome.stacks))]
    return {"traces": traces, "x": {"title": "layers in their order"}, "y": {"hidden": True}, "height": 220}


def energy_by_memory(outcome: FusionOutcome) -> Json:
    """Draw the picojoules of each stack, and outside of all, in a bar, by memory and MACs."""
    names = [MACS, *memories_of(outcome.accelerator)]
    parts = {
        name: [sum(pj for (memory, _), pj in sums.energies_pj.items() if memory == name) for _, sums in outcome.bars]
        for name in names
    }
    return energy_bars(labels_of(outcome), parts, memory_paints(names))


def energy_by_cause(outcome: FusionOutcome) -> Json:
    """A bar for each stack: activations, weights, copies between memories, multiply-accumulates."""
    parts = {str(cause): [sums.energy_of(cause) for _, sums in outcome.bars] for cause in EnergyCause}
    return energy_bars(labels_of(outcome), parts, {str(cause): paint for cause, paint in CAUSE_PAINTS.items()})


def accesses(outcome: FusionOutcome) -> Json:
    """Bars for each memory, of all stacks: elements read and written, by cause."""
    names = memories_of(outcome.accelerator)
    sums = outcome.sums
    traces = [
        {
            "type": "bar",
            "name": str(cause),
            "x": names,
            "y": counts,
            "meta": {"paint": CAUSE_PAINTS[cause]},
            "hovertemplate": f"%{{x}}<br>{cause}: %{{y:,}} elements<extra></extra>",
        }
        for cause in EnergyCause
        if any(counts := [sums.accesses_of(name, cause) for name in names])
    ]
    return {"traces": traces, "x": {"type": "category"}, "y": {"title": "elements", "type": "log"}, "bars": "group"}


def latency(outcome: FusionOutcome) -> Json:
    """A bar for each stack: where its cycles go."""
    parts = {
        part.replace("_", " "): [getattr(sums.latency, part) for _, sums in outcome.bars] for part in LATENCY_PAINTS
    }
    paints = {part.replace("_", " "): paint for part, paint in LATENCY_PAINTS.items()}
    return PartedBars(labels_of(outcome), parts, paints, "{:,.0f} cycles".format, "cycles").figure()


def memory_levels(one: CostedStack, accelerator: Accelerator) -> Json:
    """The paper's Figure 9: of each layer in each kind of tile, the memory in which each operand lies whole."""
    names = memories_of(accelerator)
    layers = [layer.name for layer in one.stack.layers]
    rows = []
    for number, kind in enumerate(one.cost.placed):
        levels = {layer.name: layer.levels for layer in kind.layers}
        label = f"{number + 1}: {kind.columns}x{kind.rows} (x{kind.times:,})"
        for operand in OPERANDS:
            here = [getattr(levels[name], operand) if name in levels else None for name in layers]
            rows.append((f"{label} {operand}", here))
    trace = {
        "type": "heatmap",
        "x": layers,
        "y": [label for label, _ in rows],
        "z": [[None if name is None else names.index(name) for name in line] for _, line in rows],
        "customdata": [[name or "nothing" for name in line] for _, line in rows],
        "zmin": 0,
        "zmax": len(names) - 1,
        "meta": {"scale": "levels", "labels": names},
        "hovertemplate": "%{x}<br>tile %{y}: %{customdata}<extra></extra>",
    }
    axes: Json = {"x": {"type": "category"}, "y": {"type": "category", "is_reversed": True}}
    return {"traces": [trace], "height": 120 + 20 * len(rows), **axes}


def memories_of(accelerator: Accelerator) -> list[str]:
    """Return the names of all memories, nearest the units first, DRAM last."""
    return [*(level.memory.name for level in accelerator.levels), DRAM]


def labels_of(outcome: FusionOutcome) -> list[str]:
    """Return the name of each stack, and of what is outside of all."""
    return [label for label, _ in outcome.bars]


def _said(each: TilingValue, unit: str) -> str:
    value = value_words(each.value, unit)
    return value if each.is_costed else f"at least {value}"


def _stack_trace(at: int, one: CostedStack, places: dict[str, int]) -> Json:
    layers = one.stack.layers
    hover = [
        f"{layer.name}<br>{layer.output.channels} x {layer.output.columns} x {layer.output.rows}, "
        f"{short_bytes(layer.output.size_bits // 8)}<br>weights {short_bytes(layer.weight_bits // 8)}"
        for layer in layers
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{at}: {one.strategy.tiling}" if one.cost.tiles > 1 else f"{at}: one tile",
        "x": [places[layer.name] for layer in layers],
        "y": [0.0] * len(layers),
        "customdata": hover,
        "meta": {"paint": PAINTS[at % len(PAINTS)]},
        "marker": {"size": 18, "symbol": "square"},
        "hovertemplate": "%{customdata}<extra></extra>",
    }
