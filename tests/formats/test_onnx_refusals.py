from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx.helper import make_node

from onchip.errors import InputError
from onchip.formats.networks import read_onnx
from onchip.ir.graph import Graph
from support.onnx_networks import LIGHT_MODELS, integers, model, read, value, weight

RELU = make_node("Relu", ["x"], ["y"])
X = value("x", [4])


def refusal(attempt: Callable[[], Graph]) -> str:
    """Return the one line that a reader of the error gets."""
    with pytest.raises(InputError) as caught:
        attempt()
    line = str(caught.value)
    assert "\n" not in line
    assert caught.value.expected
    return line


def refused(network: onnx.ModelProto, folder: Path, **dims: int) -> str:
    line = refusal(lambda: read(network, folder, **dims))
    path = str(folder / "network.onnx")
    assert line.startswith(path)
    return line.removeprefix(path).removeprefix(":").strip()


@pytest.mark.parametrize("content", [b"", b"not onnx", b"{}", b"\x08\x0a", b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_a_file_that_is_not_onnx_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(content)
    assert "truncated or not an ONNX file" in refusal(lambda: read_onnx(path))


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    network = model([RELU], [X], ["y"])
    del network.opset_import[1]
    content = network.SerializeToString()
    path = tmp_path / "network.onnx"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert "truncated or not an ONNX file" in refusal(lambda: read_onnx(path))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    (source,) = (path for path in LIGHT_MODELS if path.stem == "light_zfnet512")
    content = bytearray(source.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    path.write_bytes(content)
    with suppress(InputError):
        read_onnx(path)


@pytest.mark.parametrize("opset", [6, 1000])
def test_an_opset_out_of_range_is_refused(opset: int, tmp_path: Path) -> None:
    assert "opset 7 to" in refused(model([RELU], [X], ["y"], opset=opset), tmp_path)


def test_a_model_without_operators_is_refused(tmp_path: Path) -> None:
    assert "has no operators" in refused(model([], [X], ["x"]), tmp_path)


def test_a_cycle_is_refused_with_its_nodes(tmp_path: Path) -> None:
    nodes = [make_node("Add", ["x", "b"], ["a"]), make_node("Identity", ["a"], ["b"])]
    line = refused(model(nodes, [X], ["b"]), tmp_path)
    assert "form a cycle" in line
    assert "'a'" in line
    assert "'b'" in line


def test_nodes_out_of_order_are_refused(tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["a"], ["y"], name="last"), make_node("Relu", ["x"], ["a"], name="first")]
    line = refused(model(nodes, [X], ["y"]), tmp_path)
    assert line.startswith("node 'last' stands before 'first'")


def test_an_unknown_tensor_is_refused(tmp_path: Path) -> None:
    line = refused(model([make_node("Add", ["x", "ghost"], ["y"])], [X], ["y"]), tmp_path)
    assert line.startswith("node 'y': tensor 'ghost' is unknown")


def test_two_parameters_of_one_name_are_refused_unless_they_are_the_same(tmp_path: Path) -> None:
    node, other = make_node("Add", ["x", "w"], ["a"]), weight("w", [1])
    line = refused(model([node], [X], ["a"], [weight("w", [4]), other]), tmp_path)
    assert line.startswith("tensor 'w': two parameters have this name")
    same = model([node], [X], ["a"], [weight("w", [4]), weight("w", [4])])
    path = tmp_path / "same.onnx"
    path.write_bytes(same.SerializeToString())
    assert [one.name for one in read_onnx(path).operators] == ["a"]


@pytest.mark.parametrize("second", ["x", "w", "a"])
def test_a_tensor_with_two_producers_is_refused(second: str, tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["x"], ["a"], name="n1"), make_node("Relu", ["x"], [second], name="n2")]
    line = refused(model(nodes, [X], ["a"], [weight("w", [4])]), tmp_path)
    assert line.startswith(f"tensor '{second}': node 'n2' writes it and ")
    assert line.endswith("expected one producer")


def test_two_inputs_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "tensor 'x'" in refused(model([RELU], [X, X], ["y"]), tmp_path)


@pytest.mark.parametrize("node", [make_node("Relu", ["x"], ["y"], name="dram"), make_node("Relu", ["x"], ["dram"])])
def test_the_name_dram_is_refused(node: onnx.NodeProto, tmp_path: Path) -> None:
    assert "'dram': the name is reserved" in refused(model([node], [X], [node.output[0]]), tmp_path)


def test_a_binding_nobody_uses_is_refused(tmp_path: Path) -> None:
    network = model([RELU], [value("x", ["batch"])], ["y"])
    assert refused(network, tmp_path, batch=1, bath=1).startswith("dims bath: no tensor has this dimension")
    assert "expected 'batch'" in refused(network, tmp_path, batch=1, bath=1)


def test_a_network_whose_outputs_have_no_elements_is_refused(tmp_path: Path) -> None:
    node = make_node("Slice", ["x", "start", "end"], ["y"])
    line = refused(model([node], [X], ["y"], [integers("start", [2]), integers("end", [2])]), tmp_path)
    assert line.startswith("its outputs have no elements")


@pytest.mark.parametrize("element_type", [TensorProto.STRING, TensorProto.UNDEFINED])
def test_elements_of_no_fixed_size_are_refused(element_type: int, tmp_path: Path) -> None:
    node = make_node("Twist", ["x"], ["y"], domain="custom")
    line = refused(model([node], [value("x", [4], element_type)], [value("y", [4])]), tmp_path)
    assert line.startswith("tensor 'x': its elements,")


def test_a_sequence_is_refused_by_its_node(tmp_path: Path) -> None:
    nodes = [make_node("SequenceConstruct", ["x"], ["s"], name="pack"), make_node("SequenceLength", ["s"], ["y"])]
    line = refused(model(nodes, [X], ["y"]), tmp_path)
    assert line.startswith("node 'pack': its output 's' is no tensor: sequence_type")


def test_an_unknown_operator_without_declared_shapes_is_refused(tmp_path: Path) -> None:
    node = make_node("Twist", ["x"], ["y"], domain="custom", name="turn")
    line = refused(model([node], [X], ["y"]), tmp_path)
    assert line.startswith("node 'turn': onnx knows no operator 'custom::Twist'")


def test_a_node_onnx_finds_wrong_is_refused(tmp_path: Path) -> None:
    node = make_node("MatMul", ["x", "w"], ["y"], name="product")
    line = refused(model([node], [X], ["y"], [weight("w", [5, 2])]), tmp_path)
    assert line.startswith("node 'product': onnx refuses it:")


CONTRADICTIONS = [
    ("Conv", {"group": 0}, "it has 0 groups"),
    ("Conv", {"group": 2}, "its input has 3 channels, its filters [4, 3, 3, 3] with group 2 read 6"),
    ("Conv", {"kernel_shape": [5, 5]}, "its kernel_shape is [5, 5], its filters have the shape [4, 3, 3, 3]"),
    ("Conv", {"auto_pad": "AROUND"}, "its auto_pad is 'AROUND'"),
    ("ConvTranspose", {}, "its input has 3 channels, its filters [4, 3, 3, 3] with group 1 read 4"),
]


@pytest.mark.parametrize(("kind", "attributes", "said"), CONTRADICTIONS)
def test_filters_that_are_not_of_their_input_are_refused(
    kind: str, attributes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    node = make_node(kind, ["x", "w"], ["y"], **attributes)
    network = model([node], [value("x", [1, 3, 8, 8])], ["y"], [weight("w", [4, 3, 3, 3])])

    assert said.removeprefix("it ") in refused(network, tmp_path)
