"""Output of a command's result: as one JSON object, or as text and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from onchip.api.phases import phase
from onchip.commands.arguments import AsJson
from onchip.commands.verb import with_flags
from onchip.reports.shared.output import write, write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOptions:
    """Options for the output of a verb that solves."""

    exact: Annotated[bool, typer.Option("--exact", help="Print all digits of every figure.")] = False
    explain_bound: Annotated[
        bool, typer.Option("--explain-bound", help="Print all that the lower bound covers, and what is not verified.")
    ] = False
    as_json: AsJson = False


def show_solved(
    found: Found,
    object_of: Callable[[Found], Mapping[str, object]],
    tables_of: Callable[[Found], Iterable[RenderableType]],
    shown: ShownOptions,
) -> None:
    """Print the result of a verb that solves."""
    from onchip.answer.words import exact_figures
    from onchip.reports.shared.facts import explained_bounds

    with exact_figures(shown.exact), explained_bounds(shown.explain_bound):
        show_tables(found, object_of, tables_of, as_json=shown.as_json)


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
        write_json({name: _with_flags(name, value) for name, value in as_object.items()})
        return
    from onchip.reports.shared.facts import show

    with phase("writing"):
        tables = show(*tables_of(found))
    write(with_flags(tables))


def show_words(as_object: Mapping[str, object], words: str, *, as_json: bool) -> None:
    """Print a result as JSON, or as a few lines of text."""
    if as_json:
        write_json(as_object)
    else:
        write(words)


def _with_flags(name: str, value: object) -> object:
    """Return a field of a JSON object; its message names options instead of arguments."""
    return with_flags(value) if name in ("error", "expected", "why_not") and isinstance(value, str) else value
