"""Version of the methods: a hash of the sources that decide an answer, which needs no manual version number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from onchip.errors import InternalError

NOT_HASHED: Final = (
    "__main__.py",
    "audits",
    "backends",
    "cli.py",
    "commands",
    "data",
    "formats",
    "reports",
    "simulate",
    "sweeps",
    "verify",
)
"""Parts of onchip that decide no answer: they read, check, show or store. What they read has hashes of its own."""
SOURCES: Final = (".py", ".cpp", ".hpp")
COMPILED: Final = (".so", ".pyd")
PREFIX: Final = "sha256:"


@cache
def method_version() -> str:
    """Return the hash of the installed methods: another version may answer the same question differently."""
    return version_of(Path(__file__).parent.parent)


def version_of(package: Path) -> str:
    """Return the hash of the methods in a package: names and contents of their sources, in the order of the names.

    Raises InternalError if a name of NOT_HASHED is missing.
    """
    found = sha256()
    for path in sources_of(package):
        found.update(f"{path.relative_to(package).as_posix()}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return f"{PREFIX}{found.hexdigest()}"


def sources_of(package: Path) -> Iterator[Path]:
    """Yield the hashed files. The compiled library is one of them if the C++ sources are not installed.

    Raises InternalError if a name of NOT_HASHED is missing.
    """
    for name in NOT_HASHED:
        if not (package / name).exists():
            raise InternalError(f"{name!r} of NOT_HASHED does not exist in onchip", place="sweeps.method_version")
    paths = sorted(path for path in package.rglob("*") if path.relative_to(package).parts[0] not in NOT_HASHED)
    has_sources = any(path.suffix in SOURCES[1:] for path in paths)
    suffixes = SOURCES if has_sources else (*SOURCES, *COMPILED)
    yield from (path for path in paths if path.suffix in suffixes and "CMakeFiles" not in path.parts and path.is_file())
