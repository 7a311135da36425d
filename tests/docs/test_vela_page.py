"""The page on Vela: its commands run if Vela is installed, and print the shown output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "vela.md").read_text()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ethosu") is None, reason="Vela is not installed (pip install ethos-u-vela)")
def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=tmp_path,
        env=os.environ | {"PATH": programs},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, shown), ended.stderr
