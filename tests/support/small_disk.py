"""A file system that is soon full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk_at(folder: Path, size: str, options: str = "rw") -> Iterator[bool]:
    """Mount a small file system and yield True, or False if mounting is impossible."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"{options},size={size}", "onchip-test", str(folder)]
    is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
