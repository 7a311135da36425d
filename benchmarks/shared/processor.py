"""Seconds of the processor: how much other programs have taken, and limits that count them, not a wall clock's."""

from __future__ import annotations

import resource
import time


def cpu_seconds_of_programs() -> float:
    """Seconds of all programs that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def count_processor_seconds() -> None:
    """Let time limits and stopwatches count the CPU seconds of this process from now on."""
    vars(time)["perf_counter"] = time.process_time
