"""Mutated network files are read, or refused in one line."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

from onchip.api.networks import read_network
from support.mutated_files import GREATEST_BYTES, MUTATIONS, ended
from support.quantised import random_quantised

TFLITE = Path(__file__).parents[1] / "data" / "tflite" / "trained_lstm_int8.tflite"
HOW_MANY = 4


def original(suffix: str, folder: Path) -> Path:
    if suffix == ".onnx":
        onnx.save(random_quantised(1), folder / "quantised.onnx")
        return folder / "quantised.onnx"
    if suffix == ".tflite":
        return TFLITE
    if find_spec("torch") is None:
        pytest.skip("torch is not installed (extra `torch`)")
    from support.small_programs import small_programs

    return small_programs(folder)[0]


@pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
@pytest.mark.parametrize(
    "suffix", [pytest.param(one, marks=[pytest.mark.torch] * (one == ".pt2")) for one in sorted(MUTATIONS)]
)
def test_a_mutated_file_is_read_or_refused_in_one_line(suffix: str, tmp_path: Path) -> None:
    whole = original(suffix, tmp_path)
    assert read_network(str(whole)).operators
    chance = random.Random(7)
    for mutation in dict.fromkeys(MUTATIONS[suffix]):
        for number in range(HOW_MANY):
            path = tmp_path / f"{mutation.__name__}.{number}{suffix}"
            path.write_bytes(mutation(whole.read_bytes(), chance))
            assert ended(path).fault is None, path.name


def fails(arguments: Sequence[str]) -> int:
    raise ZeroDivisionError


def ends_otherwise(arguments: Sequence[str]) -> int:
    return 1


def takes_too_much(arguments: Sequence[str]) -> int:
    return len(bytes(2 * GREATEST_BYTES)) and 0


def says_something_else(arguments: Sequence[str]) -> int:
    print("Traceback", file=sys.stderr)
    return 0


@pytest.mark.parametrize("wrong", [fails, ends_otherwise, takes_too_much, says_something_else])
def test_any_other_end_is_a_fault(
    wrong: Callable[[Sequence[str]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(random_quantised(1), tmp_path / "whole.onnx")
    monkeypatch.setattr("support.mutated_files.run", wrong)
    assert ended(tmp_path / "whole.onnx").fault is not None
