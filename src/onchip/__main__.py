"""`python -m onchip`, and how its process begins and ends."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Leave with the program's exit code; Ctrl-C and SIGTERM show no traceback, however early they come."""
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
    """Do what Ctrl-C does now; a shell lets it do nothing in what runs in the background."""
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(number, frame)


def _open_what_is_closed() -> None:
    """Let no file that is opened later be taken for a standard stream; standard output then refuses what is written."""
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
