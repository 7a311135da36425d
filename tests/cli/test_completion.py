"""Shell completion of verbs, bundled networks and bundled accelerators."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onchip.commands.arguments import COMPLETION_VARIABLE


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("onchip sche", ["schedule"]),
        ("onchip plan len", ["lenet5"]),
        ("onchip info mobilenetv1-", ["mobilenetv1-defines"]),
        ("onchip schedule lenet5 --accelerator simba-c", ["simba-cosa"]),
        ("onchip map lenet5 --accelerator simba-c", ["simba-cosa"]),
        ("onchip plan lenet5 --accelerator simba-c", ["simba-cosa"]),
        ("onchip plan there-is-none", []),
    ],
)
def test_a_shell_is_told_what_may_follow(words: str, completed: list[str]) -> None:
    asked = {COMPLETION_VARIABLE: "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    ended = subprocess.run(
        [sys.executable, "-m", "onchip"], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert ended.stdout.split() == completed
