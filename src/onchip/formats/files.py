"""Bytes from files and into files; what the system refuses becomes one line."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final

from onchip.errors import InputError, OutputError
from onchip.whole_files import ensure_place, write_whole

GREATEST_FILE_BYTES: Final = 2**27
"""Of what is read whole, unpacked: what Python makes of it takes many times as much."""
_FROM_PIPES: dict[tuple[int, int], bytes] = {}
"""What came through pipes, which give it but once, by device and inode."""


def read_file(path: Path, greatest_bytes: int = GREATEST_FILE_BYTES) -> bytes:
    """The bytes of a file, unpacked where its name ends in `.gz`; raises InputError, also for too many of them.

    A pipe is read once in a process, and what it gave is given to whoever reads it again.
    """
    try:
        content = _from_pipe(path, greatest_bytes) if path.is_fifo() else _bytes_of(path, greatest_bytes)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = _reason(error)
        raise InputError(f"it cannot be read ({reason})", file=str(path), expected="a readable file") from None
    if len(content) > greatest_bytes:
        raise too_large(greatest_bytes).in_file(str(path))
    return content


def _bytes_of(path: Path, greatest_bytes: int) -> bytes:
    """At most one byte more than the greatest number, by which a file that has more is known."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return file.read(greatest_bytes + 1)


def _from_pipe(path: Path, greatest_bytes: int) -> bytes:
    found = path.stat()
    pipe = found.st_dev, found.st_ino
    if pipe not in _FROM_PIPES:
        _FROM_PIPES[pipe] = _bytes_of(path, greatest_bytes)
    return _FROM_PIPES[pipe]


def too_large(greatest_bytes: int) -> InputError:
    """The error for a file that holds more bytes than are read."""
    return InputError("it is too large", expected=f"at most {greatest_bytes // 2**20} MiB, unpacked")


def write_file(path: Path, content: bytes) -> None:
    """Writes one file as `write_files` does; raises OutputError."""
    write_files((path, content))


def write_files(*files: tuple[Path, bytes]) -> None:
    """Writes all files whole, or none; packed (reproducibly) where a name ends in `.gz`. Raises OutputError."""
    packed = [(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content) for path, content in files]
    try:
        write_whole(*packed)
    except (OSError, ValueError) as error:
        file = str(getattr(error, "filename", None) or files[0][0])
        raise OutputError(f"it cannot be written ({_reason(error)})", file=file, expected="a writable path") from None


def ensure_writable(path: Path, *, inputs: tuple[str, ...] = ()) -> None:
    """Raise InputError where a file could not be written, or would replace one of `inputs`: before the work."""
    if path.is_dir():
        raise InputError("it is a directory", file=str(path), expected="a file")
    if not path.parent.is_dir():
        raise InputError(f"there is no directory {str(path.parent)!r}", file=str(path), expected="one that exists")
    for name in inputs:
        if path.exists() and Path(name).exists() and path.samefile(name):
            raise InputError("it is read too", file=str(path), expected="an output that is no input")
    _ensure_place(path, path)


def ensure_folder(folder: Path) -> None:
    """Raise InputError where there can be no such folder, or nothing can be written into it: before the work."""
    if folder.exists() and not folder.is_dir():
        raise InputError("it is a file", file=str(folder), expected="a folder, or a name that is free")
    if not folder.parent.is_dir():
        raise InputError(f"there is no directory {str(folder.parent)!r}", file=str(folder), expected="one that exists")
    _ensure_place(folder / folder.name if folder.is_dir() else folder, folder)


def _ensure_place(path: Path, named: Path) -> None:
    try:
        ensure_place(path)
    except OSError as error:
        reason = _reason(error)
        raise InputError(f"it cannot be written ({reason})", file=str(named), expected="a writable path") from None


def make_folder(folder: Path) -> None:
    """Make a folder that may be there; raises OutputError where it cannot be made."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        what = f"it cannot be made ({_reason(error)})"
        raise OutputError(what, file=str(folder), expected="a folder that can be written") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
