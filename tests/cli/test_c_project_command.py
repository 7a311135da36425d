"""`onchip export --to c-project`: its output, and its refusals in one line."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from support.c_projects import made_and_run, needs_a_compiler, saved
from support.diamond import Json, Program
from support.onnx_operators import fused_chain

pytest.importorskip("onnxruntime")


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    return saved(fused_chain(Random(4)), tmp_path)


@pytest.fixture
def plan(onchip: Program, chain: Path, tmp_path: Path) -> Path:
    path = tmp_path / "chain.plan.json"
    assert onchip("plan", chain, "--objective", "peak", "--alignment", "8", "-o", path).code == 0
    return path


def test_a_project_is_written_and_its_sizes_are_printed(
    onchip: Program, chain: Path, plan: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    ended = onchip("export", plan, chain, "--to", "c-project", "-o", folder)
    assert (ended.code, ended.err) == (0, "")
    first, arenas, hint = ended.out.splitlines()
    assert first == str(folder)
    assert arenas.startswith("arenas: sram 32,768 bytes; DRAM 3,120, constants ")
    assert "make run" in hint
    assert (folder / "network.c").exists()


def test_json_says_what_it_takes(onchip: Program, chain: Path, plan: Path, tmp_path: Path) -> None:
    ended = onchip("export", plan, chain, "--to", "c-project", "-o", tmp_path / "project", "--json")
    found: Json = ended.json
    assert found["to"] == "c-project"
    assert found["check"]["legal"] is True
    assert set(found["project"]) == {"arena_bytes", "dram_bytes", "constant_bytes"}
    assert str(tmp_path / "project" / "network.c") in found["files"]


@pytest.mark.slow
@needs_a_compiler
def test_an_input_s_own_value_is_checked(onchip: Program, chain: Path, plan: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 3, 16, 16), 0.5, np.float32))
    options = ("--input", tmp_path / "x.npy", "--random-weights", "3")
    assert onchip("export", plan, chain, "--to", "c-project", "-o", tmp_path / "project", *options).code == 0
    assert "0.5f, 0.5f, 0.5f" in (tmp_path / "project" / "values.h").read_text()
    assert made_and_run(tmp_path / "project")[1] == 0


def test_what_cannot_be_exported_is_refused_in_one_line(
    onchip: Program, chain: Path, plan: Path, planned: Path, diamond: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    occupied = tmp_path / "file"
    occupied.write_text("")
    refusals = (
        ((planned, diamond, "--to", "c-project", "-o", folder), "a C project needs a model's weights"),
        ((plan, chain, "--to", "c-project", "-o", occupied), "is a file"),
        ((plan, chain, "--to", "c-project", "-o", tmp_path / "no" / "where"), "there is no directory"),
        ((plan, chain, "--to", "csv", "-o", tmp_path / "x.csv", "--seed", "1"), "c-project"),
        ((planned, chain, "--to", "c-project", "-o", folder), "the network has no tensor"),
    )
    for arguments, expected in refusals:
        ended = onchip("export", *arguments)
        assert ended.code in (1, 2), ended.out
        assert expected in ended.err + ended.out
        assert "Traceback" not in ended.err
    assert not folder.exists()
