"""The operators that loop nests cover, and those that are costed as data movement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from onchip.answer.words import printable


class HasKind(Protocol):
    """An operator by its kind."""

    @property
    def kind(self) -> str:
        """Return the kind."""
        ...


class WithoutNest(HasKind, Protocol):
    """An operator that is costed as data movement."""

    @property
    def operator(self) -> str:
        """Return the name."""
        ...

    @property
    def macs(self) -> int | None:
        """Return the multiply-accumulates, or None if the kind is unknown."""
        ...


class Way(StrEnum):
    """Coverage of an operator: by loop nests of multiply-accumulates, or by data movement alone."""

    LOOP_NESTS = "loop nests"
    DATA_MOVEMENT = "data movement"


@dataclass(frozen=True, slots=True)
class CoveredShare:
    """The operators that are covered in one way, their operations, and the share of all (None without operations).

    Operations are multiply-accumulates, and one for each written element of an operator without a loop nest.
    """

    way: str
    operators: int
    operations: int
    share: float | None


def shares(nests: tuple[int, int], moved: Sequence[int]) -> tuple[CoveredShare, CoveredShare]:
    """Return both shares, given the operators with loop nests, their operations, and those of each other operator."""
    whole = nests[1] + sum(moved)
    ways = (Way.LOOP_NESTS, *nests), (Way.DATA_MOVEMENT, len(moved), sum(moved))
    first, second = (CoveredShare(way, count, own, own / whole if whole else None) for way, count, own in ways)
    return first, second


def kinds_counted(operators: Iterable[HasKind]) -> str:
    """Return the kinds of operators, each with how many there are."""
    kinds = Counter(one.kind for one in operators)
    return ", ".join(f"{printable(kind)} ({count})" for kind, count in kinds.items())


def warning_of_macs(operators: Iterable[WithoutNest]) -> Iterator[str]:
    """Yield a warning if operators that are costed as data movement multiply, or may multiply."""
    lost = [one for one in operators if one.macs != 0]
    if lost:
        names = ", ".join(f"{printable(one.kind)} {printable(one.operator)!r} ({_macs_words(one)})" for one in lost)
        yield f"warning: no figure contains the multiply-accumulates of {names}"


def _macs_words(one: WithoutNest) -> str:
    return "unknown number" if one.macs is None else f"{one.macs:,}"
