"""How much of a processor other programs have taken."""

from __future__ import annotations

import resource


def cpu_seconds_of_programs() -> float:
    """Seconds of all programs that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
