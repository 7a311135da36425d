"""What the program writes to its standard streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from onchip.errors import InternalError, OnchipError


def write(text: str) -> None:
    """Write lines to standard output; quietly, if nobody reads them any more."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_json(value: Mapping[str, object]) -> None:
    """Write one JSON object to standard output."""
    write(json.dumps(value, indent=2, allow_nan=False))


def write_error(error: OnchipError, *, as_json: bool, saved: str | None = None) -> None:
    """Write one line to standard error, and with `as_json` one object to standard output.

    `saved` is the file in which the case of a defect was saved: a field of its own, of defects alone.
    """
    print(f"onchip: {error}", file=sys.stderr)
    if as_json:
        fields = {"error": error.what, "file": error.file, "place": error.place, "expected": error.expected}
        write_json({**fields, "saved": saved} if isinstance(error, InternalError) else fields)
