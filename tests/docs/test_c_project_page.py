"""The page on C projects: its commands run and print the shown output, and its list of kernels is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from onchip.backends.c.onnx_calls import KINDS as ONNX_KINDS
from onchip.backends.c.tflite_calls import KINDS as TFLITE_KINDS
from support.c_projects import needs_a_compiler

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "c_project.md").read_text()


@pytest.mark.slow
@needs_a_compiler
@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    (step,) = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
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
    assert step in (tmp_path / "speech" / "network.c").read_text()


@pytest.mark.parametrize(("model", "kinds"), [("ONNX", ONNX_KINDS), ("TFLite", TFLITE_KINDS)])
def test_the_page_lists_the_kinds_that_have_a_kernel(model: str, kinds: tuple[str, ...]) -> None:
    (listed,) = re.findall(rf"^Of {model}, for floats.*?: (.*?)\.$", PAGE, re.DOTALL | re.MULTILINE)
    assert tuple(re.sub(r"[`\s]", "", listed).split(",")) == kinds
