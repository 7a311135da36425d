"""TFLite Micro itself: it takes the plan in a model, fills the arena that was promised, and computes the same bits."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from onchip.reports.arena_export import ArenaExport
from support.arena_exports import exported
from support.micro_models import branches, random_model
from support.micro_runtime import IS_INSTALLED, MISSING, run_on_micro

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
    # What persists is allocated operator by operator, with gaps that depend on their order.
    assert after.tail_bytes == before.tail_bytes or export.moved_operators
    assert after.head_bytes <= before.head_bytes
    return export


@pytest.mark.parametrize("model", sorted(MODELS.glob("*.tflite")), ids=lambda path: path.stem)
def test_models_of_the_runtime_itself(model: Path, tmp_path: Path) -> None:
    holds(model, tmp_path)


@pytest.mark.parametrize("seed", range(40))
def test_random_models(seed: int, tmp_path: Path) -> None:
    holds(random_model(Random(seed)).write(tmp_path / "made.tflite"), tmp_path)


def test_operators_that_move_lower_the_peak(tmp_path: Path) -> None:
    export = holds(branches().write(tmp_path / "made.tflite"), tmp_path)
    assert export.moved_operators > 0
    assert (export.arena_bytes, export.greedy_bytes) == (1024 + 4096 + 3 * 64, 1024 + 4 * 4096)
