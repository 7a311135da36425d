"""HTML pages that open offline: one layout for every answer, made of a fact table and sections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from platform import python_version
from typing import Final, TypeAlias

from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.reports.shared.facts import DataTable, Rows, shown
from onchip.reports.shared.figures import DrawnResidencies, Json, memory_title

_ASSETS: Final = "onchip.reports.assets"
_DRAWING: Final = "figures.js"
_AFTER_A_FIGURE: Final = re.compile(r": | \(|, |; ")
_VALUE: Final = re.compile(r"(\D*?):? (\d.*)")
_IN_SENTENCES: Final = ("elements", "coverage")
"""Facts that begin with a figure, but are sentences."""
Part: TypeAlias = "Mapping[str, object]"
"""An element of a section; `kind` selects how `parts.html.j2` renders it."""


def lead(text: str) -> Part:
    """Return a sentence of a section."""
    return {"kind": "lead", "text": text}


def heading(text: str) -> Part:
    """Return a heading within a section."""
    return {"kind": "heading", "text": text}


def still(name: str, label: str, caption: str = "") -> Part:
    """Return a figure without zoom; `name` is its element id and its key in the page's figures."""
    return {"kind": "still", "name": name, "label": label, "caption": caption}


def side_by_side(parts: Iterable[Part]) -> Part:
    """Return small figures side by side."""
    return {"kind": "side_by_side", "parts": tuple(parts)}


def moving(name: str, label: str, shape: str, *, has_cycles: bool = False) -> Part:
    """Return a figure with zoom: a `map` or `coarse` map of addresses, a `footprint`, or a `timeline`."""
    return {"kind": "moving", "name": name, "label": label, "shape": shape, "has_cycles": has_cycles}


def table(grid: DataTable) -> Part:
    """Return a table of a section."""
    return {"kind": "table", "grid": grid}


def code(text: str) -> Part:
    """Return text that is shown as it is."""
    return {"kind": "code", "text": text}


def details(summary: str, *parts: Part, anchor: str = "", is_open: bool = False) -> Part:
    """Return parts that a click on the summary shows."""
    return {"kind": "details", "summary": summary, "parts": parts, "anchor": anchor, "is_open": is_open}


def memory_parts(drawn: DrawnResidencies, memories: Sequence[Memory], *, has_cycles: bool) -> Iterator[Part]:
    """Yield the map and the footprint of each memory."""
    for number, memory in enumerate(memories):
        yield heading(memory_title(memory))
        count, is_coarse = drawn.counts.get(memory.name, 0), memory.name in drawn.coarse
        if not count:
            yield lead("This memory holds no tensor.")
            continue
        if is_coarse:
            too_many = f"{count:,} residencies are too many to draw one by one"
            yield lead(f"{too_many}: each cell shows the kind that takes most of it.")
        shape = "coarse" if is_coarse else "map"
        yield moving(f"map-{number}", f"Memory map of {memory.name}", shape, has_cycles=has_cycles)
        yield moving(f"footprint-{number}", f"Footprint in {memory.name}", "footprint", has_cycles=has_cycles)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page, with its element id."""

    anchor: str
    title: str
    parts: Sequence[Part]


def section(anchor: str, title: str, text: str, *parts: Part) -> Section:
    """Return a section that begins with a sentence."""
    return Section(anchor, title, (lead(text), *parts))


@dataclass(frozen=True, slots=True)
class Card:
    """A figure in large print; a `tone` (`good` or `fair`) colours it."""

    label: str
    value: str
    note: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class AnswerPage:
    """The page of an answer: the facts that a terminal shows, the exact figures of `--json`, and sections.

    `figures` are drawn by the element ids of parts. `more` is further data of the scripts for figures with zoom.
    """

    title: str
    rows: Rows
    exact: Mapping[str, object]
    command_line: str
    sections: Sequence[Section]
    figures: Json
    notes: Sequence[str] = ()
    summary: Sequence[Part] = ()
    more: Json = field(default_factory=dict)

    def html(self) -> str:
        """Return the text of the file; raises UsageError if a package for pages is missing."""
        ensure_report_can_be_made()
        cards = {name: card for name, value in self.rows if (card := card_of(name, value)) is not None}
        values = {
            "title": self.title,
            "cards": cards.values(),
            "rows": [(name, value.replace("`", "")) for name, value in self.rows if name not in cards],
            "notes": self.notes,
            "summary": self.summary,
            "exact": [*fact_rows(self.exact), *origin_rows(self.command_line)],
            "sections": self.sections,
        }
        scripts = ("words.js", "time.js") if self.more else ("plain.js",)
        return rendered("answer.html.j2", scripts, {"figures": self.figures, **self.more}, values)


def card_of(name: str, value: str) -> Card | None:
    """Return the card of a fact that begins with a figure, of the objective or of the status; else None."""
    label, tone = name[:1].upper() + name[1:], ""
    if name == "objective" and (found := _VALUE.fullmatch(value)):
        return Card(label, found[2], found[1])
    if name == "status":
        tone = "good" if value.startswith("OPTIMAL") else "fair"
    elif name in _IN_SENTENCES or not (value[:1].isdigit() or value[:1] in ("+", "-")):
        return None
    figure, *rest = _AFTER_A_FIGURE.split(value, maxsplit=1)
    note = "".join(rest)
    return Card(label, figure, note[:-1] if f" ({note}" in value else note, tone)


def rendered(
    template: str, scripts: Sequence[str], facts: Json, values: Mapping[str, object], *, has_plotly: bool = True
) -> str:
    """Return a page of a template: `scripts` draw figures from `facts`; scripts that draw on a canvas need no plotly.

    Raises UsageError if a package for pages is missing.
    """
    ensure_report_can_be_made()
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    loader = PackageLoader("onchip.reports", "assets")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    embedded = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    return environment.get_template(template).render(
        **values,
        style=asset("report.css"),
        script="\n".join(asset(name) for name in (_DRAWING, *scripts)),
        plotly=get_plotlyjs() if has_plotly else "",
        facts=embedded.replace("<", "\\u003c"),  # an HTML parser could take it for the end of the script
    )


def ensure_report_can_be_made() -> None:
    """Raise UsageError unless the packages that make reports are installed."""
    try:
        import jinja2
        import plotly.offline
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed", "report", "the extra `report`: pip install 'onchip[report]'"
        ) from None
    del jinja2, plotly


def asset(name: str) -> str:
    """Return the text of a style sheet, script or template."""
    return files(_ASSETS).joinpath(name).read_text(encoding="utf-8")


def fact_rows(facts: Mapping[str, object], name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the exact value of each figure of a JSON object; lists of objects are left out."""
    for key, value in facts.items():
        words = f"{name} {key}".replace("_", " ").strip()
        if isinstance(value, Mapping):
            yield from fact_rows(value, words)
        elif isinstance(value, list | tuple):
            if value and not any(isinstance(one, Mapping | list) for one in value):
                yield words, "; ".join(map(str, value))
        elif value is not None and value != "":
            yield words, shown(value)


def origin_rows(command_line: str) -> list[tuple[str, str]]:
    """Return the versions and the command that made a page."""
    versions = f"onchip {version('onchip')}, plotly {version('plotly')}, Python {python_version()}"
    return [("versions", versions), ("command", command_line)]
