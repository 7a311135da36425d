"""A sweep as text and as a JSON object: the state of its points, and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from onchip.reports.shared.words import counted, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.sweeps.engine import SweepProgress
    from onchip.sweeps.stored_row import StoredRow

MOST_ROWS: Final = 60
"""Maximum number of rows of a table on a terminal."""


class Swept(Protocol):
    """The outcome of a study."""

    @property
    def progress(self) -> SweepProgress:
        """Return the number of points by state."""

    @property
    def is_over(self) -> bool:
        """Return True if every point has an answer."""


def progress_text(progress: SweepProgress) -> str:
    """Return the progress of a sweep: points done, failed, saved, running, and the time left."""
    saved = progress.settled + progress.kept_before + progress.spared
    text = f"{progress.done:,} of {counted(progress.points, 'point')}, {progress.failed:,} failed, {saved:,} saved"
    left = progress.seconds_left
    return f"{text}, {progress.in_flight:,} in flight" + ("" if left is None else f", {left:,.0f} s left")


def sweep_object(found: tuple[Swept | None, Sequence[StoredRow]]) -> dict[str, object]:
    """Return the outcome of a study, if one was given, and all rows, as a JSON object."""
    swept, rows = found
    return {**({} if swept is None else _counts(swept)), "rows": [row.record for row in rows]}


def _counts(swept: Swept) -> dict[str, object]:
    progress = swept.progress
    return {
        "points": progress.points,
        "computed": progress.computed,
        "failed": progress.failed,
        "settled": progress.settled,
        "kept_before": progress.kept_before,
        "spared": progress.spared,
        "is_over": swept.is_over,
        "seconds": progress.watch.seconds,
    }


def sweep_tables(found: tuple[Swept | None, Sequence[StoredRow]]) -> Iterator[RenderableType]:
    """Yield a table of rows, and a line with the outcome of the study's points."""
    from rich.text import Text

    swept, rows = found
    yield _table(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield Text(f"and {len(rows) - MOST_ROWS:,} more rows: --export, --query or `onchip report` show them")
    if swept is not None:
        progress = swept.progress
        spared = f", {progress.spared:,} off the front" if progress.spared else ""
        end = "" if swept.is_over else "; stopped: the same command goes on"
        yield Text(
            f"{counted(progress.points, 'point')}: {progress.computed:,} computed, {progress.settled:,} settled by "
            f"others, {progress.kept_before:,} in the store before, {progress.failed:,} failed{spared}{end}"
        )


def _table(rows: Sequence[StoredRow]) -> RenderableType:
    from rich.table import Table

    parameters = [*dict.fromkeys(name for row in rows for name in (*row.options, *row.parameters, *row.costs))]
    table = Table(box=None)
    for name in ("network", "accelerator", "objective", *parameters):
        table.add_column(printable(name))
    table.add_column("status")
    for name in ("value", "bound", "peak", "seconds"):
        table.add_column(name, justify="right")
    for row in rows:
        record, answer = row.record, row.answer
        found = answer.objective_value, answer.lower_bound, answer.figures.peak_bytes
        named = [str(record.get(name, "")) for name in ("network", "accelerator", "objective", *parameters)]
        status = f"{answer.status}{' (settled)' if answer.settled_by else ''}"
        figures = ["" if value is None else f"{value:,}" for value in found]
        table.add_row(*map(printable, named), status, *figures, f"{answer.seconds:.3f}")
    return table
