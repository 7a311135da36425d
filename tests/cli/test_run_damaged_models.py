"""`onchip run` of models that cannot run, or not twice with the same values: one line, and no other output."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto, TensorProto

from support.forked import run_forked
from support.onnx_networks import integers, make_node, model, value

SECONDS = 60  # processor seconds, on a slow machine


def refusal_of_a_run(network: ModelProto, folder: Path) -> str:
    """Return the one line that planning and running the model ends with; libraries may also write to standard error."""
    path, plan = folder / "network.onnx", folder / "plan.json"
    path.write_bytes(network.SerializeToString())
    assert run_forked(["plan", str(path), "--sram", "m_r", "-o", str(plan)], folder, SECONDS).code == 0
    ended = run_forked(["run", str(plan), str(path)], folder, SECONDS)

    assert (ended.code, ended.said.count("\n")) == (2, 1), ended.said
    return ended.said


def test_a_weight_that_is_cut_short_is_named(tmp_path: Path) -> None:
    cut = TensorProto(name="w", dims=[4], data_type=TensorProto.FLOAT, raw_data=b"123")
    network = model([make_node("Add", ["x", "w"], ["y"])], [value("x", [4])], ["y"], [cut])

    assert "tensor 'w': its data do not make its shape [4]" in refusal_of_a_run(network, tmp_path)


def test_what_onnxruntime_logs_is_not_said_besides(tmp_path: Path) -> None:
    beyond = integers("beyond", [99])
    network = model([make_node("Gather", ["x", "beyond"], ["y"])], [value("x", [4])], ["y"], [beyond])

    assert "operator 'y': onnxruntime refuses it" in refusal_of_a_run(network, tmp_path)


def test_random_numbers_are_not_held_against_other_random_numbers(tmp_path: Path) -> None:
    nodes = [make_node("RandomNormal", [], ["r"], shape=[4]), make_node("Add", ["x", "r"], ["y"])]
    line = refusal_of_a_run(model(nodes, [value("x", [4])], ["y"]), tmp_path)

    assert "operator 'r': RandomNormal writes other values in each run" in line


def test_what_a_dropout_drops_in_training_is_not_held_against_what_another_drops(tmp_path: Path) -> None:
    training = TensorProto(name="training", data_type=TensorProto.BOOL, raw_data=b"\1")
    half = TensorProto(name="half", data_type=TensorProto.FLOAT, float_data=[0.5])
    nodes = [make_node("Dropout", ["x", "half", "training"], ["y"])]
    line = refusal_of_a_run(model(nodes, [value("x", [4])], ["y"], [half, training]), tmp_path)

    assert "operator 'y': Dropout writes other values in each run" in line
