"""C code of TFLite operators gives the bits of TFLite Micro, or of ai-edge-litert for operators that it lacks."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest

from onchip.backends.c.tflite_model import FixedPoint, divide_by_power, exponentials, upper_half
from support.c_projects import built, needs_a_compiler
from support.micro_models import branches, random_model
from support.series import series
from support.tflite_models import a_network_of_many_kinds, bytes_side_by_side, looping

DATA = Path(__file__).parents[1] / "data" / "tflite"
pytestmark = needs_a_compiler


@pytest.fixture(autouse=True)
def a_runtime_is_there() -> None:
    pytest.importorskip("ai_edge_litert")


@pytest.mark.parametrize(
    "name", series(["hello_world_int8", "trained_lstm_int8", "micro_speech_quantized", "seanet_transpose_conv2"], 2)
)
def test_a_model_that_nobody_here_wrote_gives_equal_bits(name: str, tmp_path: Path) -> None:
    project = built(Path(shutil.copy(DATA / f"{name}.tflite", tmp_path)))
    assert project.is_right, project.said
    assert " 0 differ" in project.said


@pytest.mark.parametrize("seed", series(range(3), 1))
def test_a_random_model_gives_equal_bits(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="outputs are its own: make micro")
    project = built(random_model(Random(seed)).write(tmp_path / "model.tflite"))
    assert project.is_right, project.said


def test_branches_and_their_concatenation_give_equal_bits(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="outputs are its own: make micro")
    project = built(branches().write(tmp_path / "model.tflite"))
    assert project.is_right, project.said


def test_operators_of_bytes_give_equal_bits(tmp_path: Path) -> None:
    project = built(bytes_side_by_side().write(tmp_path / "model.tflite"))
    assert project.is_right, project.said
    assert project.said.count(" 0 differ") == 14


@pytest.mark.slow
def test_float_maps_with_channels_last_agree(tmp_path: Path) -> None:
    project = built(a_network_of_many_kinds().write(tmp_path / "model.tflite"))
    assert project.is_right, project.said


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
def test_a_loop_that_is_unrolled_agrees_with_the_file(tmp_path: Path) -> None:
    project = built(looping(3).write(tmp_path / "model.tflite"))
    assert project.is_right, project.said


@pytest.mark.parametrize("factor", [1e-9, 0.3, 0.5, 0.999999999, 1.0, 1.5, 300.0])
def test_a_fixed_point_factor_is_the_nearest(factor: float) -> None:
    found = FixedPoint.of(factor)
    assert 2**30 <= found.multiplier < 2**31
    assert abs(found.multiplier * 2.0 ** (found.shift - 31) / factor - 1) <= 2.0**-31


def test_halves_are_rounded_away_from_zero() -> None:
    assert [divide_by_power(value, 1) for value in (-3, -2, -1, 1, 2, 3)] == [-2, -1, -1, 1, 1, 2]
    assert upper_half(2**30, 1) == 1
    assert upper_half(-(2**30), 1) == 0  # TFLite's rounding: it adds 1 - 2^30, and truncates towards zero


def test_exponentials_are_those_of_real_numbers() -> None:
    found = np.array(list(exponentials(1.0, 0.05)), np.float64) / 2.0**31
    assert np.abs(found - np.exp(-0.05 * np.arange(256))).max() < 1e-6
    assert list(exponentials(1.0, 10.0))[4:] == [0] * 252
