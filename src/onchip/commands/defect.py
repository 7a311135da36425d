"""Handling of internal errors: one line, no answer, and a ZIP file for a bug report."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tempfile
import traceback
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from onchip.errors import InternalError, OnchipError
from onchip.kept_folder import cache_folder
from onchip.whole_files import write_whole

WRITTEN_TO: Final = ("-o", "--output", "--report", "--figure", "--emit-graph")
"""Options whose files are outputs, not inputs."""
GREATEST_COPY_BYTES: Final = 64 * 2**20


def contradiction_of(error: Exception) -> InternalError:
    """Return an internal error for any exception, since every unexpected exception is a defect."""
    if isinstance(error, OnchipError):
        return InternalError(error.what, file=error.file, place=error.place)
    return InternalError(f"{type(error).__name__}: {error}")


def save_case(arguments: Sequence[str], error: Exception) -> Path | None:
    """Write a ZIP file with everything that reproduces a defect; None if no folder is writable.

    The file is in `reports` in the cache folder, or below the folder for temporary files. Its `report.json` holds the
    arguments, the same arguments with the names of the copied inputs (`replay`), versions, and the traceback.
    """
    inputs, left_out = _inputs(arguments)
    copies = {name: f"inputs/{number}-{Path(name).name}" for number, name in enumerate(inputs)}
    report = {
        "onchip": _version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "error": str(error),
        "arguments": list(arguments),
        "replay": [_with_copy(argument, copies) for argument in arguments],
        "left_out": left_out,
        "traceback": "".join(traceback.format_exception(error)),
    }
    content = _packed(report, {copies[name]: content for name, content in inputs.items()})
    name = f"defect-{hashlib.sha256(content).hexdigest()[:12]}.zip"
    for folder in _report_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole((folder / name, content))
        except OSError:
            continue
        return folder / name
    return None


def _report_folders() -> Iterator[Path]:
    kept = cache_folder()
    if kept is not None:
        yield kept / "reports"
    with suppress(OSError):  # there is no folder for temporary files
        yield Path(tempfile.gettempdir()) / "onchip-reports"


def _inputs(arguments: Sequence[str]) -> tuple[dict[str, bytes], list[str]]:
    """Return the contents of the files named by arguments, and the names of those too large or unreadable."""
    found, left_out = dict[str, bytes](), list[str]()
    for before, argument in zip(("", *arguments), arguments, strict=False):
        option, _, value = argument.rpartition("=")
        if before in WRITTEN_TO or option in WRITTEN_TO or value in found or not Path(value).is_file():
            continue
        try:
            if Path(value).stat().st_size > GREATEST_COPY_BYTES:
                raise OSError
            found[value] = Path(value).read_bytes()
        except OSError:
            left_out.append(value)
    return found, left_out


def _with_copy(argument: str, copies: Mapping[str, str]) -> str:
    option, equals, value = argument.rpartition("=")
    return f"{option}{equals}{copies.get(value, value)}"


def _packed(report: Mapping[str, object], copies: Mapping[str, bytes]) -> bytes:
    """Return a ZIP file without timestamps, so that the same defect gives the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (("report.json", json.dumps(report, indent=1).encode()), *copies.items()):
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return packed.getvalue()


def _version() -> str:
    try:
        return version("onchip")
    except PackageNotFoundError:
        return "unreleased"
