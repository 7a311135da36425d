"""The facts that every verb prints about a proof: status, objective, lower bound, gap, coverage and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.result import Status, Stop
from onchip.answer.words import objective_amount, percent
from onchip.reports.shared.tables import Rows

_EXPLAINED: Final = ContextVar("explained", default=False)


@contextmanager
def explained_bounds(is_requested: bool) -> Iterator[None]:
    """Show the whole coverage of bounds within the block if this is requested."""
    token = _EXPLAINED.set(is_requested)
    try:
        yield
    finally:
        _EXPLAINED.reset(token)


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
