"""Rows of a store: as typed records, tables, text, files and pages."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from onchip.answer.words import SCALES, counted, picked
from onchip.errors import UsageError
from onchip.reports.exports import spreadsheet_cell
from onchip.reports.shared.facts import DataTable, shown
from onchip.reports.shared.figures import Json
from onchip.reports.shared.page import Card, rendered
from onchip.sweeps.point import FIGURES, Number, PointAnswer, PointStatus, Scalar, Value

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import RenderableType

    from onchip.sweeps.sweep import SweepOutcome, SweepProgress

ASKED: Final = ("study", "number", "verb", "network", "accelerator", "objective")
FOUND: Final = (
    *("status", "objective_value", "lower_bound", "unit"),
    *FIGURES,
    *("settled", "reason", "seconds", "key"),
)
COLUMNS: Final = (*ASKED, *FOUND)
"""Columns of every row; options, parameters and costs are between the two groups."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A point of a study; `options` are the given ones, `parameters` and `costs` are by the study's names."""

    study_sha256: str
    study: str
    number: int
    key: str
    verb: str
    network: str
    accelerator: str
    objective: str
    options: Mapping[str, object] = field(hash=False)
    parameters: Mapping[str, Scalar] = field(hash=False)
    costs: Mapping[str, Number] = field(hash=False)
    network_sha256: str
    machine_sha256: str
    sram_bytes: int | None
    answer: PointAnswer

    @property
    def record(self) -> dict[str, Value]:
        """Return the row as a flat record of plain values, for tables, files and filters."""
        answer = self.answer
        options = {
            name: value if isinstance(value, str | int | float | bool) else str(value)
            for name, value in self.options.items()
        }
        return {
            **{name: getattr(self, name) for name in ASKED},
            **options,
            **self.parameters,
            **self.costs,
            "status": str(answer.status),
            "objective_value": answer.objective_value,
            "lower_bound": answer.lower_bound,
            "unit": answer.unit,
            **asdict(answer.figures),
            "settled": answer.settled_by is not None,
            "reason": answer.reason,
            "seconds": answer.seconds,
            "key": self.key,
        }


def columns_of(records: Iterable[Mapping[str, Value]]) -> tuple[str, ...]:
    """Return the names of all columns, including options and parameters of only some rows."""
    named = dict.fromkeys(name for record in records for name in record)
    return (*ASKED, *(name for name in named if name not in COLUMNS), *FOUND)


Record = Mapping[str, Value]


class RowFormat(StrEnum):
    """The file formats of exported rows."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def exported(records: Sequence[Record], file_format: RowFormat) -> bytes:
    """Return the bytes of a file with these rows; raises UsageError if Parquet's package is missing."""
    return _WRITTEN[file_format](records, columns_of(records))


def ensure_exportable(file_format: RowFormat) -> None:
    """Raise UsageError unless the package for the format is installed."""
    if file_format is RowFormat.PARQUET:
        try:
            import pyarrow
        except ImportError:
            expected = "the extra `parquet`: pip install 'onchip[parquet]'"
            raise UsageError("pyarrow is not installed", place="export parquet", expected=expected) from None
        del pyarrow


def _csv(records: Sequence[Record], columns: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_cell(value) for name, value in record.items()} for record in records)
    return text.getvalue().encode()


def _json(records: Sequence[Record], columns: Sequence[str]) -> bytes:
    del columns  # each object has the columns of its row
    lines = ",\n ".join(json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records)
    return f"[{lines}]\n".encode()


def _parquet(records: Sequence[Record], columns: Sequence[str]) -> bytes:
    ensure_exportable(RowFormat.PARQUET)
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({name: _column([record.get(name) for record in records]) for name in columns})
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def _column(values: Sequence[Value]) -> list[Value]:
    """Return the values as one type: text if a column has text and numbers, floats if it has both kinds of numbers."""
    present = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in present) and not all(isinstance(value, str) for value in present):
        return [None if value is None else str(value) for value in values]
    if any(isinstance(value, float) for value in present):
        return [None if value is None else float(value) for value in values]
    return list(values)


_WRITTEN: Final[Mapping[RowFormat, Callable[[Sequence[Record], Sequence[str]], bytes]]] = {
    RowFormat.CSV: _csv,
    RowFormat.JSON: _json,
    RowFormat.PARQUET: _parquet,
}


MOST_SHOWN: Final = 60
"""Maximum number of rows shown in a notebook."""


