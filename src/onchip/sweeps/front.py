"""The Pareto front: the points that no other dominates, and intervals that cannot reach it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from onchip.errors import UsageError
from onchip.sweeps.expression import Value
from onchip.sweeps.point import Number, PointAnswer, SweepPoint

VALUE = "objective_value"
RowT = TypeVar("RowT")


def front_of(rows: Sequence[RowT], records: Sequence[Mapping[str, Value]], names: Sequence[str]) -> tuple[RowT, ...]:
    """Return the rows that no other of the same network, verb and objective dominates in `names`.

    Of rows that are equal in all columns the first is kept; rows without a value are omitted.
    """
    groups: dict[Hashable, list[tuple[tuple[Number, ...], int]]] = {}
    for at, record in enumerate(records):
        values = tuple(value for name in names if isinstance(value := record.get(name), int | float))
        if len(values) == len(names):
            group = record.get("verb"), record.get("network"), record.get("objective")
            groups.setdefault(group, []).append((values, at))
    chosen: set[int] = set()
    for members in groups.values():
        best: list[tuple[Number, ...]] = []
        for values, at in sorted(members):
            if not any(_is_at_most(one, values) for one in best):
                best.append(values)
                chosen.add(at)
    return tuple(row for at, row in enumerate(rows) if at in chosen)


def _is_at_most(one: Sequence[Number], other: Sequence[Number]) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def names_of_front(text: str) -> tuple[str, ...]:
    """Return the columns of a text such as `AREA,LATENCY`; raises UsageError for fewer than two."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(names) < 2:
        raise UsageError(f"it is {text!r}", place="--pareto", expected="two columns or more: area,objective_value")
    return names


def ensure_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError for a column of a front that no row has."""
    for name in names:
        if name not in known:
            raise UsageError(f"there is no column {name!r}", place="--pareto", expected=f"some of {', '.join(known)}")


@dataclass(slots=True)
class SoughtFront:
    """The known points of the fronts of cost against value during a sweep, one front for each network and objective.

    A point cannot be on a front if another costs at most as much, and its value is at most the point's bound.
    """

    cost: str
    points: Mapping[str, SweepPoint]
    _known: dict[tuple[str, str], list[tuple[Number, Number]]] = field(default_factory=dict)

    def take(self, key: str, answer: PointAnswer) -> None:
        """Add the value of a point."""
        if answer.objective_value is not None:
            point = self.points[key]
            self._known.setdefault(_front(point), []).append((point.costs[self.cost], answer.objective_value))

    def is_beyond(self, keys: Sequence[str], bound: Number) -> bool:
        """Return True if none of these points, whose values are at least the bound, can be on its front."""
        return all(self._is_dominated(self.points[key], bound) for key in keys)

    def _is_dominated(self, point: SweepPoint, bound: Number) -> bool:
        cost = point.costs[self.cost]
        return any(one <= cost and value <= bound for one, value in self._known.get(_front(point), ()))


def _front(point: SweepPoint) -> tuple[str, str]:
    return point.network_sha256, point.objective
