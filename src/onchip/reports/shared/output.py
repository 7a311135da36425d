"""What the program writes to its standard streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TextIO

from onchip.errors import OnchipError, OutputError


class NoReaderError(OutputError):
    """Nobody reads standard output any more: nothing is said of it."""


def write(text: str) -> None:
    """Write lines to standard output; raises OutputError where it is full or closed (NoReaderError for a pipe)."""
    try:
        print(text, flush=True)
    except (OSError, ValueError) as error:
        raise stream_error(error) from None


def stream_error(error: OSError | ValueError) -> OutputError:
    """Return what is wrong with standard output; what it still holds is given up, or Python would try again at exit."""
    _give_up(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return NoReaderError("it is a pipe that nobody reads", place="standard output")
    reason = getattr(error, "strerror", None) or str(error)
    return OutputError(f"it cannot be written ({reason})", place="standard output", expected="one with room")


def write_json(value: Mapping[str, object]) -> None:
    """Write one JSON object to standard output; raises as `write`."""
    write(json.dumps(value, indent=2, allow_nan=False))


def write_error(error: OnchipError, *, as_json: bool, more: Mapping[str, object] = MappingProxyType({})) -> None:
    """Write one line to standard error, and with `as_json` one object to standard output, if these can be written.

    `more` are fields of the object that only such errors have.
    """
    if not isinstance(error, NoReaderError):
        write_line(f"onchip: {error}")
    if as_json:
        fields = {"error": error.what, "file": error.file, "place": error.place, "expected": error.expected}
        with suppress(OutputError):  # one line has said what is wrong
            write_json({**fields, **more})


def write_line(text: str) -> None:
    """Write one line to standard error, if it can be written."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _give_up(sys.stderr)


def _give_up(stream: TextIO) -> None:
    with suppress(OSError, ValueError):  # one that is no file of the system's
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
