"""The one writer of a store: a lock that ends with its process, however it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from onchip.errors import InputError, OutputError


@dataclass(slots=True)
class StoreLock:
    """A file beside the store that one process at a time has locked."""

    path: Path
    descriptor: int

    @classmethod
    def of(cls, store: Path) -> Self:
        """Lock a store; raises InputError where another process writes it, OutputError where no file can be made."""
        path = store.with_name(f"{store.name}-lock")
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                what = f"its lock cannot be made ({error.strerror})"
                raise OutputError(what, file=str(store), expected="a folder that can be written") from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                what = "another sweep writes it"
                raise InputError(what, file=str(store), expected="a store that no other process writes") from None
            if _is_at(descriptor, path):
                return cls(path, descriptor)
            os.close(descriptor)  # whoever had it took it away meanwhile

    def release(self) -> None:
        """Take the file away, and let others lock it."""
        with suppress(OSError):
            self.path.unlink()
        os.close(self.descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
