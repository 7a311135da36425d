"""The page of a strategy: one HTML file that opens offline."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import EnergyCause
from onchip.answer.words import counted, energy_per_mac, percent, short_amount, short_bytes, short_energy
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.model.layer.tiles import MACS
from onchip.ops.fusable import AxisName, BackCalculation, FeatureMap, back_calculation
from onchip.reports.shared.figures import (
    PAINTS,
    Json,
    axis_of_names,
    energy_bars,
    memory_names,
    memory_paints,
    powers_of_ten,
    stacked_bars,
    trace,
)
from onchip.reports.shared.page import Card, Page, bound_card
from onchip.reports.stack.outcome import (
    CostedStack,
    FusionOutcome,
    OutsideOperator,
    TilingValue,
    coverage_words,
    value_words,
)

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
MAC_WORDS = "MACs"
CAUSE_WORDS = {
    EnergyCause.ACTIVATION: "activation accesses",
    EnergyCause.WEIGHT: "weight accesses",
    EnergyCause.COPY: "copies between memories",
    EnergyCause.MAC: MAC_WORDS,
}
OPERANDS = ("input", "weight", "output")

WIDTH, HEIGHT = 200.0, 150.0


def fusion_html(outcome: FusionOutcome, command_line: str) -> str:
    """Return the page's text; expects a strategy."""
    facts = fusion_facts(outcome)
    values = {
        "title": f"{outcome.network.name} on {outcome.accelerator.name}",
        "cards": _cards(outcome),
        "command_line": command_line,
        "notes": outcome.accelerator.notes,
        "coverage": coverage_words(outcome),
        "space": outcome.space,
        "outside": [_outside(one) for one in outcome.outside],
        "stacks": [_stack(outcome, at, facts) for at in range(len(outcome.stacks))],
    }
    return Page("strategy.html.j2", ("plain.js",), {"figures": facts}, values).html()


def fusion_facts(outcome: FusionOutcome) -> Json:
    """Return the figures, by their element ids on the page."""
    facts: Json = {
        "network-plot": network(outcome),
        "energy-by-memory": energy_by_memory(outcome),
        "energy-by-cause": energy_by_cause(outcome),
        "accesses-plot": accesses(outcome),
        "latency-plot": latency(outcome),
    }
    for at, one in enumerate(outcome.stacks):
        if one.cost.tiles > 1:
            facts[f"levels-{at}"] = memory_levels(one, outcome.accelerator)
        for mode in OverlapMode:
            figure = heat_map(one, mode, outcome.unit)
            if figure is not None:
                facts[f"heat-{at}-{mode}"] = figure
    return facts


def _cards(outcome: FusionOutcome) -> list[Card]:
    sums, result, cycles = outcome.sums, outcome.result, round(outcome.sums.cycles)
    used = sums.latency.ideal / sums.cycles if sums.cycles else 0.0
    dram_bytes = outcome.figures.dram_bits // 8 if outcome.figures else 0
    whole = sum(layer.layer.macs for layer in outcome.network.layers)
    again = f"{(sums.macs - whole) / whole:.1%} recomputed" if whole else ""
    found = [
        Card("Status", str(result.status), f"objective: {outcome.objective}", "good" if result.gap == 0 else "fair"),
        bound_card(result.lower_bound, outcome.unit, result.gap),
        Card("Energy", short_energy(sums.stated_energy_pj), energy_per_mac(sums.stated_energy_pj, sums.macs)),
        Card("Latency", short_amount(cycles, "cycles"), f"MAC utilisation {used:.1%}"),
        Card("MACs", short_amount(sums.macs, "MACs"), again),
        Card("DRAM traffic", short_bytes(dram_bytes), f"{dram_bytes:,} bytes"),
        Card("Fused groups", f"{len(outcome.stacks)}", f"of {counted(len(outcome.network.layers), 'layer')}"),
        Card("Tiles", f"{outcome.tiles:,}", counted(outcome.tile_types, "tile type")),
        Card("Search", f"{result.seconds:.2f} s", f"{counted(outcome.costed, 'group')} costed"),
    ]
    if result.bound_among is not None:
        gap = "optimal" if result.optimal_among else f"gap {percent(result.gap_among or 0.0)}"
        bound = short_amount(result.bound_among, outcome.unit)
        found.append(Card("Bound of the search space", bound, f"{gap} for the listed groups and tiles"))
    return found


