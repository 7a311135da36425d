"""Stores of points with made-up answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from onchip.sweeps.point import PointAnswer, PointFigures, PointStatus, SweepPoint
from onchip.sweeps.store import Store
from support.swept_points import point_of

NETWORKS = ("resnet", "densenet", "lenet", "vgg", "transformer")


def many_points(count: int) -> tuple[SweepPoint, ...]:
    """Return points of five networks over two parameters."""
    return tuple(
        point_of(f"{at:064x}", {"sram": 1024 * (at // 50 + 1), "K": 2 ** (at // 5 % 10)}, NETWORKS[at % 5])
        for at in range(count)
    )


def answer_of_point(at: int) -> PointAnswer:
    value = 10_000_000 // (at // 50 + 1) + 1000 * (at % 5)
    figures = PointFigures(value, value, 100 + at, 100 + at, 5 * at + 1, 0.5 * at)
    bound = value if at % 3 else value * 9 // 10
    return PointAnswer(PointStatus.OPTIMAL if at % 3 else PointStatus.FEASIBLE, value, bound, "bytes", figures, 0.01)


def write_store(path: Path, points: Sequence[SweepPoint], answered: int | None = None) -> Path:
    """Write a store of the points, the first `answered` of them with answers."""
    by_key = {point.key: point for point in points}
    with Store.for_writing(path) as store:
        store.add_study("made up", points)
        chosen = list(by_key)[:answered]
        store.put({key: answer_of_point(at) for at, key in enumerate(chosen)}, by_key)
    return path


def hostile(text: str) -> tuple[SweepPoint, ...]:
    """Return points whose every name is that text."""
    points = many_points(20)
    return tuple(replace(point, network=text, parameters={text: at, "K": at % 3}) for at, point in enumerate(points))
