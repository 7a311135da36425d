"""What is wrong with the cache of mappings is said once, in one line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from onchip.errors import CacheWarning
from onchip.reports.shared.output import write_line


@contextmanager
def cache_trouble_said_once() -> Iterator[None]:
    """Write the first CacheWarning to standard error, and none after it; other warnings are shown as ever."""
    said: list[str] = []
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, CacheWarning):
            show_others(message, category, filename, lineno, file, line)
        elif not said:
            said.append(str(message))
            write_line(f"onchip: {' '.join(said[0].split())}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", CacheWarning)
        warnings.showwarning = show
        yield
