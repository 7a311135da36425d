"""HTML pages that open offline: cards, tables and the template around them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from importlib.resources import files
from platform import python_version

from onchip.answer.words import percent, short_amount
from onchip.errors import UsageError
from onchip.reports.shared.figures import Json

_ASSETS = "onchip.reports.assets"
_DRAWING = "figures.js"


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
        """Return the text of the file; raises UsageError if a package for pages is missing."""
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
            style=asset("report.css"),
            script="\n".join(asset(name) for name in (_DRAWING, *self.scripts)),
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


def asset(name: str) -> str:
    """Return the text of a style sheet, script or template."""
    return files(_ASSETS).joinpath(name).read_text(encoding="utf-8")


def _embedded(value: Json) -> str:
    """Return JSON without characters that an HTML parser could take for the end of its script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def bound_card(lower_bound: float, unit: str, gap: float | None) -> Card:
    """Return the card of a lower bound with its gap."""
    return Card("Lower bound", short_amount(lower_bound, unit), "" if gap is None else f"gap {percent(gap)}")


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


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table with escaped text; numbers have commas, and None is empty."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(shown(value))}</td>' for value in row)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def shown(value: object) -> str:
    """Return a value of a table: numbers with commas, None as an empty text."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
