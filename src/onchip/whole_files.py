"""Atomic writes: a file is written whole or not at all.

A new file is written in the target's folder, flushed to disk and renamed, so that a full disk, a signal or a crash
leaves the old file. The new file has no name until then, if the system supports that, so that a killed process leaves
nothing behind. Pipes, devices and the files of standard output and error are written directly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from errno import EISDIR
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE, S_ISREG
from typing import Final

_OPEN_FILES: Final = Path("/proc/self/fd")
_STANDARD_STREAMS: Final = (1, 2)


def write_whole(*files: tuple[Path, bytes], is_flushed: bool = True) -> None:
    """Write all files, or none if one of them cannot be written.

    An existing file keeps its permissions and owner, and the target of a symbolic link is replaced. If not
    `is_flushed`, a machine crash may lose a file, but never part of it. Raises OSError with the file's name.
    """
    with ExitStack() as unfinished:
        made = [unfinished.enter_context(_made(path, content, is_flushed)) for path, content in files]
        for (path, _), one in zip(files, made, strict=True):
            with _errors_name(path):
                one.put_in_place()


def ensure_place(path: Path) -> None:
    """Raise OSError if `write_whole` cannot begin to write to the path. Pipes and devices are not opened."""
    if _is_written_directly(path):
        return
    _Draft.beside(path).drop()


@contextmanager
def _made(path: Path, content: bytes, is_flushed: bool) -> Iterator[_Draft | _Direct]:
    """Yield content that is ready for its target, and delete it at the end if it was not put there."""
    with _errors_name(path):
        draft = None if _is_written_directly(path) else _Draft.beside(path)
    if draft is None:
        yield _Direct(path, content)
        return
    try:
        with _errors_name(path):
            draft.fill(content, is_flushed)
        yield draft
    finally:
        draft.drop()


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


@dataclass(frozen=True, slots=True)
class _Direct:
    """Content that is written directly to the path, which has no old bytes to lose."""

    path: Path
    content: bytes

    def put_in_place(self) -> None:
        stream = _standard_stream(self.path)
        descriptor = os.open(self.path, os.O_WRONLY) if stream is None else os.dup(stream)
        try:
            _write_all(descriptor, self.content)
        finally:
            os.close(descriptor)


@dataclass(slots=True)
class _Draft:
    """A new file in the folder of `target`. `name` is None while the file has no name."""

    target: Path
    descriptor: int
    name: Path | None

    @classmethod
    def beside(cls, path: Path) -> _Draft:
        """Create an empty draft for a path.

        Raises OSError if an existing file is not writable, or if its folder accepts no new file.
        """
        target = Path(os.path.realpath(path))
        mode = 0o666
        if os.path.lexists(target):
            os.close(os.open(target, os.O_WRONLY))
            mode = S_IMODE(target.stat().st_mode)
        draft = cls(target, *_open_beside(target, mode))
        try:
            draft._take_after_the_old()
        except BaseException:
            draft.drop()
            raise
        return draft

    def fill(self, content: bytes, is_flushed: bool) -> None:
        _write_all(self.descriptor, content)
        if is_flushed:
            os.fsync(self.descriptor)

    def put_in_place(self) -> None:
        """Rename the file to its target, and flush the folder if the system supports that."""
        folder = os.open(self.target.parent, os.O_RDONLY)
        try:
            if self.name is None:
                self.name = _spare_name(self.target)
                os.link(_OPEN_FILES / str(self.descriptor), self.name, src_dir_fd=folder, follow_symlinks=True)
            self.name.replace(self.target)
            self.name = None
            with suppress(OSError):
                os.fsync(folder)
        finally:
            os.close(folder)

    def drop(self) -> None:
        """Close the file, and delete it if it was not put in place."""
        os.close(self.descriptor)
        if self.name is not None:
            self.name.unlink(missing_ok=True)

    def _take_after_the_old(self) -> None:
        with suppress(FileNotFoundError):
            old, new = self.target.stat(), os.fstat(self.descriptor)
            if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
                with suppress(PermissionError):  # a writer may lack permission to change the owner
                    os.fchown(self.descriptor, old.st_uid, old.st_gid)
            os.fchmod(self.descriptor, S_IMODE(old.st_mode))


def _open_beside(target: Path, mode: int) -> tuple[int, Path | None]:
    """Return an open file in the target's folder, and its name if it has one."""
    without_name = getattr(os, "O_TMPFILE", None)
    if without_name is not None and _OPEN_FILES.is_dir():
        with suppress(OSError):  # unsupported by the file system, or an error that the named file reports too
            return os.open(target.parent, without_name | os.O_WRONLY, mode), None
    name = _spare_name(target)
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), name


def _spare_name(target: Path) -> Path:
    return target.with_name(f".onchip-{token_hex(8)}.part")


def _is_written_directly(path: Path) -> bool:
    """Return True if the path is no regular file, or is the target of a standard stream.

    Raises OSError for a directory or if the path cannot be examined.
    """
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
    if not path.exists():
        return False
    return not path.is_file() or _standard_stream(path) is not None


def _standard_stream(path: Path) -> int | None:
    """Return the descriptor of the standard stream that writes to this regular file, or None.

    The descriptor has the current position in the file.
    """
    there = path.stat()
    if not S_ISREG(there.st_mode):
        return None
    for stream in _STANDARD_STREAMS:
        with suppress(OSError):
            if os.path.samestat(there, os.fstat(stream)):
                return stream
    return None


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
