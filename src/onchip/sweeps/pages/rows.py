"""The rows of a sweep in Python: a sequence of typed rows, and a pandas frame if pandas is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, overload

from onchip.errors import UsageError
from onchip.reports.shared.page import html_table
from onchip.sweeps.stored_row import StoredRow, columns_of

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_SHOWN: Final = 60
"""Maximum number of rows shown in a notebook."""


@dataclass(frozen=True, slots=True)
class SweepRows(Sequence[StoredRow]):
    """Rows of a store, in order; each has its question, its parameters and its answer."""

    rows: tuple[StoredRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[StoredRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, at: int) -> StoredRow: ...

    @overload
    def __getitem__(self, at: slice) -> SweepRows: ...

    def __getitem__(self, at: int | slice) -> StoredRow | SweepRows:
        return SweepRows(self.rows[at]) if isinstance(at, slice) else self.rows[at]

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of all columns, in the order of the files that `--export` writes."""
        return columns_of([row.record for row in self.rows])

    @property
    def frame(self) -> DataFrame:
        """Return the rows as a pandas frame; raises UsageError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise UsageError("pandas is not installed", place="frame", expected="pip install pandas") from None
        return pandas.DataFrame([row.record for row in self.rows], columns=list(self.columns))

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        columns, records = self.columns, [row.record for row in self.rows[:MOST_SHOWN]]
        more = f", the first {MOST_SHOWN} shown" if len(self.rows) > MOST_SHOWN else ""
        lines = [[record.get(name) for name in columns] for record in records]
        return html_table(columns, lines, f"{len(self.rows):,} points{more}")
