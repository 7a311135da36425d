"""Points and answers as the columns of a store's tables, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from math import isclose, isfinite
from typing import Any, Final

from onchip.answer.document import as_written
from onchip.sweeps.method_version import method_version
from onchip.sweeps.point import Number, PointAnswer, PointFigures, PointStatus, SweepPoint

FIGURES: Final = tuple(figure.name for figure in fields(PointFigures))


def answer_of_columns(row: Sequence[object]) -> PointAnswer:
    """What is known of a point, as the columns from its status on say it; raises ValueError for what none can be."""
    status, value, bound, unit, *figures, seconds, reason, settled_by = row
    _ensure_bounded(_number(value), _number(bound))
    return PointAnswer(
        PointStatus(str(status)),
        _number(value),
        _number(bound),
        str(unit),
        PointFigures(*map(_number, figures)),  # type: ignore[arg-type]  # bytes and cycles are whole
        float(_number(seconds) or 0),
        None if reason is None else str(reason),
        None,
        None if settled_by is None else str(settled_by),
    )


def _ensure_bounded(value: Number | None, bound: Number | None) -> None:
    """Raise ValueError for a lower bound above the objective; sums of floats may differ in their last digits."""
    if value is not None and bound is not None and bound > value and not isclose(bound, value):
        raise ValueError(f"its lower bound, {bound}, is above its objective, {value}")


def columns_of_point(point: SweepPoint, answer: PointAnswer) -> tuple[object, ...]:
    """A point and what is known of it, as the columns of `points`."""
    asked = point.key, str(point.verb), point.network, point.network_sha256, point.machine.sha256, point.sram_bytes
    figures = (getattr(answer.figures, name) for name in FIGURES)
    return (
        *asked,
        point.objective,
        json_of(point.options),
        method_version(),
        str(answer.status),
        _written(answer.objective_value),
        _written(answer.lower_bound),
        answer.unit,
        *figures,
        answer.seconds,
        answer.reason,
        answer.settled_by,
    )


def _written(value: Number | None) -> Number | None:
    return None if value is None else as_written(value)


def _number(value: object) -> Number | None:
    if value is None or (isinstance(value, int | float) and isfinite(value)):
        return value
    raise ValueError(f"{value!r} is no number")


def json_of(value: object) -> str:
    """A value as a column of JSON holds it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def object_of(text: str) -> dict[str, Any]:
    """The object that a column of JSON holds; raises ValueError for anything else."""
    found = json.loads(text, parse_constant=_number)
    if not isinstance(found, dict):
        raise ValueError(f"{text[:40]!r} is no object")
    return found
