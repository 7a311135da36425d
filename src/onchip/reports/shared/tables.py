"""Fact tables and tables of figures, for terminals, pages and notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, Literal

from onchip.answer.words import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Rows = list[tuple[str, str]]
"""Names and values of facts."""
WIDTH_OF_A_FILE: Final = 120
_NUMBER: Final = re.compile(r"([-+]?\d[\d.,]*( ?(%|x|[A-Za-z]{1,8}))?( x cycles)?|[-\u2013])?")


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table: numbers have commas, None is empty, and columns of numbers are aligned to the right.

    `total` is a last row, set apart. On a page, row k has the element id `anchor-k` if there is an `anchor`, and a
    click on its name shows the tensor of that name in the memory map if `follows_tensors`.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    total: Sequence[object] = ()
    title: str = ""
    anchor: str = ""
    follows_tensors: bool = False

    @property
    def cells(self) -> list[list[str]]:
        """The texts of all rows but the last one, `total`."""
        return [[shown(cell) for cell in row] for row in self.rows]

    @property
    def totals(self) -> list[str]:
        """The texts of the last row, if there is one."""
        return [shown(cell) for cell in self.total]

    @property
    def is_number(self) -> list[bool]:
        """True for each column of numbers."""
        columns = zip(*self.cells, strict=True) if self.rows else ([] for _ in self.columns)
        return [any(column) and all(_NUMBER.fullmatch(cell) for cell in column) for column in columns]

    def __rich__(self) -> Table:
        """Return the table of a terminal."""
        from rich.box import SIMPLE
        from rich.table import Table
        from rich.text import Text

        title = Text(printable(self.title)) if self.title else None
        table = Table(
            box=SIMPLE,
            title=title,
            title_justify="left",
            show_footer=bool(self.total),
            collapse_padding=True,
            pad_edge=False,
        )
        totals = self.totals or [""] * len(self.columns)
        for name, total, is_number in zip(self.columns, totals, self.is_number, strict=True):
            side: Literal["left", "right"] = "right" if is_number else "left"
            table.add_column(Text(printable(name)), Text(total), justify=side, no_wrap=is_number, overflow="fold")
        for row in self.cells:
            table.add_row(*(Text(printable(cell)) for cell in row))
        return table

    def html(self) -> str:
        """Return the table of a notebook."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.cells)
        title = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def shown(value: object) -> str:
    """Return a value of a table: numbers with commas, None as an empty text."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Return the fact table of a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(printable(name)), Text(printable(value)))
    return table


def show(*renderables: RenderableType) -> str:
    """Return the text, in colour only for a terminal; sentences are not wrapped, tables are."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_OF_A_FILE)
    with console.capture() as capture:
        for renderable in renderables:
            console.print(renderable, soft_wrap=isinstance(renderable, Text))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")
