"""Figures as SVG: pictures for notebooks and documents in the colours of the reports, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from math import log10
from typing import Any, Final

from onchip.reports.shared.figures import Json, clipped, ticks
from onchip.reports.shared.page import asset

WIDTH: Final = 860
LEFT, RIGHT, BOTTOM, GAP = 108, 32, 44, 20
PLOT_HEIGHT, LANE_HEIGHT = 210, 26
LETTER: Final = 6.2
"""Mean width of a letter in pixels."""
DASHES: Final = {"dash": "6 4", "dot": "2 3", "dashdot": "6 3 2 3"}


def svg(figures: Mapping[str, Json]) -> str:
    """Return the figures one below the other, each under its title.

    Parameters
    ----------
    figures
        Map from title to a figure of `onchip.reports.shared.figures`.

    Returns
    -------
    str
        An SVG file that follows the reader's light or dark theme.

    """
    lines, top = list[str](), 0.0
    for title, figure in figures.items():
        drawn = _Drawing(figure, top)
        lines += [f'<text class="oc-ink" x="{LEFT}" y="{top + 18:.0f}" font-weight="600">{escape(title)}</text>']
        lines += drawn.lines()
        top += drawn.height
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" width="{WIDTH}" height="{top:.0f}" '
        f'role="img" aria-label="{escape(", ".join(figures), quote=True)}" font-family="system-ui, sans-serif" '
        f'font-size="11" style="max-width:100%;height:auto">\n<style>{_style(body)}</style>\n'
        f'<rect class="oc-surface" width="{WIDTH}" height="{top:.0f}"/>\n{body}\n</svg>\n'
    )


@cache
def _palettes() -> tuple[dict[str, str], dict[str, str]]:
    """Return the colours of the light and of the dark theme by name."""
    light, dark = re.findall(r":root[^{]*\{([^}]*)\}", asset("report.css"))[:2]
    colours = re.compile(r"--([\w-]+):\s*(#\w+)")
    return dict(colours.findall(light)), dict(colours.findall(dark))


def _style(body: str) -> str:
    """Return the rules of the colours that occur: `oc-NAME` fills, `oc-NAME-line` strokes."""
    used = sorted({"oc-surface", *re.findall(r'class="(oc-[\w-]+)"', body)})

    def rules(colours: Mapping[str, str]) -> str:
        return "".join(
            f".{name}{{{'stroke' if name.endswith('-line') else 'fill'}:{colours[name[3:].removesuffix('-line')]}}}"
            for name in used
        )

    light, dark = _palettes()
    return f"{rules(light)}@media(prefers-color-scheme:dark){{{rules(dark)}}}"


@dataclass(frozen=True, slots=True)
class _Axis:
    """A range of values between two pixels, with ticks; `names` are the categories at 0, 1, ..."""

    low: float
    high: float
    start: float
    stop: float
    tick_values: Sequence[float]
    tick_words: Sequence[str]
    is_log: bool = False
    names: Sequence[str] = ()

    def at(self, value: object) -> float:
        """Return the pixel of a value or of a name."""
        number = self.names.index(str(value)) if self.names else float(value)  # type: ignore[arg-type]  # a number
        if self.is_log:
            number = log10(max(number, 1e-9))
        share = (number - self.low) / (self.high - self.low or 1.0)
        return round(self.start + share * (self.stop - self.start), 2)


class _Drawing:
    """One figure from `top` downwards: legend, axes and traces."""

    def __init__(self, figure: Json, top: float) -> None:
        self.figure: dict[str, Any] = dict(figure)
        self.traces: Any = [one for one in self.figure["traces"] if one.get("x")]
        self.legend = list(self._legend(top + 36))
        self.top = top + 36 + 16 * (max((line for line, _ in self.legend), default=0) + 1)
        self.names = self._names()
        is_crowded = sum(len(clipped(name)) + 2 for name in self.names) * LETTER > WIDTH - LEFT - RIGHT
        self.is_rotated = bool(self.names) and is_crowded
        lanes: list[str] = self.figure.get("lanes", [])
        plot_height = LANE_HEIGHT * len(lanes) or PLOT_HEIGHT
        panels: list[Json] = self.figure.get("memories", [])
        self.bottoms = [self.top + plot_height]
        for _ in panels:
            self.bottoms.append(self.bottoms[-1] + GAP + PLOT_HEIGHT * 0.7)
        self.height = self.bottoms[-1] - top + BOTTOM + (56 if self.is_rotated else 0)

    def lines(self) -> Iterator[str]:
        """Yield the elements of the figure."""
        x, axes = self._across(), self._up()
        for name, axis in axes.items():
            yield from self._axis_up(axis, x, is_named=name == "y")
        yield from self._axis_across(x)
        yield from (line for _, line in self.legend)
        below: dict[object, float] = {}
        for trace in self.traces:
            axis = axes[trace.get("yaxis", "y")]
            if trace["type"] == "heatmap":
                yield from _cells(trace, x, axis)
            elif trace["type"] == "bar":
                yield from self._bars(trace, x, axis, below)
            else:
                yield from _line(trace, x, axis, below)

    def _legend(self, top: float) -> Iterator[tuple[int, str]]:
        """Yield the line of the legend, and the mark and name of each kind of trace."""
        found = {trace["name"]: trace["meta"]["paint"] for trace in self.traces if trace.get("name")}
        x, line = float(LEFT), 0
        for name, paint in found.items() if len(found) > 1 else ():
            width = 22 + LETTER * len(name)
            if x + width > WIDTH - RIGHT and x > LEFT:
                x, line = float(LEFT), line + 1
            y = top + 16 * line
            mark = f'<rect class="oc-{paint}" x="{x:.0f}" y="{y - 9:.0f}" width="10" height="10" rx="2"/>'
            yield line, f'{mark}<text class="oc-ink" x="{x + 14:.0f}" y="{y:.0f}">{escape(name)}</text>'
            x += width

    def _names(self) -> list[str]:
        if self.figure.get("kind") or not all(trace["type"] == "bar" for trace in self.traces):
            return []
        return list(dict.fromkeys(str(name) for trace in self.traces for name in trace["x"]))

    def _across(self) -> _Axis:
        start, stop = LEFT, WIDTH - RIGHT
        if self.names:
            every = range(len(self.names))
            return _Axis(-0.5, len(self.names) - 0.5, start, stop, every, [*map(clipped, self.names)], names=self.names)
        x = self.figure["x"]
        if isinstance(x, list):
            marks: Any = ticks(x[0], x[1], "steps", most=10)
            return _Axis(x[0], x[1], start, stop, marks["tickvals"], marks["ticktext"])
        return self._numeric(x, "x", start, stop)

    def _up(self) -> dict[str, _Axis]:
        lanes, y, bottom = self.figure.get("lanes"), self.figure.get("y", {}), self.bottoms[0]
        if lanes:
            names = [*reversed(lanes)]
            found = {"y": _Axis(-0.5, len(names) - 0.5, bottom, self.top, range(len(names)), names, names=names)}
            for number, memory in enumerate(self.figure["memories"], start=2):
                stop = self.bottoms[number - 2] + GAP
                found[f"y{number}"] = _bytes_axis(memory["top"], self.bottoms[number - 1], stop)
            return found
        if isinstance(y, list):
            return {"y": _bytes_axis(y[1], bottom, self.top)}
        return {"y": self._numeric(y, "y", bottom, self.top)}

    def _numeric(self, spec: Json, name: str, start: float, stop: float) -> _Axis:
        is_log = spec.get("type") == "log"
        found = [value for trace in self.traces for value in trace[name] if isinstance(value, int | float)]
        if name == "y" and self.figure.get("bars") == "stack" and self.names:
            bars = [trace for trace in self.traces if trace["type"] == "bar"]
            found = [sum(column) for column in zip(*(trace["y"] for trace in bars), strict=True)]
        is_bars = name == "y" and any(trace["type"] == "bar" for trace in self.traces)
        low, high = min(found, default=0), max(found, default=1)
        if is_log:
            positive = [value for value in found if value > 0]
            low, high = log10(min(positive, default=1)) - 0.3, log10(max(positive, default=10)) + 0.2
        else:
            space = (high - low or abs(high) or 1) * 0.05
            low, high = (0 if is_bars else low - space), high + space
        values: Any = spec.get("tickvals")
        words: Any = spec.get("ticktext")
        if values is None:
            values = [10.0**power for power in range(round(low), round(high) + 1)] if is_log else []
            words = [f"{value:,.4g}" for value in values]
            if not is_log:
                made: Any = ticks(low, high)
                values, words = made["tickvals"], made["ticktext"]
        inside = [
            (value, word)
            for value, word in zip(values, words, strict=True)
            if low <= (log10(value) if is_log and value > 0 else value) <= high
        ]
        return _Axis(low, high, start, stop, [one for one, _ in inside], [one for _, one in inside], is_log)

    def _axis_up(self, axis: _Axis, x: _Axis, *, is_named: bool) -> Iterator[str]:
        y = self.figure.get("y")
        if isinstance(y, dict) and y.get("hidden"):
            return
        for value, word in zip(axis.tick_values, axis.tick_words, strict=True):
            at = axis.at(axis.names[int(value)] if axis.names else value)
            yield f'<path class="oc-grid-line" d="M{x.start:.0f} {at}H{x.stop:.0f}"/>'
            yield f'<text class="oc-soft" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(word)}</text>'
        title = y.get("title", "") if isinstance(y, dict) else "address" if self.figure.get("kind") == "map" else ""
        if title and is_named:
            middle = (axis.start + axis.stop) / 2
            turned = f'transform="rotate(-90 14 {middle:.0f})" text-anchor="middle"'
            yield f'<text class="oc-soft" x="14" y="{middle:.0f}" {turned}>{escape(title)}</text>'

    def _axis_across(self, axis: _Axis) -> Iterator[str]:
        bottom = self.bottoms[-1]
        yield f'<path class="oc-soft-line" d="M{axis.start:.0f} {bottom:.0f}H{axis.stop:.0f}" fill="none"/>'
        for value, word in zip(axis.tick_values, axis.tick_words, strict=True):
            at, y = axis.at(axis.names[int(value)] if axis.names else value), bottom + 15
            turned = f'text-anchor="end" transform="rotate(-35 {at} {y:.0f})"'
            place = turned if self.is_rotated else 'text-anchor="middle"'
            yield f'<text class="oc-soft" x="{at}" y="{y:.0f}" {place}>{escape(word)}</text>'
        x, kind = self.figure["x"], self.figure.get("kind")
        title = x.get("title", "") if isinstance(x, dict) else "cycle" if kind == "timeline" else "step"
        place = f'x="{(axis.start + axis.stop) / 2:.0f}" y="{bottom + 31:.0f}" text-anchor="middle"'
        yield f'<text class="oc-soft" {place}>{escape(title)}</text>'

    def _bars(self, trace: Any, x: _Axis, y: _Axis, below: dict[object, float]) -> Iterator[str]:  # noqa: ANN401 (JSON)
        yield f'<g class="oc-{trace["meta"]["paint"]}">'
        names = list[str]()
        opacities = (trace.get("marker") or {}).get("opacity") or [1] * len(trace["x"])
        for at, (across, up) in enumerate(zip(trace["x"], trace["y"], strict=True)):
            if trace.get("orientation") == "h":
                base, width = trace["base"][at], trace["width"][at]
                middle = y.names.index(up) + trace["offset"][at] + width / 2 if y.names else up
                box = (x.at(base), x.at(base + across), *_span(y, middle, width))
            elif "base" in trace:
                box = (*_span(x, across, trace["width"][at]), y.at(trace["base"][at]), y.at(trace["base"][at] + up))
            else:
                widths = trace.get("width") or [0.75] * len(trace["x"])
                base = below.get(across, 0.0)
                below[across] = base + up
                box = (*_span(x, x.names.index(str(across)), widths[at]), y.at(base), y.at(base + up))
            yield _rectangle(box, opacities[at], _words(trace, at))
            if "text" in trace:
                names.append(_name(box, trace["text"][at]))
        yield f'</g><g class="oc-surface">{"".join(names)}</g>' if any(names) else "</g>"


def _bytes_axis(high: float, start: float, stop: float) -> _Axis:
    marks: Any = ticks(0, high, "bytes", most=4)
    return _Axis(0, high, start, stop, marks["tickvals"], marks["ticktext"])


def _span(axis: _Axis, middle: float, width: float) -> tuple[float, float]:
    """Return the pixels of an interval, given in positions of the axis."""
    numbers = _Axis(axis.low, axis.high, axis.start, axis.stop, (), ())
    return numbers.at(middle - width / 2), numbers.at(middle + width / 2)


def _rectangle(box: Sequence[float], opacity: float, words: str) -> str:
    left, right, bottom, top = box
    x, y, width, height = min(left, right), min(bottom, top), abs(right - left), abs(bottom - top)
    gap = 0.6 if width > 3 and height > 3 else 0.0
    faint = "" if opacity == 1 else f' opacity="{opacity:g}"'
    size = f'width="{max(width - gap, 0.4):.2f}" height="{max(height - gap, 0.4):.2f}"'
    title = f"<title>{escape(words)}</title>" if words else ""
    return f'<rect x="{x:.2f}" y="{y:.2f}" {size}{faint}>{title}</rect>'


def _name(box: Sequence[float], name: str) -> str:
    """Return the name within a rectangle, or nothing if the rectangle is too small."""
    left, right, bottom, top = box
    if abs(right - left) < LETTER * len(name) + 6 or abs(bottom - top) < 13:
        return ""
    place = f'x="{(left + right) / 2:.1f}" y="{(bottom + top) / 2 + 4:.1f}" text-anchor="middle"'
    return f"<text {place}>{escape(name)}</text>"


def _line(trace: Any, x: _Axis, y: _Axis, below: dict[object, float]) -> Iterator[str]:  # noqa: ANN401 (JSON)
    paint, points = trace["meta"]["paint"], list(zip(trace["x"], trace["y"], strict=True))
    if trace.get("stackgroup"):
        yield _area(trace, x, y, below)
        return
    if "lines" in trace["mode"]:
        path, is_open = list[str](), False
        for across, up in points:
            if across is None:
                is_open = False
                continue
            path.append(f"{'L' if is_open else 'M'}{x.at(across)} {y.at(up)}")
            is_open = True
        dash = DASHES.get((trace.get("line") or {}).get("dash", ""))
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        yield f'<path class="oc-{paint}-line" d="{"".join(path)}" fill="none" stroke-width="1.5"{dashed}/>'
    if "markers" in trace["mode"]:
        size = min((trace.get("marker") or {}).get("size", 7), 12)
        for at, (across, up) in enumerate(points):
            if across is not None:
                box = (x.at(across) - size / 2, x.at(across) + size / 2, y.at(up) - size / 2, y.at(up) + size / 2)
                yield f'<g class="oc-{paint}">{_rectangle(box, 1, _words(trace, at))}</g>'


def _area(trace: Any, x: _Axis, y: _Axis, below: dict[object, float]) -> str:  # noqa: ANN401 (JSON)
    """Return the area of a trace upon those below; each value holds from its edge to the next."""
    edges, bases = trace["x"], [below.get(edge, 0.0) for edge in trace["x"]]
    tops = [base + value for base, value in zip(bases, trace["y"], strict=True)]
    below |= dict(zip(edges, tops, strict=True))

    def steps(values: Sequence[float]) -> list[str]:
        return [
            f"{x.at(edge)} {y.at(value)}" for at, value in enumerate(values[:-1]) for edge in (edges[at], edges[at + 1])
        ]

    outline = "L".join([*steps(tops), *reversed(steps(bases))])
    return f'<path class="oc-{trace["meta"]["paint"]}" d="M{outline}Z"/>'


def _cells(trace: Any, x: _Axis, y: _Axis) -> Iterator[str]:  # noqa: ANN401 (JSON)
    """Yield the cells of a coarse map, equal neighbours of a row as one rectangle."""
    paints, columns = trace["meta"]["paints"], trace["x"]
    for row, line in enumerate(trace["z"]):
        start = 0
        for stop in range(1, len(line) + 1):
            if stop == len(line) or line[stop] != line[start]:
                if line[start] is not None:
                    up = y.at(trace["y"][row]), y.at(trace["y"][row + 1])
                    box = (x.at(columns[start]), x.at(columns[stop]), *up)
                    yield f'<g class="oc-{paints[line[start]]}">{_rectangle(box, 1, "")}</g>'
                start = stop


def _words(trace: Any, at: int) -> str:  # noqa: ANN401 (JSON)
    """Return the hover text of a mark."""
    for name in ("text", "customdata"):
        found = trace.get(name)
        if found and isinstance(found[at], str):
            return re.sub("<br>", ", ", found[at])
    return ""
