"""A figure of how a memory is split: the least traffic of each split, a bar each, as SVG of the standard library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from onchip.sweeps.stored_row import StoredRow

WIDTH, ROW, LEFT, RIGHT, GAP = 860, 20, 230, 150, 14
INK, BAR, BOUND, NOTHING = "#8a8f98", "#4c78c8", "#ee854a", "#c44e52"


def figure_of_splits(rows: Sequence[StoredRow], networks: Sequence[str]) -> str:
    """Each network's splits, largest scratchpad first; a mark where the bound is below, words where nothing fits."""
    greatest = max((row.answer.objective_value or 0 for row in rows if row.network in networks), default=0) or 1
    parts, y = [], GAP
    for network in networks:
        parts.append(_text(8, y + 14, network, "bold"))
        y += ROW
        chosen = sorted(
            (row for row in rows if row.network == network), key=lambda row: (len(row.parameters), _sizes(row))
        )
        for row in chosen:
            parts += _bar(row, y, greatest)
            y += ROW
        y += GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
    title = "least non-compulsory traffic of each split of 2 MiB"
    return f'{head}font-family="sans-serif" font-size="12" role="img" aria-label="{title}">{"".join(parts)}</svg>\n'


def _sizes(row: StoredRow) -> tuple[int, ...]:
    return tuple(-int(size) // 1024 for size in row.parameters.values())


def _bar(row: StoredRow, y: int, greatest: float) -> list[str]:
    name = " + ".join(str(-size) for size in _sizes(row)) or "2048"
    parts = [_text(LEFT - 8, y + 14, f"{name} KiB", anchor="end")]
    value, bound = row.answer.objective_value, row.answer.lower_bound
    if value is None:
        return [*parts, _text(LEFT, y + 14, "does not fit", fill=NOTHING)]
    scale = (WIDTH - LEFT - RIGHT) / greatest
    parts.append(
        f'<rect x="{LEFT}" y="{y + 3}" width="{max(1.0, value * scale):.1f}" height="{ROW - 6}" fill="{BAR}"/>'
    )
    if bound is not None and bound < value:
        parts.append(f'<rect x="{LEFT + bound * scale:.1f}" y="{y + 1}" width="3" height="{ROW - 2}" fill="{BOUND}"/>')
    words = f"{value:,} bytes" + ("" if bound == value else ", bound marked")
    return [*parts, _text(LEFT + max(1.0, value * scale) + 6, y + 14, words)]


def _text(x: float, y: float, words: str, weight: str = "normal", anchor: str = "start", fill: str = INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" text-anchor="{anchor}" fill="{fill}">{escape(words)}</text>'
    )
