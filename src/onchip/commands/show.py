"""Output of a command's result: as one JSON object, or as text and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from onchip.api.phases import phase
from onchip.reports.shared.output import write, write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

Found = TypeVar("Found")


def show_tables(
    found: Found,
    object_of: Callable[[Found], Mapping[str, object]],
    tables_of: Callable[[Found], Iterable[RenderableType]],
    *,
    as_json: bool,
) -> None:
    """Print a result as JSON or tables; modules for tables are imported only for tables."""
    if as_json:
        with phase("writing"):
            as_object = object_of(found)
        write_json(as_object)
        return
    from onchip.reports.program.outcome import show

    with phase("writing"):
        tables = show(*tables_of(found))
    write(tables)


def show_words(as_object: Mapping[str, object], words: str, *, as_json: bool) -> None:
    """Print a result as JSON, or as a few lines of text."""
    if as_json:
        write_json(as_object)
    else:
        write(words)
