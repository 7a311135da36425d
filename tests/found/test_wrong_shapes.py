"""Wrong shapes from ONNX's inference or a file: plans have the sizes that the runtime writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node

from adversary.frame import Program
from support.onnx_networks import integers, model, read, value

FILES = Path(__file__).parent / "shapes"


@pytest.mark.parametrize(
    ("name", "shape"),
    [("einsum-one", (8, 4, 6)), ("pool-ceil-pad", (1, 3, 1, 1)), ("convtranspose-same-upper", (1, 3, 10, 12))],
)
def test_plan_and_schedule_have_the_size_that_the_runtime_writes(
    name: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    network, plan, schedule = FILES / f"{name}.onnx", tmp_path / "plan.json", tmp_path / "schedule.json"
    program = Program(tmp_path)
    assert program.ask("plan", network, "--sram", "1MiB", "-o", plan).code == 0
    assert program.ask("check", plan, network).code == 0
    assert program.ask("run", plan, network).code == 0

    asked = ("--accelerator", "ascend-like", "--time-limit", 5)
    assert program.ask("schedule", network, *asked, "-o", schedule).code == 0
    assert program.ask("check", schedule, network).code == 0
    assert program.ask("run", schedule, network).code == 0
    assert shape_in(network, tmp_path) == shape


def shape_in(network: Path, folder: Path) -> tuple[int, ...] | None:
    graph = read(onnx.load(network), folder)
    return graph.tensor[graph.operators[-1].outputs[0]].shape


def test_unpooling_has_the_constant_shape_it_states(tmp_path: Path) -> None:
    nodes = [make_node("MaxUnpool", ["x", "places", "shape"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]
    given = [value("x", [1, 1, 2, 2]), value("places", [1, 1, 2, 2], TensorProto.INT64)]
    network = model(nodes, given, ["y"], [integers("shape", [1, 1, 5, 5])])
    assert read(network, tmp_path).tensor["y"].shape == (1, 1, 5, 5)


def test_compression_by_a_constant_has_its_exact_size(tmp_path: Path) -> None:
    condition = numpy_helper.from_array(np.array([True, False, True, False]), "condition")
    nodes = [make_node("Compress", ["x", "condition"], ["y"], axis=1)]
    graph = read(model(nodes, [value("x", [3, 4])], ["y"], [condition]), tmp_path)
    assert graph.tensor["y"].shape == (3, 2)
    assert "upper_bound" not in graph.operators[0].attributes


@pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
def test_declared_shape_loses_against_the_specification(tmp_path: Path) -> None:
    nodes = [make_node("Einsum", ["a", "b"], ["y"], equation="bij,bjk->bik"), make_node("Relu", ["y"], ["z"])]
    declared = [value("y", [1, 4, 6])]
    network = model(nodes, [value("a", [1, 4, 5]), value("b", [8, 5, 6])], [value("z", [1, 4, 6])], declared=declared)
    graph = read(network, tmp_path)
    assert [graph.tensor[name].shape for name in ("y", "z")] == [(8, 4, 6), (8, 4, 6)]


@pytest.mark.parametrize("written", [[5, 3], [3, 4]], ids=["of another size", "of the declared size"])
def test_run_refuses_a_tensor_that_is_not_as_declared(tmp_path: Path, written: list[int]) -> None:
    network, plan = tmp_path / "network.onnx", tmp_path / "plan.json"
    nodes = [make_node("Expand", ["x", "shape"], ["y"])]
    given = [value("x", [1, 1]), value("shape", [2], TensorProto.INT64)]
    network.write_bytes(model(nodes, given, [value("y", [4, 3])]).SerializeToString())
    np.save(tmp_path / "shape.npy", np.array(written))
    program = Program(tmp_path)
    assert program.ask("plan", network, "--sram", "1MiB", "-o", plan).code == 0
    ended = program.ask("run", plan, network, "--input", f"shape={tmp_path / 'shape.npy'}")
    assert ended.code == 2
    assert f"tensor 'y': onnxruntime writes the shape {written}" in ended.err


@pytest.mark.parametrize("bits", [(), ("--bits", "8")])
def test_run_refuses_what_was_read_with_a_wrong_shape(
    bits: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule at other bits than the model's, with made-up values, is refused too."""
    monkeypatch.setattr("onchip.formats.onnx.shapes.specified_types", lambda *_: {})
    network, plan, schedule = FILES / "pool-ceil-pad.onnx", tmp_path / "plan.json", tmp_path / "schedule.json"
    program = Program(tmp_path)
    assert program.ask("plan", network, "--sram", "1MiB", "-o", plan).code == 0
    asked = ("--accelerator", "ascend-like", *bits, "--time-limit", 5)
    assert program.ask("schedule", network, *asked, "-o", schedule).code == 0
    for answer in (plan, schedule):
        ended = program.ask("run", answer, network)
        assert ended.code == 2
        assert "onnxruntime writes the shape [1, 3, 1, 1]" in ended.err
