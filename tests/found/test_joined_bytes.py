"""A concatenation without a copy lies channels first; exports for kernels that store channels last refuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.diamond import Program

NETWORK = Path(__file__).parent / "concat-alias.tflite"


@pytest.mark.parametrize(("form", "file"), [("c", "plan.h"), ("c-project", "project"), ("tflite", "planned.tflite")])
def test_a_concatenation_of_channels_without_a_copy_is_refused(
    form: str, file: str, onchip: Program, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", NETWORK, "--sram", "m_p", "--share", "all", "-o", plan).code == 0
    assert onchip("run", plan, NETWORK).code == 0
    ended = onchip("export", plan, NETWORK, "--to", form, "-o", tmp_path / file)
    assert ended.code == 2
    assert "concatenation 7" in ended.err
    assert not (tmp_path / file).exists()


@pytest.mark.parametrize(("form", "file"), [("c", "plan.h"), ("c-project", "project"), ("tflite", "planned.tflite")])
def test_a_concatenation_that_copies_is_exported(form: str, file: str, onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    asked = ("plan", NETWORK, "--sram", "m_p", "--share", "in-place", "--alignment", "16", "-o", plan)
    assert onchip(*asked).code == 0
    assert onchip("export", plan, NETWORK, "--to", form, "-o", tmp_path / file).code == 0
