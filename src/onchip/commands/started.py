"""Start time of the command: a time limit counts from there, the start of Python included."""

from __future__ import annotations

from contextvars import ContextVar

from onchip.search.budget.clock import Deadline

_began: ContextVar[Deadline | None] = ContextVar("began", default=None)


def verb_begins(seconds_ago: float = 0.0) -> None:
    """Record that a command begins, or began `seconds_ago`."""
    _began.set(Deadline.after(None, seconds_ago=seconds_ago))


def seconds_since_start() -> float:
    """Return the seconds since the command began; 0 without a command."""
    began = _began.get()
    return 0.0 if began is None else began.seconds
