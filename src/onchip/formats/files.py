"""Bytes from files and into files; what the system refuses becomes one line."""

from __future__ import annotations

import zlib
from gzip import compress, decompress
from pathlib import Path

from onchip.errors import InputError


def read_file(path: Path) -> bytes:
    """The bytes of a file, unpacked where its name ends in `.gz`; raises InputError."""
    try:
        content = path.read_bytes()
        return decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = _reason(error)
        raise InputError(f"it cannot be read ({reason})", file=str(path), expected="a readable file") from None


def write_file(path: Path, content: bytes) -> None:
    """Writes the bytes, packed (reproducibly) where the name ends in `.gz`; raises InputError."""
    try:
        path.write_bytes(compress(content, mtime=0) if path.suffix == ".gz" else content)
    except (OSError, ValueError) as error:
        reason = _reason(error)
        raise InputError(f"it cannot be written ({reason})", file=str(path), expected="a writable path") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
