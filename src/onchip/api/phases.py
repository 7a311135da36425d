"""What a use case is at: reading, verifying, executing. Told to whoever listens; nobody does unless asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

PhaseListener: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Gets the name of a phase, and is entered while it lasts; phases within it stand in its place."""

_listener: ContextVar[PhaseListener | None] = ContextVar("listener", default=None)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Tell the listener of a phase while it lasts: around a few lines, or a whole function as its decorator."""
    listener = _listener.get()
    if listener is None:
        yield
        return
    with listener(name):
        yield


@contextmanager
def phases_told_to(listener: PhaseListener) -> Iterator[None]:
    """Let the listener know each phase meanwhile."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
