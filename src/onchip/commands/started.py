"""When the verb began: a time limit counts from there, Python's own start included."""

from __future__ import annotations

from contextvars import ContextVar

from onchip.search.budget.clock import Deadline

_began: ContextVar[Deadline | None] = ContextVar("began", default=None)


def verb_begins(seconds_ago: float = 0.0) -> None:
    """A verb begins, or has so long ago."""
    _began.set(Deadline.after(None, seconds_ago=seconds_ago))


def seconds_since_start() -> float:
    """Since the verb began; 0 where none was asked for."""
    began = _began.get()
    return 0.0 if began is None else began.seconds
