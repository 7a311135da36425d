"""Entry point of `python -m onchip`, with signal handling and standard streams."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run the program and exit with its code. Ctrl-C and SIGTERM show no traceback, also during start-up."""
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    try:
        _open_what_is_closed()
        from onchip.cli import run

        code = run(sys.argv[1:], seconds_ago=time.process_time())
    except KeyboardInterrupt:
        code = _INTERRUPTED
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_DFL)
    sys.exit(code)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Handle a signal as Ctrl-C. A shell ignores SIGINT in background jobs, so use the default handler then."""
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(number, frame)


def _open_what_is_closed() -> None:
    """Open closed standard streams, so that no file opened later gets one of their descriptors.

    Writes to a standard output that was closed fail.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY)
    sys.stdout = sys.stdout or os.fdopen(1, encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
