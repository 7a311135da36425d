"""What is different between two answers: figures, order, where tensors lie and how they move, mappings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from onchip.answer.program import Plan
from onchip.reports.explain.plan_lives import TensorLife, lives_of, order_of

Figure: TypeAlias = "int | float | str | None"


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure of the first answer and of the second; None where an answer does not have it."""

    name: str
    before: Figure
    after: Figure

    @property
    def change(self) -> int | float | None:
        """By how much it has grown; None for what is no number in both."""
        if isinstance(self.before, int | float) and isinstance(self.after, int | float):
            return self.after - self.before
        return None

    @property
    def percent(self) -> float | None:
        """The same as a share of the first; None where that is 0, or no number."""
        change = self.change
        if change is None or not isinstance(self.before, int | float) or not self.before:
            return None
        return 100 * change / self.before


@dataclass(frozen=True, slots=True)
class OrderDifference:
    """How many operators keep their order, the longest such part; which others moved, and which are in one alone."""

    common: int
    moved: tuple[str, ...] = ()
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether the same operators run in the same order."""
        return not (self.moved or self.only_before or self.only_after)


class TensorChangeKind(StrEnum):
    """What has become of a tensor, the most telling first."""

    SPILLS = "now moves to DRAM and back"
    STAYS = "no longer moves to DRAM and back"
    MORE_MOVES = "moves more often"
    FEWER_MOVES = "moves less often"
    APPEARS = "is only in the second"
    DISAPPEARS = "is only in the first"
    LONGER = "lives longer on the chip"
    SHORTER = "lives shorter on the chip"
    MOVED = "lies elsewhere"


@dataclass(frozen=True, slots=True)
class TensorChange:
    """A tensor whose life differs; `why` says what the plan's own causes say of it, None where they do not."""

    tensor: str
    kind: TensorChangeKind
    before: TensorLife | None
    after: TensorLife | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class MappingChange:
    """The loops of a layer side by side; None where an answer has no mapping of it."""

    layer: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class AnswerDifference:
    """All that differs between two answers of one kind; `figures` are all that both may have, the equal ones, too."""

    kind: str
    before: str
    after: str
    figures: tuple[FigureChange, ...]
    order: OrderDifference | None = None
    tensors: tuple[TensorChange, ...] = ()
    mappings: tuple[MappingChange, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs at all."""
        order_differs = self.order is not None and not self.order.is_equal
        figures_differ = any(figure.before != figure.after for figure in self.figures)
        return not (figures_differ or order_differs or self.tensors or self.mappings or self.notes)

    def figure(self, name: str) -> FigureChange | None:
        """The figure of that name; None where neither answer has it."""
        return next((figure for figure in self.figures if figure.name == name), None)


def figure_changes(before: Mapping[str, Figure], after: Mapping[str, Figure]) -> tuple[FigureChange, ...]:
    """The figures of two answers by name, in the first one's order."""
    return tuple(FigureChange(name, before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after)))


def order_difference(before: Sequence[str], after: Sequence[str]) -> OrderDifference:
    """Which operators are in the longest common part of two orders, each of which names an operator once."""
    place = {name: at for at, name in enumerate(before)}
    shared = [name for name in after if name in place]
    kept = set(_longest_ascending([place[name] for name in shared]))
    there = set(after)
    return OrderDifference(
        len(kept),
        tuple(name for name in shared if place[name] not in kept),
        tuple(name for name in before if name not in there),
        tuple(name for name in after if name not in place),
    )


def _longest_ascending(numbers: Sequence[int]) -> Iterator[int]:
    """Yield the numbers of a longest ascending subsequence, last first, in n log n time."""
    ends: list[int] = []
    last_at: list[int] = []
    before: list[int] = []
    for at, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(last_at[length - 1] if length else -1)
        if length == len(ends):
            ends.append(number)
            last_at.append(at)
        else:
            ends[length], last_at[length] = number, at
    at = last_at[-1] if last_at else -1
    while at >= 0:
        yield numbers[at]
        at = before[at]


def plan_difference(before: Plan, after: Plan) -> tuple[OrderDifference, tuple[TensorChange, ...]]:
    """What differs in order, and in the lives of tensors, the most telling changes first."""
    first, second = lives_of(before), lives_of(after)
    changes = [
        TensorChange(name, kind, first.get(name), second.get(name))
        for name in dict.fromkeys((*first, *second))
        if (kind := _kind(first.get(name), second.get(name))) is not None
    ]
    ranks = list(TensorChangeKind)
    changes.sort(key=lambda change: ranks.index(change.kind))
    return order_difference(order_of(before), order_of(after)), tuple(changes)


def _kind(before: TensorLife | None, after: TensorLife | None) -> TensorChangeKind | None:
    if before is None or after is None:
        return TensorChangeKind.APPEARS if before is None else TensorChangeKind.DISAPPEARS
    moves = before.write_backs + before.loads, after.write_backs + after.loads
    returns = min(before.write_backs, before.loads), min(after.write_backs, after.loads)
    if bool(returns[0]) != bool(returns[1]):
        return TensorChangeKind.SPILLS if returns[1] else TensorChangeKind.STAYS
    if moves[0] != moves[1]:
        return TensorChangeKind.MORE_MOVES if moves[1] > moves[0] else TensorChangeKind.FEWER_MOVES
    if before.steps != after.steps:
        return TensorChangeKind.LONGER if after.steps > before.steps else TensorChangeKind.SHORTER
    return None if before.places == after.places else TensorChangeKind.MOVED


def mapping_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[MappingChange, ...]:
    """Which layers run by other loops, by the names of the layers."""
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return tuple(MappingChange(name, one, other) for name, one, other in pairs if one != other)
