"""C code of ONNX operators computes the values of onnxruntime, under address and undefined-behaviour sanitizers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import onnx
import pytest

from support import onnx_operators
from support.c_projects import built, needs_a_compiler, saved
from support.series import series

pytestmark = [needs_a_compiler, pytest.mark.usefixtures("onnxruntime_is_there")]
SEEDS = series(range(2), 1)


@pytest.fixture(scope="module")
def onnxruntime_is_there() -> None:
    pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "network",
    [
        onnx_operators.windows,
        onnx_operators.elementwise,
        onnx_operators.products_and_norms,
        onnx_operators.movements,
        onnx_operators.fused_chain,
    ],
    ids=lambda one: one.__name__,
)
def test_operators_compute_in_c_what_they_compute_in_onnxruntime(
    network: Callable[[Random], onnx.ModelProto], seed: int, tmp_path: Path
) -> None:
    project = built(saved(network(Random(seed)), tmp_path))
    assert project.is_right, project.said
