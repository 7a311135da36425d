"""Facts of answers: fact tables, tables of figures, the claim of a proof, and the coverage of operators."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Final, Generic, Literal

from onchip.answer.result import AnswerT_co, SearchResult, Status, Stop
from onchip.answer.words import objective_amount, percent, printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from onchip.model.timeline.mac_count import UncostedOperator


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


_EXPLAINED: Final = ContextVar("explained", default=False)


@contextmanager
def explained_bounds(is_requested: bool) -> Iterator[None]:
    """Show the whole coverage of bounds within the block if this is requested."""
    token = _EXPLAINED.set(is_requested)
    try:
        yield
    finally:
        _EXPLAINED.reset(token)


class MethodOutcome(Generic[AnswerT_co]):
    """The outcome of a method that has a `result`."""

    __slots__ = ()
    result: SearchResult[AnswerT_co]

    @property
    def answer(self) -> AnswerT_co | None:
        """The answer, or None without one."""
        return self.result.answer

    @property
    def gap(self) -> float | None:
        """Relative distance of the objective value from its bound, or None without an answer."""
        return self.result.gap


@dataclass(frozen=True, slots=True)
class Proof:
    """The claim of an answer: its status, the value of its objective, and the lower bound.

    `covers` names the answers that the bound holds for, in one line. `details` are further sentences about it. A
    bound of None is not shown. `seconds` has the time of each phase.
    """

    status: Status
    objective: str
    unit: str
    value: float | None
    lower_bound: float | None
    gap: float | None
    covers: str
    details: tuple[str, ...] = ()
    stopped_by: Stop = Stop.COMPLETED
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        result: SearchResult[object],
        objective: str,
        unit: str,
        covers: str,
        details: tuple[str, ...] = (),
        seconds: Mapping[str, float] | None = None,
    ) -> Proof:
        """Return the claim of a method's result; `seconds` are those of the method unless phases are given."""
        value, bound, gap = result.objective_value, result.bound, result.gap
        spent = {"solve": result.seconds} if seconds is None else seconds
        return cls(result.status, objective, unit, value, bound, gap, covers, details, result.stopped_by, spent)

    @property
    def rows(self) -> Rows:
        """Return the facts but the time."""
        stopped = "" if self.stopped_by is Stop.COMPLETED else f" ({self.stopped_by})"
        rows = [("status", f"{self.status}{stopped}")]
        if self.value is not None:
            rows.append(("objective", f"{self.objective} {objective_amount(self.value, self.unit)}"))
        if self.lower_bound is not None and self.status is not Status.INFEASIBLE:
            gap = "" if self.gap is None else f" (gap {percent(self.gap)})"
            rows.append(("lower bound", f"{objective_amount(self.lower_bound, self.unit)}{gap}"))
            rows.append(("bound covers", self.covers))
        if _EXPLAINED.get():
            rows += [("", sentence) for sentence in self.details]
        return rows

    @property
    def time(self) -> tuple[str, str]:
        """Return the fact of the time that all phases took, and each of several."""
        return "time", seconds_words(self.seconds)


def seconds_words(seconds: Mapping[str, float]) -> str:
    """Return the sum of the seconds, and those of each of several phases: `2.4 s (read 0.1, solve 2.3)`."""
    phases = ", ".join(f"{name} {spent:.2f}" for name, spent in seconds.items())
    return f"{sum(seconds.values()):.2f} s" + (f" ({phases})" if len(seconds) > 1 else "")


def picked_seconds(read: float, solve: float, verify: float, budget: float = 0.0) -> dict[str, float]:
    """Return the seconds of each phase by name; without that of the budgets if it took no time."""
    budgets = {"M_P": budget} if budget else {}
    return {"read": read, **budgets, "solve": solve, "verify": verify}


def breakdown(parts: Iterable[tuple[str, float, str]]) -> str:
    """Return the parts that are not zero, each with its value in words: `dram 97.7 uJ, MACs 1.83 uJ`."""
    return ", ".join(f"{name} {words}" for name, value, words in parts if value)


def figures_by_size(figures: Mapping[str, float | None]) -> list[tuple[str, float]]:
    """Return the known figures by name, the largest first."""
    return sorted(((name, value) for name, value in figures.items() if value), key=lambda one: -one[1])


def element_words(widths: Iterable[int | None]) -> Rows:
    """Return a fact about the widths of elements that the model gives; none if all have 8 bits."""
    known = sorted({bits for bits in widths if bits is not None})
    if not known or known == [8]:
        return []
    words = " and ".join(f"{bits} bits" if bits % 8 else f"{bits // 8} bytes" for bits in known)
    return [("elements", f"{words} each, the data types of the model (`bits=8`: its 8-bit version)")]


class CoveredBy(StrEnum):
    """Coverage of an operator: by loop nests of multiply-accumulates, or by data movement alone."""

    LOOP_NESTS = "loop nests"
    DATA_MOVEMENT = "data movement"


@dataclass(frozen=True, slots=True)
class CoveredShare:
    """The operators that are covered in one way, their operations, and the share of all (None without operations).

    Operations are multiply-accumulates, and one for each element of an operator that has none.
    """

    way: str
    operators: int
    operations: int
    share: float | None


def shares(nests: tuple[int, int], moved: Sequence[int]) -> tuple[CoveredShare, CoveredShare]:
    """Return both shares, given the operators with loop nests, their operations, and those of each other operator."""
    whole = nests[1] + sum(moved)
    ways = (CoveredBy.LOOP_NESTS, *nests), (CoveredBy.DATA_MOVEMENT, len(moved), sum(moved))
    first, second = (CoveredShare(way, count, own, own / whole if whole else None) for way, count, own in ways)
    return first, second


def kinds_counted(kinds: Iterable[str]) -> str:
    """Return the kinds in words, each with the number of its operators."""
    return ", ".join(f"{printable(kind)} ({count})" for kind, count in Counter(kinds).items())


def warning_of_macs(operators: Iterable[UncostedOperator]) -> Iterator[str]:
    """Yield a warning if operators that are costed as data movement multiply, or may multiply."""
    lost = [one for one in operators if one.macs != 0]
    if lost:
        names = ", ".join(f"{printable(one.kind)} {printable(one.operator)!r} ({_macs_words(one)})" for one in lost)
        remedy = "a plug-in of onchip.operators gives such a kind its loop nest"
        yield f"warning: no figure contains the multiply-accumulates of {names}; {remedy}"


def _macs_words(one: UncostedOperator) -> str:
    return "unknown number" if one.macs is None else f"{one.macs:,}"
