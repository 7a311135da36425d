"""Without a time limit no search depends on seconds: a slow machine finds the same answer, byte for byte."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from onchip.formats.own.graph_json import write_graph
from oracles.one_scratchpad import long_lived_graph, random_graph
from support.series import series

BUSY_LOOPS = 1
QUESTIONS = {
    "pack": ("pack", "crowd.csv", "--minimize", "-o", "{}.csv"),
    "overflow": ("pack", "crowd.csv", "--overflow", "--capacity", "60", "-o", "{}.csv"),
    "conflicts": ("plan", "free.json", "--sram", "m_r", "-o", "{}.json"),
    "given": ("plan", "given.json", "--sram", "m_r", "--order", "given", "-o", "{}.json"),
    "peak": ("plan", "given.json", "--objective", "peak", "-o", "{}.json"),
    "map": ("map", "conv:k6c4p5q5r3s3", "--accelerator", "simba", "-o", "{}.yaml"),
    "fuse": ("fuse", "three.json", "--accelerator", "chip.yaml", "-o", "{}.json"),
    "schedule": ("schedule", "three.json", "--accelerator", "chip.yaml", "-o", "{}.json"),
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system ties no process to a core"),
]


@pytest.fixture
def folder(tmp_path: Path, chip: Path, network: Path) -> Path:
    assert {chip.name, network.name} == {"chip.yaml", "three.json"}
    write_graph(random_graph(1, 43), tmp_path / "free.json")
    write_graph(long_lived_graph(5, 47), tmp_path / "given.json")
    chance, lines = random.Random(5), ["id,lower,upper,size"]
    for number in range(40):
        start = chance.randrange(30)
        lines.append(f"{number},{start},{start + chance.randint(1, 12)},{chance.randint(1, 30)}")
    (tmp_path / "crowd.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize("question", series(QUESTIONS, 6))
def test_a_slow_machine_finds_the_same(folder: Path, question: str) -> None:
    alone = _answer(folder, question, "alone")
    with _busy_core():
        assert _answer(folder, question, "busy") == alone


def _answer(folder: Path, question: str, name: str) -> bytes:
    """Return the answer's bytes, found with an empty cache."""
    command = [part.format(name) for part in QUESTIONS[question]]
    environment = {**os.environ, "ONCHIP_CACHE": str(folder / f"cache-{name}")}
    subprocess.run(
        [sys.executable, "-m", "onchip", *command], cwd=folder, env=environment, capture_output=True, check=True
    )
    return (folder / command[-1]).read_bytes()


@contextmanager
def _busy_core() -> Iterator[None]:
    """Run the processes started in this context on one core that busy loops share."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for loop in loops:
            loop.kill()
            loop.wait()
