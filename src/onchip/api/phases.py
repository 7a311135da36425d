"""Phases of a use case (reading, verifying, executing), reported to an optional listener."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

PhaseListener: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""A function from the name of a phase to a context entered for its duration; nested phases replace the outer one."""

_listener: ContextVar[PhaseListener | None] = ContextVar("listener", default=None)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Report a phase to the listener for its duration, as a context manager or a decorator."""
    listener = _listener.get()
    if listener is None:
        yield
        return
    with listener(name):
        yield


@contextmanager
def phases_told_to(listener: PhaseListener) -> Iterator[None]:
    """Report all phases in the context to the listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
