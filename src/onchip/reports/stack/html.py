"""The page of a strategy: one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import EnergyCause
from onchip.answer.words import short_bytes, short_energy
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.model.layer.tiles import MACS
from onchip.reports.shared.facts import DataTable
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
from onchip.reports.shared.page import AnswerPage, Part, heading, lead, section, side_by_side, still, table
from onchip.reports.stack.outcome import (
    CostedStack,
    FusionOutcome,
    fusion_object,
    fusion_proof,
    fusion_rows,
    groups_grid,
    remarks,
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


def fusion_html(outcome: FusionOutcome, command_line: str) -> str:
    """Return the page's text; expects a strategy."""
    figures = fusion_facts(outcome)
    groups = [part for at in range(len(outcome.stacks)) for part in _group(outcome, at, figures)]
    return AnswerPage(
        f"{outcome.network.name} on {outcome.accelerator.name}",
        [*fusion_rows(outcome), fusion_proof(outcome).time],
        fusion_object(outcome),
        command_line,
        (
            section(
                "network",
                "Network",
                "Layers of one colour run as a fused group, tile by tile.",
                still("network-plot", "Fused groups of the network"),
                table(groups_grid(outcome)),
                *_outside(outcome),
            ),
            section(
                "energy",
                "Energy",
                "Energy of multiply-accumulates and of accesses for operands and copies.",
                heading("By memory"),
                still("energy-by-memory", "Energy of each group by memory"),
                heading("By cause"),
                still("energy-by-cause", "Energy of each group by cause"),
            ),
            section(
                "accesses",
                "Accesses",
                "Elements read and written by each memory, by cause.",
                still("accesses-plot", "Accesses of each memory"),
            ),
            section(
                "latency",
                "Latency",
                "Cycle breakdown: ideal cycles with all MACs busy, unused MACs, stalls at memory ports, drain, preload "
                "and offload, copies between layers.",
                still("latency-plot", "Cycle breakdown of each group"),
            ),
            section(
                "stacks",
                "Fused groups",
                f"Tile sizes and memory levels of the groups that run in tiles. Search space: {outcome.space}.",
                *groups,
            ),
        ),
        figures,
        (*remarks(outcome),),
    ).html()


def _group(outcome: FusionOutcome, at: int, figures: Json) -> Iterator[Part]:
    """Yield the heat maps, the memory levels and the cached bytes of one fused group."""
    one = outcome.stacks[at]
    heats = [(f"heat-{at}-{mode}", str(mode)) for mode in OverlapMode if f"heat-{at}-{mode}" in figures]
    if one.cost.tiles == 1 and not heats:
        return
    tiling = str(one.strategy.tiling) if one.cost.tiles > 1 else "one tile"
    yield heading(f"{labels_of(outcome)[at]}: {tiling}")
    if one.cost.tiles > 1:
        rows, columns = (
            short_bytes(sum(bits.values()) // 8) for bits in (one.cost.row_cache_bits, one.cost.column_cache_bits)
        )
        yield lead(f"Column cache {columns}, row cache {rows}.")
    if heats:
        yield lead("Heat map of the cost by tile size. A dot marks an exact cost; other cells show lower bounds.")
        yield side_by_side(still(name, f"Heat map of costs, {mode}", mode) for name, mode in heats)
    if f"levels-{at}" in figures:
        yield lead("Lowest memory that holds each operand of a layer, for each kind of tile.")
        yield still(f"levels-{at}", "Memory levels")


def _outside(outcome: FusionOutcome) -> Iterator[Part]:
    if outcome.outside:
        yield heading("Operators outside of groups")
        yield lead("These operators cannot be fused: each operand moves once from or to DRAM.")
        rows = [
            (
                one.left_out.operator,
                one.left_out.kind,
                short_bytes(one.sums.moved_bits[DRAM] // 8),
                short_energy(one.sums.stated_energy_pj),
                round(one.sums.cycles),
                one.left_out.why,
            )
            for one in outcome.outside
        ]
        yield table(DataTable(("operator", "kind", "moved", "energy", "cycles", "reason"), rows))


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
        "customdata": [["" if each is None else value_words(each.value, unit) for each in line] for line in cells],
        "text": [["" if each is None else "\u2022" for each in line] for line in cells],
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
