"""Bars in parts, as plotly figures in plain dicts; colours are names that the page's theme resolves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onchip.reports.shared.page import Json
from onchip.reports.shared.words import short_energy

PAINTS: Final = (
    "role-input", "role-activation", "role-output", "back-activation", "back-output", "role-moved", "back-input",
    "back-parameter",
)  # fmt: skip
"""Colours that are told apart beside each other."""
MAC_PAINT: Final = "role-parameter"


@dataclass(frozen=True, slots=True)
class PartedBars:
    """A bar for each of `labels`, of `parts` upon each other: by name a height for each label, and a colour.

    `words` says a height; `title` is that of the axis of heights.
    """

    labels: Sequence[str]
    parts: Mapping[str, Sequence[float]]
    paints: Mapping[str, str]
    words: Callable[[float], str]
    title: str

    def figure(self) -> Json:
        """The figure; parts that are nowhere are left out."""
        traces = [self._trace(name, heights) for name, heights in self.parts.items() if any(heights)]
        return {"traces": traces, "x": {"type": "category"}, "y": {"title": self.title}}

    def _trace(self, name: str, heights: Sequence[float]) -> Json:
        return {
            "type": "bar",
            "name": name,
            "x": list(self.labels),
            "y": list(heights),
            "customdata": [self.words(height) for height in heights],
            "meta": {"paint": self.paints[name]},
            "hovertemplate": f"%{{x}}<br>{name}: %{{customdata}}<extra></extra>",
        }


def energy_bars(labels: Sequence[str], parts: Mapping[str, Sequence[float]], paints: Mapping[str, str]) -> Json:
    """Draw energies in picojoules: a bar for each label, in parts."""
    return PartedBars(labels, parts, paints, short_energy, "pJ").figure()


def memory_paints(memories: Sequence[str]) -> dict[str, str]:
    """A colour for each memory, by its place."""
    return {name: PAINTS[at % len(PAINTS)] for at, name in enumerate(memories)}
