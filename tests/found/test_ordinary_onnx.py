"""ONNX files that were once refused are read, planned, checked, run and scheduled."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.api.networks import read_network
from support.diamond import Program

FOLDER = Path(__file__).parent
OUTPUTS = {
    "empty-inner": (1, 32, 8),
    "empty-concat": (1, 32, 8),
    "contrib-nbits": (3, 24),
    "contrib-mha": (2, 5, 8),
    "nms-then-slice": (15, 1),
    "nms-then-gemm": (15, 8),
}


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("verb", ["plan {} --sram 64KiB", "schedule {} --accelerator meta-prototype"])
def test_a_file_once_refused_is_answered_checked_and_run(name: str, verb: str, onchip: Program, tmp_path: Path) -> None:
    network, answer = str(FOLDER / f"{name}.onnx"), str(tmp_path / "answer.json")
    assert [tensor.shape for tensor in read_network(network).tensors if tensor.role.name == "OUTPUT"] == [OUTPUTS[name]]
    assert onchip(*verb.format(network).split(), "-o", answer).code == 0
    assert onchip("check", answer, network).code == 0
    assert onchip("run", answer, network).code == 0


def test_an_empty_input_is_given_by_its_shape(onchip: Program) -> None:
    assert onchip("plan", FOLDER / "empty-concat.onnx", "--shape", "e=1x0x8", "--sram", "64KiB").code == 0
