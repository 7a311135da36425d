"""Points of sweeps without networks, functions that answer them, and stores of them."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from onchip.sweeps.point import PointAnswer, PointFigures, PointStatus, Scalar, SweepPoint, SweptMachine, SweptVerb
from onchip.sweeps.store import Store


def point_of(key: str, parameters: Mapping[str, Scalar] | None = None, network: str = "net") -> SweepPoint:
    machine = SweptMachine("chip", f"name: {key}\n", f"sha of {key}")
    named = {"size": 1} if parameters is None else parameters
    return SweepPoint(key, SweptVerb.PLAN, network, "sha", "chip", machine, None, "traffic", {}, named, {"area": 1.5})


def at_once(point: SweepPoint) -> PointAnswer:
    figures = PointFigures(traffic_bytes=len(point.key))
    return PointAnswer(PointStatus.OPTIMAL, 3, 3, "bytes", figures, 0.001, document=zlib.compress(point.key.encode()))


def as_its_key_says(point: SweepPoint) -> PointAnswer:
    """Answer a point whose key requests to kill its worker, take memory or time, raise, or answer."""
    match point.key.split()[0]:
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            return PointAnswer(PointStatus.OPTIMAL, len(bytearray(2**32)), 0)
        case "slow":
            time.sleep(60)
        case "raises":
            raise ValueError("of this point")
    return at_once(point)


def after_a_while(point: SweepPoint) -> PointAnswer:
    time.sleep(0.05)
    return at_once(point)


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
