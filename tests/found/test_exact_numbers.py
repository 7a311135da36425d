"""Sizes of layers that floats or native integers cannot hold exactly are refused when the layer is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.errors import InputError
from onchip.ir.layer import GREATEST_NUMBER, Layer
from support.diamond import Program

HUGE = GREATEST_NUMBER + 1


@pytest.mark.parametrize("size", [HUGE, HUGE + 1, 2**63, 2**64 + 1, 10**30])
@pytest.mark.parametrize("field", ["stride", "dilation", "padding", "n", "g", "input_bits", "output_bits"])
def test_a_number_beyond_the_exact_range_is_refused(field: str, size: int) -> None:
    values = {"stride": (1, size), "dilation": (size, 1), "padding": (size, 0, 0, 0)}
    with pytest.raises(InputError, match=r"expected (at most 9007199254740991|at least those|less padding)"):
        Layer(**{"p": 4, field: values.get(field, size)})  # type: ignore[arg-type]


def test_an_input_beyond_the_exact_range_is_refused() -> None:
    with pytest.raises(InputError, match="rows or columns of the input is"):
        Layer(p=2**20, stride=(2**40, 1))
    with pytest.raises(InputError, match="elements of the input is"):
        Layer(c=2**20, p=2**10, q=2**10, stride=(2**20, 2**20))
    assert Layer(p=2, stride=(GREATEST_NUMBER - 1, 1)).input_pixels == (GREATEST_NUMBER, 1)


@pytest.mark.parametrize("option", ["stride", "dilation"])
def test_a_layer_as_text_is_refused_in_one_line(option: str, onchip: Program) -> None:
    ended = onchip("map", f"conv:k4c4p4q4r3s3:{option}{HUGE}", "--accelerator", "simba", "--time-limit", "2")
    assert ended.code == 2
    assert f"{option} is {HUGE}; expected at most {GREATEST_NUMBER}" in ended.err


def test_a_stride_of_a_timeloop_problem_is_refused_in_one_line(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(f"problem: {{shape: cnn-layer, N: 1, K: 8, C: 4, P: 5, Q: 6, R: 3, S: 3, Wstride: {HUGE}}}\n")
    ended = onchip("map", path, "--accelerator", "simba", "--time-limit", "2")
    assert ended.code == 2
    assert f"stride is {HUGE}" in ended.err
