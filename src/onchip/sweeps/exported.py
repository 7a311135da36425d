"""Rows of a store as CSV, JSON or Parquet; equal rows give equal bytes, except for their seconds."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from onchip.errors import UsageError
from onchip.formats.csv_tables import spreadsheet_cell
from onchip.sweeps.expression import Value
from onchip.sweeps.stored_row import columns_of

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
            raise UsageError("pyarrow is not installed", place="--export parquet", expected=expected) from None
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
