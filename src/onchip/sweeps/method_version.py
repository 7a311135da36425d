"""What version the methods are of: a hash of the sources that answer questions, so that nobody raises a number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

ROOMS: Final = ("answer", "app", "arch", "cost", "facts", "ir", "lower", "native", "solve")
"""The folders of what decides an answer; what is read has hashes of its own, and whatever else only checks or shows."""
WRITTEN: Final = (".py", ".cpp", ".hpp")
COMPILED: Final = (".so", ".pyd")
PREFIX: Final = "sha256:"


@cache
def method_version() -> str:
    """Return the hash of the methods that are installed: the same question may have another answer by another one."""
    return version_of(Path(__file__).parent.parent)


def version_of(package: Path) -> str:
    """Return the hash of the methods in a package: of their sources by name, in the order of the names.

    Where it was installed without the sources of what is compiled, the compiled library stands for them.
    """
    found = sha256()
    for path in sources_of(package):
        found.update(f"{path.relative_to(package).as_posix()}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return f"{PREFIX}{found.hexdigest()}"


def sources_of(package: Path) -> Iterator[Path]:
    """Yield the files that the version is a hash of."""
    for room in ROOMS:
        paths = sorted(path for path in (package / room).rglob("*") if path.is_file())
        has_sources = room != "native" or any(path.suffix in WRITTEN[1:] for path in paths)
        suffixes = WRITTEN if has_sources else (*WRITTEN, *COMPILED)
        yield from (path for path in paths if path.suffix in suffixes and "CMakeFiles" not in path.parts)
