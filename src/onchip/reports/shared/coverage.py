"""The operators that loop nests cover, and those that are costed as data movement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from onchip.answer.words import printable
from onchip.model.timeline.mac_count import UncostedOperator


class Way(StrEnum):
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
    ways = (Way.LOOP_NESTS, *nests), (Way.DATA_MOVEMENT, len(moved), sum(moved))
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
        yield f"warning: no figure contains the multiply-accumulates of {names}"


def _macs_words(one: UncostedOperator) -> str:
    return "unknown number" if one.macs is None else f"{one.macs:,}"
