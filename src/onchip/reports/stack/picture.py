"""One tile calculated back through its stack, as pictures: what of each feature map it computes, takes and leaves."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.ops.derive.back_calculation import AxisName, BackCalculation, back_calculation
from onchip.ops.derive.fusable import FeatureMap
from onchip.reports.shared.words import counted
from onchip.reports.stack.outcome import CostedStack

WIDTH, HEIGHT = 200.0, 150.0


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
