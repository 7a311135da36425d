"""Points of sweeps without networks, and functions that answer them, also in a separate process."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Mapping

from onchip.sweeps.point import PointAnswer, PointFigures, PointStatus, Scalar, SweepPoint, SweptMachine, SweptVerb


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
