"""A level that stays the same over all steps, as a capacity does, in a figure of bytes over time."""

from __future__ import annotations

from onchip.reports.shared.words import exact_bytes, short_bytes


def level_line(steps: int, value: int, name: str, paint: str, *, dash: str) -> dict[str, object]:
    """A dashed line at so many bytes from the first to the last step; `paint` is a colour of the page, by name."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name} ({short_bytes(value)})",
        "x": [0, steps],
        "y": [value, value],
        "line": {"dash": dash, "width": 1.5},
        "meta": {"paint": paint, "level": True},
        "hovertemplate": f"{name}: {exact_bytes(value)}<extra></extra>",
    }