def _outside(one: OutsideOperator) -> dict[str, object]:
    return {
        "operator": one.left_out.operator,
        "kind": one.left_out.kind,
        "why": one.left_out.why,
        "moved": short_bytes(one.sums.moved_bits[DRAM] // 8),
        "energy": short_energy(one.sums.stated_energy_pj),
        "cycles": f"{one.sums.cycles:,.0f}",
    }


def _stack(outcome: FusionOutcome, at: int, facts: Json) -> dict[str, object]:
    one: CostedStack = outcome.stacks[at]
    heats = [(f"heat-{at}-{mode}", str(mode)) for mode in OverlapMode if f"heat-{at}-{mode}" in facts]
    return {
        "label": labels_of(outcome)[at],
        "tiling": str(one.strategy.tiling) if one.cost.tiles > 1 else "one tile",
        "output": one.strategy.output_home,
        "energy": short_energy(one.cost.sums.stated_energy_pj),
        "cycles": f"{one.cost.sums.cycles:,.0f}",
        "macs": f"{one.cost.sums.macs:,}",
        "tiles": f"{one.cost.tiles:,}",
        "types": one.cost.tile_types,
        "column_cache": short_bytes(sum(one.cost.column_cache_bits.values()) // 8),
        "row_cache": short_bytes(sum(one.cost.row_cache_bits.values()) // 8),
        "heats": heats,
        "levels": f"levels-{at}" if f"levels-{at}" in facts else "",
        "pictures": back_calculated(one) if one.cost.tiles > 1 else [],
    }


@dataclass(frozen=True, slots=True)
class MapPicture:
    """A feature map with its tile, as an SVG, and the same in words."""

    name: str
    svg: str
    words: str


@dataclass(frozen=True, slots=True)
class _Interval:
    start: int
    stop: int

    @property
    def pixels(self) -> int:
        return self.stop - self.start


def back_calculated(one: CostedStack) -> list[MapPicture]:
    """Return the feature maps of the middle tile, from the stack's inputs to its output."""
    stack, tiling = one.stack, one.strategy.tiling
    rows = back_calculation(stack, AxisName.ROWS, tiling.rows, cached=tiling.mode.caches_rows)
    columns = back_calculation(stack, AxisName.COLUMNS, tiling.columns, cached=tiling.mode.caches_columns)
    maps = (*stack.inputs, *(layer.output for layer in stack.layers))
    return [_picture(feature_map, rows, columns) for feature_map in maps]


def _picture(feature_map: FeatureMap, rows: BackCalculation, columns: BackCalculation) -> MapPicture:
    down, across = _middle(rows, feature_map.name), _middle(columns, feature_map.name)
    needed, computed = (down[0], across[0]), (down[1], across[1])
    scale = min(WIDTH / feature_map.columns, HEIGHT / feature_map.rows)
    boxes = [
        _box(_Interval(0, feature_map.rows), _Interval(0, feature_map.columns), scale, "whole"),
        _box(*needed, scale, "taken"),
        _box(*computed, scale, "computed"),
    ]
    width, height = feature_map.columns * scale, feature_map.rows * scale
    svg = f'<svg viewBox="-1 -1 {width + 2:.1f} {height + 2:.1f}" role="img">{"".join(boxes)}</svg>'
    pixels = computed[0].pixels * computed[1].pixels
    reused = needed[0].pixels * needed[1].pixels - pixels
    words = f"{computed[1].pixels} x {computed[0].pixels} of {feature_map.columns} x {feature_map.rows}"
    cached = f", {counted(reused, 'pixel')} from tiles before" if reused > 0 else ""
    return MapPicture(feature_map.name, svg, words + cached)


def _middle(axis: BackCalculation, name: str) -> tuple[_Interval, _Interval]:
    use = axis.maps[name]
    at = len(use.needed.starts) // 2
    needed = _Interval(int(use.needed.starts[at]), int(use.needed.stops[at]))
    return needed, _Interval(int(use.computed.starts[at]), int(use.computed.stops[at]))


def _box(rows: _Interval, columns: _Interval, scale: float, kind: str) -> str:
    x, y = columns.start * scale, rows.start * scale
    width, height = max(columns.pixels * scale, 1.0), max(rows.pixels * scale, 1.0)
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'


def heat_map(one: CostedStack, mode: OverlapMode, unit: str) -> Json | None:
    """Return columns by rows of tiles in one mode, with bounds for tiles without a cost; None for fewer than two."""
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
    axes: Json = {"x": {"type": "category", "title": "tile columns"}, "y": {"type": "category", "title": "tile rows"}}
    return {"traces": [trace], **axes}


def network(outcome: FusionOutcome) -> Json:
    """Return layers in order with lines for feature maps; each stack has a colour, and skip connections are arcs."""
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
    shape = {"shape": "spline"}
    edges = trace("lines", "feature maps", lines_x, lines_y, "line", line=shape, showlegend=False)
    traces = [edges, *(_stack_trace(at, one, places) for at, one in enumerate(outcome.stacks))]
    return {"traces": traces, "x": axis_of_names([*places]), "y": {"hidden": True}, "height": 220}


def energy_by_memory(outcome: FusionOutcome) -> Json:
    """Return a bar for each fused group, and for the operators outside of all: energy by memory and of the MACs."""
    names = memory_names(outcome.accelerator)
    keys = {MAC_WORDS: MACS, **{name: name for name in names}}
    parts = {
        words: [sum(pj for (memory, _), pj in sums.energies_pj.items() if memory == key) for _, sums in outcome.bars]
        for words, key in keys.items()
    }
    return energy_bars(labels_of(outcome), parts, memory_paints(names))


def energy_by_cause(outcome: FusionOutcome) -> Json:
    """Return a bar for each fused group: activations, weights, copies between memories, multiply-accumulates."""
    parts = {words: [sums.energy_of(cause) or 0.0 for _, sums in outcome.bars] for cause, words in CAUSE_WORDS.items()}
    return energy_bars(labels_of(outcome), parts, {CAUSE_WORDS[cause]: paint for cause, paint in CAUSE_PAINTS.items()})


def accesses(outcome: FusionOutcome) -> Json:
    """Return bars for each memory: elements read and written by all fused groups, by cause."""
    names, sums = memory_names(outcome.accelerator), outcome.sums
    parts = {words: [sums.accesses_of(name, cause) for name in names] for cause, words in CAUSE_WORDS.items()}
    paints = {CAUSE_WORDS[cause]: paint for cause, paint in CAUSE_PAINTS.items()}
    figure = stacked_bars(names, parts, paints, "elements", is_grouped=True)
    most = max((count for counts in parts.values() for count in counts), default=1)
    return {**figure, "y": {"title": "elements", "type": "log", **powers_of_ten(most, "elements")}}


def latency(outcome: FusionOutcome) -> Json:
    """Return the cycle breakdown of each fused group."""
    parts = {
        part.replace("_", " "): [getattr(sums.latency, part) for _, sums in outcome.bars] for part in LATENCY_PAINTS
    }
    paints = {part.replace("_", " "): paint for part, paint in LATENCY_PAINTS.items()}
    return stacked_bars(labels_of(outcome), parts, paints, "cycles", "latency")


def memory_levels(one: CostedStack, accelerator: Accelerator) -> Json:
    """Return the memory of each operand, for each layer and kind of tile (the paper's Figure 9)."""
    names = memory_names(accelerator)
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


def labels_of(outcome: FusionOutcome) -> list[str]:
    """Return the labels of the stacks, and of the operators outside them."""
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
    name = f"{at}: {one.strategy.tiling}" if one.cost.tiles > 1 else f"{at}: one tile"
    x, y, paint = [places[layer.name] for layer in layers], [0.0] * len(layers), PAINTS[at % len(PAINTS)]
    marker = {"size": 18, "symbol": "square"}
    return trace("markers", name, x, y, paint, "%{customdata}", customdata=hover, marker=marker)
