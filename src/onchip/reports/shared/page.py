"""A page: one HTML file that opens offline, made of a template, what its script draws, and plotly."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TypeAlias

from onchip.errors import UsageError

Json: TypeAlias = dict[str, object]

_ASSETS = "onchip.reports.assets"
_DRAWING = "figures.js"


@dataclass(frozen=True, slots=True)
class Card:
    """One figure in large print; a `tone` (`good` or `fair`) colours it."""

    label: str
    value: str
    note: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of `template`, whose figures `scripts` draw from `facts`; `values` and `filters` are the template's.

    Scripts that draw by themselves do without plotly.
    """

    template: str
    scripts: tuple[str, ...]
    facts: Json
    values: Mapping[str, object]
    filters: Mapping[str, Callable[..., str]] = field(default_factory=dict)
    has_plotly: bool = True

    def html(self) -> str:
        """The whole text of the file; raises UsageError where a package is missing that makes pages."""
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
    """JSON that no HTML parser mistakes for the end of its script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
