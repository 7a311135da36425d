"""Mappings exported as C, compiled and run."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.diamond import Program
from support.lanes import LANES


@pytest.fixture
def lanes(tmp_path: Path) -> Path:
    path = tmp_path / "lanes.yaml"
    path.write_text(LANES)
    return path


def mapping_of(layer: str, bits: int, onchip: Program, lanes: Path, tmp_path: Path) -> Path:
    path = tmp_path / "mapping.yaml"
    options = ("--accelerator", lanes, "--bits", bits, "--partial-bits", 32, "--no-cache", "-o", path)
    assert onchip("map", layer, *options).code == 0
    return path


def test_a_mapping_that_is_not_legal_is_not_written(onchip: Program, lanes: Path, tmp_path: Path) -> None:
    mapping = mapping_of("gemm:m24n40k30", 32, onchip, lanes, tmp_path)
    lanes.write_text(LANES.replace("96B", "4B"))
    ended = onchip("export", mapping, "--to", "c", "--accelerator", lanes, "-o", tmp_path / "out.c")
    assert ended.code == 1
    assert "beyond-capacity" in ended.out or "sums" in ended.out
    assert not (tmp_path / "out.c").exists()


@pytest.mark.slow
def test_an_exported_mapping_is_a_function_that_multiplies(onchip: Program, lanes: Path, tmp_path: Path) -> None:
    mapping = mapping_of("gemm:m24n40k30", 32, onchip, lanes, tmp_path)
    source, library = tmp_path / "product.c", tmp_path / "product.so"
    ended = onchip("export", mapping, "--to", "c", "--accelerator", lanes, "-o", source)
    assert (ended.code, ended.out.strip()) == (0, str(source))
    compiler = shutil.which("cc") or "gcc"
    options = ("-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True)

    first, second = np.arange(720, dtype=np.float32).reshape(24, 30), np.ones((30, 40), np.float32)
    made = np.empty((24, 40), np.float32)
    function = ctypes.CDLL(str(library)).nest_gemm_m24n40k30
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    function(first.ctypes.data, second.ctypes.data, made.ctypes.data)
    assert np.array_equal(made, first @ second)


@pytest.mark.slow
def test_several_mappings_are_a_file_each(onchip: Program, lanes: Path, tmp_path: Path) -> None:
    mapping = mapping_of("lenet5", 8, onchip, lanes, tmp_path)
    ended = onchip("export", mapping, "--to", "c", "--accelerator", lanes, "-o", tmp_path / "lenet.c")
    files = [Path(line) for line in ended.out.splitlines()]
    assert ended.code == 0
    assert len(files) > 1
    assert all(file.name.startswith("lenet.") and "tile(" in file.read_text() for file in files)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--to", "trace", "-o", "out.json"), "--to c"),
        (("--to", "c", "-o", "out.h"), "ends in .c"),
        (("--to", "cuda", "-o", "out.c"), "ends in .cu"),
        (("--to", "opencl", "-o", "out.cu"), "ends in .cl"),
        (("--to", "cuda", "-o", "out.cu"), "expected thread or block"),
    ],
)
def test_a_mapping_is_exported_as_one_file_of_a_language_that_its_machine_has(
    arguments: tuple[str, ...], expected: str, onchip: Program, lanes: Path, tmp_path: Path
) -> None:
    mapping = mapping_of("gemm:m4n8k4", 32, onchip, lanes, tmp_path)
    ended = onchip("export", mapping, "--accelerator", lanes, *arguments)
    assert ended.code == 2
    assert expected in ended.err


@pytest.mark.slow
def test_other_elements_are_refused_in_a_line(onchip: Program, lanes: Path, tmp_path: Path) -> None:
    mapping = mapping_of("gemm:m4n8k4", 16, onchip, lanes, tmp_path)
    ended = onchip("export", mapping, "--to", "c", "--accelerator", lanes, "-o", tmp_path / "out.c")
    assert ended.code == 2
    assert "both 32 (float32) or both 8" in ended.err
    assert len(ended.err.splitlines()) == 1
