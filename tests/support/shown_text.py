"""Blocks of documents, and comparison of the shown output with the printed one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = r"\d+\.\d{3}"
SECONDS_OF_A_BLOCK = 600
"""Exceeds the first use of any compiled code on a busy machine."""


def shown_in(shown: str, printed: str) -> bool:
    """Return True if all of `printed` is shown; a line `...` stands for any lines, and seconds may differ."""
    lines = (r"(?:.*\n)*?" if line == "...\n" else re.escape(line) for line in shown.splitlines(keepends=True))
    pattern = re.sub(r"\d+\\\.\d{3}\b", lambda _: SECONDS, "".join(lines))
    return re.fullmatch(pattern, printed) is not None


def printed_by_shell(commands: str, folder: Path) -> str:
    """Run commands as a user in a folder with the examples and test data of a clone, and return their output."""
    for name in ("tests", "examples"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "ONCHIP_CACHE": str(folder / "cache")}
    ended = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_OF_A_BLOCK,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout
