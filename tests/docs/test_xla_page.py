"""The page on XLA: its command runs and prints the shown output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "xla.md").read_text()


@pytest.mark.slow
def test_the_command_prints_what_the_page_shows() -> None:
    (command,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-e", "-c", command],
        cwd=ROOT,
        env=os.environ | {"PATH": programs},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, shown), ended.stderr
