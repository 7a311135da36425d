"""The page of a store: one HTML file for offline use, or served while a sweep runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from onchip.reports.shared.page import Card, Json, Page
from onchip.sweeps.point import PointFigures, PointStatus
from onchip.sweeps.stored_row import StoredRow, columns_of

METRICS = ("objective_value", "lower_bound", *(one.name for one in fields(PointFigures)), "seconds")


@dataclass(frozen=True, slots=True)
class ShownStore:
    """The rows of a store, the number of all points of its studies, and whether the page is live."""

    name: str
    rows: Sequence[StoredRow]
    planned: int
    is_live: bool = False


def sweep_html(shown: ShownStore, command_line: str) -> str:
    """Return the HTML page; raises UsageError if a package for pages is missing."""
    values = {"title": shown.name, "cards": _cards(shown), "command_line": command_line}
    scripts = ("canvas.js", "sweep.js")
    return Page("sweep.html.j2", scripts, sweep_facts(shown), values, has_plotly=False).html()


def sweep_facts(shown: ShownStore) -> Json:
    """Return the data of the page's script: the rows as lists in the order of the columns."""
    records = [row.record for row in shown.rows]
    columns = columns_of(records)
    named = dict.fromkeys(name for row in shown.rows for name in (*row.options, *row.parameters))
    return {
        "columns": list(columns),
        "rows": [[record.get(name) for name in columns] for record in records],
        "parameters": list(named),
        "costs": list(dict.fromkeys(name for row in shown.rows for name in row.costs)),
        "metrics": list(METRICS),
        "store": shown.name,
        "planned": shown.planned,
        "live": shown.is_live,
    }


def _cards(shown: ShownStore) -> list[Card]:
    statuses = [row.answer.status for row in shown.rows]
    settled = sum(row.answer.settled_by is not None for row in shown.rows)
    optimal, failed = statuses.count(PointStatus.OPTIMAL), statuses.count(PointStatus.FAILED)
    infeasible = statuses.count(PointStatus.INFEASIBLE)
    return [
        Card("points", f"{len(statuses):,}", f"of {shown.planned:,}"),
        Card("proven", f"{optimal + infeasible:,}", f"{infeasible:,} of them infeasible", "good"),
        Card("settled by others", f"{settled:,}", "not computed"),
        Card("failed", f"{failed:,}", "see the column `reason`", "fair" if failed else "good"),
    ]