class SweepRows(tuple[StoredRow, ...]):
    """Rows of a store, in order; each has its question, its parameters and its answer."""

    __slots__ = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of all columns, in the order of the files that `--export` writes."""
        return columns_of([row.record for row in self])

    def to_pandas(self) -> DataFrame:
        """Return the rows as a pandas frame; raises UsageError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise UsageError("pandas is not installed", place="to_pandas", expected="pip install pandas") from None
        return pandas.DataFrame([row.record for row in self], columns=list(self.columns))

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        columns, records = self.columns, [row.record for row in self[:MOST_SHOWN]]
        more = f", the first {MOST_SHOWN} shown" if len(self) > MOST_SHOWN else ""
        lines = [[record.get(name) for name in columns] for record in records]
        return DataTable(columns, lines, title=f"{len(self):,} points{more}").html()


MOST_ROWS: Final = 60
"""Maximum number of rows of a table on a terminal."""


def progress_text(progress: SweepProgress) -> str:
    """Return the progress of a sweep: points done, failed, saved, running, and the time left."""
    saved = progress.settled + progress.kept_before
    text = f"{progress.done:,} of {counted(progress.points, 'point')}, {progress.failed:,} failed, {saved:,} saved"
    left = progress.seconds_left
    return f"{text}, {progress.in_flight:,} in flight" + ("" if left is None else f", {left:,.0f} s left")


def sweep_object(found: tuple[SweepOutcome | None, Sequence[StoredRow]]) -> dict[str, object]:
    """Return the outcome of a study, if one was given, and all rows, as a JSON object."""
    swept, rows = found
    counts: dict[str, object] = {}
    if swept is not None:
        names = ("points", "computed", "failed", "settled", "kept_before")
        counts = {**picked(swept.progress, *names), "is_over": swept.is_over, "seconds": swept.progress.watch.seconds}
    return {**counts, "rows": [row.record for row in rows]}


def sweep_tables(found: tuple[SweepOutcome | None, Sequence[StoredRow]]) -> Iterator[RenderableType]:
    """Yield a table of rows, and a line with the outcome of the study's points."""
    from rich.text import Text

    swept, rows = found
    yield _table(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield Text(f"and {len(rows) - MOST_ROWS:,} more rows: --export, --query or `onchip report` show them")
    if swept is not None:
        progress = swept.progress
        end = "" if swept.is_over else "; stopped: repeat the command to continue"
        yield Text(
            f"{counted(progress.points, 'point')}: {progress.computed:,} computed, {progress.settled:,} inferred "
            f"from others, {progress.kept_before:,} already stored, {progress.failed:,} failed{end}"
        )


def _table(rows: Sequence[StoredRow]) -> RenderableType:
    parameters = [*dict.fromkeys(name for row in rows for name in (*row.options, *row.parameters, *row.costs))]
    names = ("network", "accelerator", "objective", *parameters)
    found = []
    for row in rows:
        record, answer = row.record, row.answer
        status = f"{answer.status}{' (inferred)' if answer.settled_by else ''}"
        figures = answer.objective_value, answer.lower_bound, answer.figures.peak_bytes
        named = (shown(record.get(name)) for name in names)
        found.append((*named, status, *figures, f"{answer.seconds:.3f}"))
    return DataTable((*names, "status", "value", "bound", "peak", "seconds"), found)


METRICS = ("objective_value", "lower_bound", *FIGURES, "seconds")


@dataclass(frozen=True, slots=True)
class ShownStore:
    """The rows of a store, and the number of all points of its studies."""

    name: str
    rows: Sequence[StoredRow]
    planned: int


def sweep_html(shown: ShownStore, command_line: str) -> str:
    """Return the HTML page; raises UsageError if a package for pages is missing."""
    values = {"title": shown.name, "cards": _cards(shown), "command_line": command_line}
    scripts = ("canvas.js", "sweep.js")
    return rendered("sweep.html.j2", scripts, sweep_facts(shown), values, has_plotly=False)


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
        "units": {name: unit for name in columns if (unit := _unit_of(name))},
        "scales": SCALES,
        "store": shown.name,
        "planned": shown.planned,
    }


def _unit_of(column: str) -> str:
    """Return the unit in which a column's name ends, or nothing."""
    last = column.rpartition("_")[2]
    return {"sram": "bytes", "pj": "pJ", "seconds": "s"}.get(last, last if last in SCALES else "")


def _cards(shown: ShownStore) -> list[Card]:
    statuses = [row.answer.status for row in shown.rows]
    settled = sum(row.answer.settled_by is not None for row in shown.rows)
    optimal, failed = statuses.count(PointStatus.OPTIMAL), statuses.count(PointStatus.FAILED)
    infeasible = statuses.count(PointStatus.INFEASIBLE)
    proven = optimal + infeasible
    return [
        Card("Points", f"{len(statuses):,}", f"of {shown.planned:,} planned"),
        Card("Proven", f"{proven:,}", f"{infeasible:,} infeasible", "good" if proven else ""),
        Card("Implied by other points", f"{settled:,}", "not computed"),
        Card("Failed", f"{failed:,}", "reasons: column `reason`" if failed else "", "fair" if failed else ""),
    ]
