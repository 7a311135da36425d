"""Queries on a store: its rows, as typed rows and as a file."""

from __future__ import annotations

from pathlib import Path

from onchip.api.phases import phase
from onchip.errors import InputError
from onchip.formats.files import write_file
from onchip.sweeps.exported import RowFormat, exported
from onchip.sweeps.expression import Expression
from onchip.sweeps.pages.page import ShownStore
from onchip.sweeps.store import Store
from onchip.sweeps.stored_row import StoredRow, columns_of


@phase("reading")
def rows_of_store(store: Path, query: str | None = None) -> tuple[StoredRow, ...]:
    """Return the rows of a store that match the query, all rows without one.

    Raises InputError for an unreadable store.
    """
    asked = None if query is None else query_of(query)
    with Store.for_reading(store) as opened:
        rows = tuple(opened.rows())
    if asked is None:
        return rows
    records = [row.record for row in rows]
    columns = columns_of(records)
    try:
        asked.ensure_names_are(frozenset(columns))
        missing = dict.fromkeys(columns)
        return tuple(row for row, record in zip(rows, records, strict=True) if asked.holds({**missing, **record}))
    except InputError as error:
        error.place = "--query"
        raise


def shown_store(store: Path, *, is_live: bool = False) -> ShownStore:
    """Return a store as its page shows it; raises InputError for an unreadable store."""
    with Store.for_reading(store) as opened:
        return ShownStore(store.name, tuple(opened.rows()), opened.planned, is_live)


def answer_file(store: Path, key: str) -> bytes:
    """Return the answer file of a point, by its key or a prefix; raises InputError for an unknown or ambiguous key."""
    with Store.for_reading(store) as opened:
        keys = sorted({row.key for row in opened.rows() if row.key.startswith(key)})
        if len(keys) != 1:
            what = f"{len(keys)} points have a key that begins with {key!r}"
            raise InputError(what, file=str(store), place="--answer", expected="one, from the column `key`")
        document = opened.document(keys[0])
    if document is None:
        raise InputError(f"point {key!r} has no answer", file=str(store), place="--answer", expected="one that has")
    return document


def query_of(text: str) -> Expression:
    """Return the expression of a query; raises InputError that names the option."""
    try:
        return Expression(text)
    except InputError as error:
        error.place = "--query"
        raise


def export_rows(rows: tuple[StoredRow, ...], file_format: RowFormat, output: Path) -> None:
    """Write rows as a file; raises OutputError if it cannot be written, UsageError if a package is missing."""
    write_file(output, exported([row.record for row in rows], file_format))
