"""TFLite Micro itself: it uses the plan in a model, fills the predicted arena, and computes the same bits."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from onchip.backends.tflm.export_arena import ArenaExport
from support.arena_exports import exported
from support.micro_models import branches, int8, random_model
from support.micro_runtime import IS_INSTALLED, MISSING, run_on_micro
from support.series import series
from support.tflite_models import TfliteModel, TfliteOperator, TfliteTensor, network

pytestmark = [
    pytest.mark.skipif(not IS_INSTALLED, reason=MISSING),
    pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning"),
]
MODELS = Path(__file__).parents[1] / "data" / "tflite"


def holds(model: Path, folder: Path) -> ArenaExport:
    before = run_on_micro(model.read_bytes())
    copy = folder / "model.tflite"
    copy.write_bytes(model.read_bytes())
    export = exported(copy)
    after = run_on_micro((folder / "planned.tflite").read_bytes())
    assert after.has_outputs_of(before)
    assert after.head_bytes == export.arena_bytes
    assert before.head_bytes == export.greedy_bytes
    # Persistent buffers are allocated operator by operator, with gaps that depend on their order.
    assert after.tail_bytes == before.tail_bytes or export.moved_operators
    assert after.head_bytes <= before.head_bytes
    return export


@pytest.mark.parametrize("model", sorted(MODELS.glob("*.tflite")), ids=lambda path: path.stem)
def test_models_of_the_runtime_itself(model: Path, tmp_path: Path) -> None:
    holds(model, tmp_path)


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_random_models(seed: int, tmp_path: Path) -> None:
    holds(random_model(Random(seed)).write(tmp_path / "made.tflite"), tmp_path)


def test_operators_that_move_lower_the_peak(tmp_path: Path) -> None:
    export = holds(branches().write(tmp_path / "made.tflite"), tmp_path)
    assert export.moved_operators > 0
    assert (export.arena_bytes, export.greedy_bytes) == (1024 + 4096 + 3 * 64, 1024 + 4 * 4096)


def relu(source: str, target: str) -> TfliteOperator:
    return TfliteOperator("RELU", [source], [target])


def odd_models() -> dict[str, TfliteModel]:
    """Return models with structures that our graphs lack or extend."""
    rows = [int8(name, 1, 64) for name in "xabyz"]
    shown = int8("v", 64, 1)
    scales = TfliteTensor("c", [1, 64], "INT8", np.arange(64, dtype=np.int8), scale=0.5)
    floats = [TfliteTensor("f", [1, 64]), TfliteTensor("g", [1, 64]), TfliteTensor("h", [1, 64])]
    return {
        "an input that is an output": network(rows, [relu("x", "y")], ["x"], ["x", "y"]),
        "an output that shows an input": network(
            [*rows, shown], [relu("x", "y"), TfliteOperator("RESHAPE", ["x"], ["v"])], ["x"], ["v", "y"]
        ),
        "an output that shows an inner tensor": network(
            [*rows, shown], [relu("x", "a"), TfliteOperator("RESHAPE", ["a"], ["v"]), relu("a", "y")], ["x"], ["v", "y"]
        ),
        "views of views": network(
            [*rows, shown, int8("w", 8, 8)],
            [TfliteOperator("RESHAPE", ["x"], ["v"]), TfliteOperator("RESHAPE", ["v"], ["w"]), relu("w", "y")],
            ["x"],
            ["y"],
        ),
        "what constants give": network(
            [*floats, scales],
            [TfliteOperator("DEQUANTIZE", ["c"], ["g"]), TfliteOperator("ADD", ["f", "g"], ["h"], ("AddOptions", {}))],
            ["f"],
            ["h"],
        ),
        "a tensor that nobody touches": network([*rows, int8("idle", 1, 4096)], [relu("x", "y")], ["x"], ["y"]),
        "an output that nobody reads": network(rows, [relu("x", "a"), relu("x", "y")], ["x"], ["y"]),
        "an input that nobody reads": network(rows, [relu("x", "y")], ["x", "z"], ["y"]),
        "one tensor read twice": network(
            rows, [TfliteOperator("ADD", ["x", "x"], ["y"], ("AddOptions", {}))], ["x"], ["y"]
        ),
    }


@pytest.mark.parametrize("name", odd_models())
def test_odd_models(name: str, tmp_path: Path) -> None:
    holds(odd_models()[name].write(tmp_path / "made.tflite"), tmp_path)
