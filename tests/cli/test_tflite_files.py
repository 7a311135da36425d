"""A TFLite file as NETWORK of the verbs, and as the file that `check` examines."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from support.diamond import Program
from support.tflite_models import TfliteOperator, TfliteTensor, network

MODELS = Path(__file__).parents[1] / "data" / "tflite"
SPEECH, LSTM = MODELS / "micro_speech_quantized.tflite", MODELS / "trained_lstm_int8.tflite"


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed (extra `tflite`)")
def test_a_network_is_described_planned_checked_and_run(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("info", SPEECH, "--json").json["required_bytes"] == 5_960
    assert onchip("plan", SPEECH, "--sram", "m_r", "-o", plan).code == 0
    assert onchip("check", plan, SPEECH).code == 0
    ran = onchip("run", plan, SPEECH, "--json")
    assert (ran.code, ran.json["kernels"]) == (0, "ai-edge-litert")
    assert ran.json["run"]["relative_difference"] == 0


def test_a_layer_of_it_is_mapped(onchip: Program) -> None:
    ended = onchip("map", f"{SPEECH}:Relu", "--accelerator", "simba", "--method", "loma", "--no-cache", "--json")
    assert ended.code == 0


def test_that_state_is_an_input_and_an_output_is_said_in_one_line(onchip: Program) -> None:
    ended = onchip("info", LSTM)
    assert ended.code == 0
    assert ended.err.startswith(f"onchip: {LSTM}: tensor 'tfl.pseudo_qconst' and 1 more: state between inferences")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(("place", "code"), [(64, 0), (63, 1)])
def test_the_plan_in_a_file_is_checked(place: int, code: int, onchip: Program, tmp_path: Path) -> None:
    tensors = [TfliteTensor(name, [64], "INT8") for name in "ab"]
    model = network(tensors, [TfliteOperator("RELU", "a", "b")], "a", "b")
    model.metadata = {"OfflineMemoryAllocation": np.array([1, 1, 2, 0, place], "<i4").tobytes()}
    path = model.write(tmp_path / "planned.tflite")
    assert onchip("check", path, path).code == code
    assert onchip("check", path, path, "--sram", "100").code == 1


def test_weights_of_a_seed_and_symbolic_dimensions_are_refused(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", SPEECH, "--sram", "m_r", "-o", plan).code == 0
    assert "a TFLite model runs on its own weights" in onchip("run", plan, SPEECH, "--random-weights", "1").err
    assert "leaves shapes open alone" in onchip("info", SPEECH, "--dim", "n=1").err


def test_a_plan_is_written_into_a_copy_that_check_accepts(onchip: Program, tmp_path: Path) -> None:
    plan, planned, before = tmp_path / "plan.json", tmp_path / "planned.tflite", SPEECH.read_bytes()
    options = ("--objective", "peak", "--runtime", "tflite-micro", "--sram", "64KiB")
    assert onchip("plan", SPEECH, *options, "-o", plan).code == 0
    ended = onchip("export", plan, SPEECH, "--to", "tflite", "-o", planned, "--json")
    assert (ended.code, ended.json["files"]) == (0, [str(planned)])
    assert ended.json["arena"] == {
        "arena_bytes": 5_968,
        "tensors_bytes": 5_960,
        "most_scratch_bytes": 0,
        "lower_bound_bytes": 5_968,
        "status": "OPTIMAL",
        "greedy_bytes": 5_968,
        "moved_operators": 0,
        "not_modelled": [],
    }
    assert onchip("check", planned, planned, "--sram", 5_968, "--alignment", 16).code == 0
    assert SPEECH.read_bytes() == before


def test_a_plan_that_is_not_obeyed_is_one_line_and_nothing_is_written(onchip: Program, tmp_path: Path) -> None:
    plan, planned = tmp_path / "plan.json", tmp_path / "planned.tflite"
    assert onchip("plan", SPEECH, "--sram", "64KiB", "-o", plan).code == 0
    for source, output, line in (
        (LSTM, planned, f"onchip: {plan}: "),
        (SPEECH, SPEECH, f"onchip: {SPEECH} is an input"),
        (SPEECH, tmp_path / "plan.onnx", f"onchip: {tmp_path / 'plan.onnx'}: the name has the wrong ending"),
        ("resnet50", planned, "onchip: resnet50: there is no model to put the plan in"),
    ):
        ended = onchip("export", plan, source, "--to", "tflite", "-o", output)
        assert ended.code == 2
        assert next(one for one in ended.err.splitlines() if "state between inferences" not in one).startswith(line)
        assert not planned.exists()
    document = plan.read_text().replace('{"compute"', '{"free": {"tensor": "nobody", "memory": "sram"}}, {"compute"', 1)
    plan.write_text(document)
    assert onchip("export", plan, SPEECH, "--to", "tflite", "-o", planned).code == 1
    assert not planned.exists()
