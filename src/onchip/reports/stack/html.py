"""The page of a strategy: one HTML file that opens offline."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.stacks import OverlapMode
from onchip.arch.memory import DRAM
from onchip.model.group.sums import FusedSums
from onchip.ops.derive.back_calculation import AxisName, BackCalculation, back_calculation
from onchip.ops.derive.fusable import FeatureMap
from onchip.reports.shared.page import Card, Json, Page
from onchip.reports.shared.words import counted, energy_per_mac, percent, short_bytes, short_energy
from onchip.reports.stack.figures import (
    accesses,
    energy_by_cause,
    energy_by_memory,
    heat_map,
    labels_of,
    latency,
    memory_levels,
    network,
)
from onchip.reports.stack.outcome import CostedStack, FusionOutcome, OutsideOperator
from onchip.reports.stack.text import coverage_words, value_words

WIDTH, HEIGHT = 200.0, 150.0


def fusion_html(outcome: FusionOutcome, command_line: str) -> str:
    """The page's text; there is a strategy."""
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
    """The figures, by the place on the page where each is drawn."""
    facts: Json = {
        "network-plot": network(outcome),
        "energy-by-memory": energy_by_memory(outcome),
        "energy-by-cause": energy_by_cause(outcome),
        "accesses-plot": accesses(outcome),
        "latency-plot": latency(outcome),
    }
    for at, one in enumerate(outcome.stacks):
        facts[f"levels-{at}"] = memory_levels(one, outcome.accelerator)
        for mode in OverlapMode:
            figure = heat_map(one, mode, outcome.unit)
            if figure is not None:
                facts[f"heat-{at}-{mode}"] = figure
    return facts


def _cards(outcome: FusionOutcome) -> list[Card]:
    """What the reader wants to know first."""
    sums, result = outcome.sums, outcome.result
    dram_bytes = outcome.figures.dram_bits // 8 if outcome.figures else 0
    gap = "proven" if not result.gap else f"gap {percent(result.gap)}"
    bound = value_words(result.lower_bound, outcome.unit)
    whole = sum(layer.layer.macs for layer in outcome.network.layers)
    return [
        Card("stacks", f"{len(outcome.stacks)}", f"of {counted(len(outcome.network.layers), 'layer')}"),
        Card("energy", short_energy(sums.stated_energy_pj), energy_per_mac(sums.stated_energy_pj, sums.macs)),
        Card("cycles", f"{sums.cycles:,.0f}", f"{_used(sums):.1%} at full use of the array"),
        Card(
            "MACs", f"{sums.macs / 1e6:,.0f} M", f"{sums.macs / whole:.3f} times those of the network" if whole else ""
        ),
        Card("DRAM", short_bytes(dram_bytes), "read and written"),
        Card("tiles", f"{outcome.tiles:,}", counted(outcome.tile_types, "type")),
        Card("lower bound", bound, f"{gap}, objective {outcome.objective}, any strategy"),
        *_cards_of_space(outcome),
        Card("search", f"{result.seconds:.2f} s", f"{counted(outcome.costed, 'stack')} costed"),
    ]


def _cards_of_space(outcome: FusionOutcome) -> list[Card]:
    """Return the card of the bound for the stacks and tiles that were searched."""
    result = outcome.result
    if result.bound_among is None:
        return []
    gap = "optimal" if result.optimal_among else f"gap {percent(result.gap_among or 0.0)}"
    bound = value_words(result.bound_among, outcome.unit)
    return [Card("bound among", bound, f"{gap} for the stacks and tiles listed")]


def _used(sums: FusedSums) -> float:
    return sums.latency.ideal / sums.cycles if sums.cycles else 0.0


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
        "levels": f"levels-{at}",
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
    """The tile in the middle, from the stack's inputs to its output."""
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
    """What the middle tile needs of a map, and what of that it computes."""
    use = axis.maps[name]
    at = len(use.needed.starts) // 2
    needed = _Interval(int(use.needed.starts[at]), int(use.needed.stops[at]))
    return needed, _Interval(int(use.computed.starts[at]), int(use.computed.stops[at]))


def _box(rows: _Interval, columns: _Interval, scale: float, kind: str) -> str:
    """At least a pixel of the picture wide and high."""
    x, y = columns.start * scale, rows.start * scale
    width, height = max(columns.pixels * scale, 1.0), max(rows.pixels * scale, 1.0)
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'
