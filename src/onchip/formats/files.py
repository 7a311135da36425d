"""Read and write the bytes of files, and JSON text in one form; an error of the system becomes one line."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

from onchip.errors import InputError, OutputError
from onchip.whole_files import ensure_place, write_whole

GREATEST_FILE_BYTES: Final = 2**27
"""Largest file that is read whole, unpacked; the Python objects take a multiple of it."""
_FROM_PIPES: dict[tuple[int, int], bytes] = {}
"""Map from device and inode of a pipe to the bytes that it gave: a pipe can be read once."""


def read_file(path: Path, greatest_bytes: int = GREATEST_FILE_BYTES) -> bytes:
    """Return the bytes of a file, unpacked if its name ends in `.gz`; raises InputError, also if it is too large.

    The process reads a pipe once and returns the same bytes to every reader.
    """
    if path.is_char_device():  # it may never end
        greatest_bytes = min(greatest_bytes, GREATEST_FILE_BYTES)
    try:
        if path.is_file() and path.suffix != ".gz" and path.stat().st_size > greatest_bytes:
            raise too_large(greatest_bytes).in_file(str(path))
        content = _from_pipe(path, greatest_bytes) if path.is_fifo() else _bytes_of(path, greatest_bytes)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        if isinstance(error, FileNotFoundError):
            raise InputError("it does not exist", file=str(path), expected="an existing file") from None
        raise InputError(f"it cannot be read ({_reason(error)})", expected="a readable file", file=str(path)) from None
    if len(content) > greatest_bytes:
        raise too_large(greatest_bytes).in_file(str(path))
    return content


def _bytes_of(path: Path, greatest_bytes: int) -> bytes:
    """Return at most one byte more than `greatest_bytes`, which shows that a file is too large."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return file.read(greatest_bytes + 1)


def _from_pipe(path: Path, greatest_bytes: int) -> bytes:
    found = path.stat()
    pipe = found.st_dev, found.st_ino
    if pipe not in _FROM_PIPES:
        _FROM_PIPES[pipe] = _bytes_of(path, greatest_bytes)
    return _FROM_PIPES[pipe]


def too_large(greatest_bytes: int) -> InputError:
    """Return the error for a file that is larger than the limit."""
    return InputError("it is too large", expected=f"at most {greatest_bytes // 2**20} MiB, unpacked")


def write_file(path: Path, content: bytes) -> None:
    """Write one file as `write_files` does; raises OutputError."""
    write_files((path, content))


def write_files(*files: tuple[Path, bytes]) -> None:
    """Write all files completely, or none; names in `.gz` are packed reproducibly. Raises OutputError."""
    packed = [(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content) for path, content in files]
    try:
        write_whole(*packed)
    except (OSError, ValueError) as error:
        file = str(getattr(error, "filename", None) or files[0][0])
        raise OutputError(f"it cannot be written ({_reason(error)})", file=file, expected="a writable path") from None


def ensure_writable(path: Path, *, inputs: tuple[str, ...] = ()) -> None:
    """Raise InputError if a file could not be written or would replace one of `inputs`, before the work starts."""
    if path.is_dir():
        raise InputError("it is a directory", file=str(path), expected="a file")
    if not path.parent.is_dir():
        raise InputError(
            f"there is no directory {str(path.parent)!r}", file=str(path), expected="an existing directory"
        )
    for name in inputs:
        if path.exists() and Path(name).exists() and path.samefile(name):
            raise InputError("it is an input, too", file=str(path), expected="another name for the output")
    _ensure_place(path, path)


def ensure_folder(folder: Path) -> None:
    """Raise InputError if a folder cannot be made or written to, before the work starts."""
    if folder.exists() and not folder.is_dir():
        raise InputError("it is a file", file=str(folder), expected="a folder, or a name that is free")
    if not folder.parent.is_dir():
        raise InputError(
            f"there is no directory {str(folder.parent)!r}", file=str(folder), expected="an existing directory"
        )
    _ensure_place(folder / folder.name if folder.is_dir() else folder, folder)


