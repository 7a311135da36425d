"""An HTML page that opens offline, and HTML tables for notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import TypeAlias

from onchip.errors import UsageError

Json: TypeAlias = dict[str, object]

_ASSETS = "onchip.reports.assets"
_DRAWING = "figures.js"


def trace(
    mode: str,
    name: str,
    x: Sequence[object],
    y: Sequence[object],
    paint: str,
    hover: str | None = None,
    meta: Mapping[str, object] | None = None,
    **fields: object,
) -> Json:
    """Return a trace of plotly; `mode` is `bar` or what a scatter draws.

    `hover` is the template of the hover text, None for no text; `meta` is for the page's script.
    """
    head = {"type": "bar"} if mode == "bar" else {"type": "scatter", "mode": mode}
    hovered = {"hoverinfo": "skip"} if hover is None else {"hovertemplate": f"{hover}<extra></extra>"}
    return {**head, "name": name, "x": [*x], "y": [*y], **fields, "meta": {"paint": paint, **(meta or {})}, **hovered}


@dataclass(frozen=True, slots=True)
class Card:
    """A figure in large print; a `tone` (`good` or `fair`) colours it."""

    label: str
    value: str
    note: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of `template`: `scripts` draw figures from `facts`; `values` and `filters` go to the template.

    Scripts that draw on a canvas need no plotly.
    """

    template: str
    scripts: tuple[str, ...]
    facts: Json
    values: Mapping[str, object]
    filters: Mapping[str, Callable[..., str]] = field(default_factory=dict)
    has_plotly: bool = True

    def html(self) -> str:
        """Return the whole text of the file; raises UsageError if a package for pages is missing."""
        ensure_report_can_be_made()
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from plotly.offline import get_plotlyjs

        environment = Environment(
            loader=PackageLoader("onchip.reports", "assets"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= self.filters
        return environment.get_template(self.template).render(
            **self.values,
            style=_text("report.css"),
            script="\n".join(_text(name) for name in (_DRAWING, *self.scripts)),
            plotly=get_plotlyjs() if self.has_plotly else "",
            facts=_embedded(self.facts),
        )


def ensure_report_can_be_made() -> None:
    """Raise UsageError unless the packages that make reports are installed."""
    try:
        import jinja2
        import plotly.offline
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed",
            place="report",
            expected="the extra `report`: pip install 'onchip[report]'",
        ) from None
    del jinja2, plotly


def _text(name: str) -> str:
    return files(_ASSETS).joinpath(name).read_text(encoding="utf-8")


def _embedded(value: Json) -> str:
    """Return JSON without characters that an HTML parser could take for the end of its script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table with escaped text; numbers have commas, and None is empty."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(_shown(value))}</td>' for value in row)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
