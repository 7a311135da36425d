"""`onchip export MAPPING --to cuda|opencl`: kernels of the bundled GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.diamond import Program
from support.series import series

WORDS = {
    "cuda": (".cu", "__launch_bounds__(THREADS, 1) nest_gemm_m64n64k32("),
    "opencl": (".cl", "reqd_work_group_size(THREADS,"),
}


@pytest.mark.parametrize("form", WORDS)
@pytest.mark.parametrize("gpu", series(["h100-like", "k80-like"], 1))
def test_a_mapping_for_a_bundled_gpu_is_exported_as_a_kernel(
    form: str, gpu: str, onchip: Program, tmp_path: Path
) -> None:
    mapping, (ending, head) = tmp_path / "mapping.yaml", WORDS[form]
    bits = ("--bits", "32", "--partial-bits", "32")
    ended = onchip("map", "gemm:m64n64k32", "--accelerator", gpu, *bits, "--time-limit", "2", "-o", mapping)
    assert ended.code == 0
    target = tmp_path / f"product{ending}"
    ended = onchip("export", mapping, "--to", form, "-o", target)
    assert (ended.code, ended.out.strip()) == (0, str(target))
    source = target.read_text()
    threads = source.partition(" blocks of ")[2].partition(" threads")[0]
    assert 1 < int(threads) <= 256
    assert head.replace("THREADS", threads) in source


def test_a_plan_is_not_exported_as_a_kernel(onchip: Program, planned: Path, diamond: Path, tmp_path: Path) -> None:
    ended = onchip("export", planned, diamond, "--to", "cuda", "-o", tmp_path / "plan.cu")
    assert ended.code == 2
    assert "'cuda'" in ended.err
