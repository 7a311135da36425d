"""What is left of a time limit, which is the user's from the verb's start."""

from __future__ import annotations

import time
from dataclasses import replace

from onchip.solve.run.limits import Limits


def left_of(limits: Limits, began: float) -> Limits:
    """Return the limits with what is left of the time since the verb began, by `time.perf_counter`."""
    if limits.time_limit_seconds is None:
        return limits
    return replace(limits, time_limit_seconds=max(0.0, limits.time_limit_seconds - (time.perf_counter() - began)))