def _ensure_place(path: Path, named: Path) -> None:
    try:
        ensure_place(path)
    except OSError as error:
        reason = _reason(error)
        raise InputError(f"it cannot be written ({reason})", file=str(named), expected="a writable path") from None


def make_folder(folder: Path) -> None:
    """Make a folder unless it exists; raises OutputError if it cannot be made."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        what = f"it cannot be made ({_reason(error)})"
        raise OutputError(what, file=str(folder), expected="a folder that can be written") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class AnswerFormat(StrEnum):
    """Formats of answers, by the names in their files."""

    PLAN = "onchip-plan"
    SCHEDULE = "onchip-schedule"
    STRATEGY = "onchip-strategy"
    MAPPING = "onchip-mapping"


SQLITE: Final = b"SQLite format 3\0"
"""First bytes of a store."""

# A quotation mark within a JSON string is escaped, so that no text in a file can be taken for the field.
_FIELD = re.compile(rb"""(?:^|[\s{,])["']?format["']?\s*:\s*["']?(onchip-(?:plan|schedule|strategy|mapping))\b""")


def format_of_answer(path: Path) -> AnswerFormat:
    """Return the format that a file names, unpacked if `path` ends in `.gz`; raises InputError if it cannot be read.

    A file that names none of them counts as a mapping (YAML) or a plan, whose reader reports the error.
    """
    content = read_file(path)
    if content.startswith(SQLITE):
        expected = "an answer file; `onchip report` draws a store, `onchip sweep --answer KEY -o FILE` writes an answer"
        raise InputError("it is the store of a sweep", file=str(path), expected=expected)
    found = _FIELD.search(content)
    if found is None:
        return AnswerFormat.MAPPING if path.suffix in (".yaml", ".yml") else AnswerFormat.PLAN
    return AnswerFormat(found.group(1).decode())


_ON_ONE_LINE: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(", ", ": "))
_CANONICAL: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def to_json(value: object, error: type[InputError]) -> str:
    """Return `value` on one line. Raises `error` for NaN, infinities and text that is not Unicode."""
    return _joined((value,), "", error, _ON_ONE_LINE)


def lines(values: Iterable[object], error: type[InputError]) -> str:
    """Return the entries of a JSON list, one per line. Raises `error` as `to_json` does."""
    text = _joined(tuple(values), ",\n  ", error, _ON_ONE_LINE)
    return f"\n  {text}" if text else ""


def document_text(head: Mapping[str, object], fields: Mapping[str, object], error: type[InputError]) -> str:
    """Return the text of a JSON object: `head` on the first line, then one line for each field that is not None.

    The entries of a tuple stand on one line each. Raises `error` as `to_json` does.
    """
    parts = [head, *({name: value} for name, value in fields.items() if value is not None)]
    return "{" + ",\n ".join(_members(part, error) for part in parts) + "}\n"


def canonical_sha256(value: object, error: type[InputError]) -> str:
    """Return the SHA-256 of the canonical JSON (sorted keys, no spaces, UTF-8), as hexadecimal digits."""
    return sha256(_joined((value,), "", error, _CANONICAL).encode()).hexdigest()


def _members(fields: Mapping[str, object], error: type[InputError]) -> str:
    return ", ".join(f"{to_json(name, error)}: {_text(value, error)}" for name, value in fields.items())


def _text(value: object, error: type[InputError]) -> str:
    if isinstance(value, tuple):
        return f"[{lines(value, error)}]"
    has_lines = isinstance(value, dict) and any(isinstance(part, tuple) for part in value.values())
    return f"{{{_members(value, error)}}}" if isinstance(value, dict) and has_lines else to_json(value, error)


def _joined(values: tuple[object, ...], between: str, error: type[InputError], encoder: json.JSONEncoder) -> str:
    try:
        text = between.join(map(encoder.encode, values))
        text.encode()
    except (TypeError, ValueError) as problem:
        raise error(f"it cannot be written as JSON: {problem}", expected="finite numbers and Unicode text") from None
    return text
