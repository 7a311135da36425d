"""An output path that cannot be written is found before the work, not after it."""

from __future__ import annotations

import os
from pathlib import Path

from onchip.errors import InputError


def ensure_writable(path: Path, *, inputs: tuple[str, ...] = ()) -> None:
    """Raise InputError where a file could not be written, or would replace one of `inputs`."""
    if path.is_dir():
        raise InputError("it is a directory", file=str(path), expected="a file")
    if not path.parent.is_dir():
        raise InputError(f"there is no directory {str(path.parent)!r}", file=str(path), expected="one that exists")
    for name in inputs:
        if path.exists() and Path(name).exists() and path.samefile(name):
            raise InputError("it is read too", file=str(path), expected="an output that is no input")
    if path.exists() and not path.is_file():
        return  # a pipe or a device: opening it might wait or do something
    try:
        _open_and_leave_as_it_was(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"it cannot be written ({reason})", file=str(path), expected="a writable path") from None


def _open_and_leave_as_it_was(path: Path) -> None:
    """Permissions alone do not tell: a file system may be read-only."""
    existed = path.exists()
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666))
    if not existed:
        path.unlink()
