"""Warnings as single lines: problems of the mapping cache, and remarks about the network as read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from onchip.errors import CacheWarning, NetworkWarning
from onchip.reports.shared.output import write_line


@contextmanager
def warnings_said_once() -> Iterator[None]:
    """Write the first CacheWarning, and each distinct NetworkWarning once, to standard error.

    Other warnings are shown as usual.
    """
    said: set[str] = set()
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, CacheWarning | NetworkWarning):
            show_others(message, category, filename, lineno, file, line)
            return
        text = " ".join(str(message).split())
        key = "cache" if issubclass(category, CacheWarning) else text
        if key not in said:
            said.add(key)
            write_line(f"onchip: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", CacheWarning)
        warnings.simplefilter("always", NetworkWarning)
        warnings.showwarning = show
        yield
