from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from onnx.helper import make_function, make_node, make_opsetid, make_tensor

from onchip.formats.onnx.nodes import BITS
from onchip.formats.states_and_loops import writable
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from support.onnx_networks import integers, model, operator_names, read, value, weight


def parameters_of(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.with_role(Role.PARAMETER)]


def test_a_convolution_reads_its_input_and_its_parameters(tmp_path: Path) -> None:
    conv = make_node("Conv", ["x", "w", "b"], ["y"], name="conv", pads=[1, 1, 1, 1], auto_pad="NOTSET")
    network = model([conv], [value("x", [1, 3, 8, 8])], ["y"], [weight("w", [4, 3, 3, 3]), weight("b", [4])])
    graph = read(network, tmp_path)
    (operator,) = graph.operators
    assert (operator.name, operator.kind) == ("conv", "Conv")
    assert (operator.inputs, operator.parameters, operator.outputs) == (("x",), ("w", "b"), ("y",))
    assert operator.attributes == {"pads": [1, 1, 1, 1], "auto_pad": "NOTSET"}
    assert operator.members == ()
    assert graph.tensors == (
        Tensor.of_shape("x", (1, 3, 8, 8), 32, Role.INPUT),
        Tensor.of_shape("w", (4, 3, 3, 3), 32, Role.PARAMETER),
        Tensor.of_shape("b", (4,), 32, Role.PARAMETER),
        Tensor.of_shape("y", (1, 4, 8, 8), 32, Role.OUTPUT),
    )


def test_parameters_nobody_reads_are_no_tensors(tmp_path: Path) -> None:
    network = model([make_node("Relu", ["x"], ["y"])], [value("x", [4])], ["y"], [weight("w", [4])])
    assert parameters_of(read(network, tmp_path)) == []


def test_what_is_computed_from_constants_alone_is_one_parameter(tmp_path: Path) -> None:
    nodes = [
        make_node("ConstantOfShape", ["shape"], ["ones"]),
        make_node("Unsqueeze", ["ones", "axes"], ["column"]),
        make_node("Constant", [], ["half"], value_float=0.5),
        make_node("Mul", ["column", "half"], ["scale"]),
        make_node("Mul", ["x", "scale"], ["y"]),
    ]
    network = model(nodes, [value("x", [4, 6])], ["y"], [integers("shape", [4]), integers("axes", [1])])
    graph = read(network, tmp_path)
    assert operator_names(graph) == ["y"]
    assert parameters_of(graph) == ["scale"]
    assert graph.tensor["scale"].shape == (4, 1)


def test_the_shape_of_a_static_tensor_is_a_constant(tmp_path: Path) -> None:
    nodes = [
        make_node("Relu", ["x"], ["r"]),
        make_node("Shape", ["r"], ["shape"]),
        make_node("Gather", ["shape", "first"], ["batch"]),
        make_node("Concat", ["batch", "rest"], ["target"], axis=0),
        make_node("Reshape", ["r", "target"], ["flat"]),
        make_node("Relu", ["flat"], ["y"]),
    ]
    network = model(nodes, [value("x", ["n", 2, 3])], ["y"], [integers("first", [0]), integers("rest", [-1])])
    graph = read(network, tmp_path, n=5)
    assert [operator.inputs for operator in graph.operators] == [("x",), ("r",)]
    assert graph.tensor["y"].shape == (5, 6)
    assert parameters_of(graph) == []


def test_shapes_that_no_inference_propagates_are_computed(tmp_path: Path) -> None:
    nodes = [
        make_node("Shape", ["x"], ["shape"], start=-1),
        make_node("Div", ["shape", "two"], ["half"]),
        make_node("Equal", ["half", "two"], ["is_two"]),
        make_node("Where", ["is_two", "two", "half"], ["chosen"]),
        make_node("Slice", ["x", "zero", "chosen"], ["kept"]),
        make_node("ConstantOfShape", ["chosen"], ["bias"]),
        make_node("NonZero", ["chosen"], ["positions"]),
        make_node("Concat", ["kept", "bias"], ["y"], axis=0),
        make_node("GatherND", ["y", "positions"], ["picked"]),
    ]
    network = model(nodes, [value("x", [4])], ["y", "picked"], [integers("two", [2]), integers("zero", [0])])
    graph = read(network, tmp_path)
    assert operator_names(graph) == ["kept", "y", "picked"]
    assert graph.tensor["kept"].shape == (2,)
    assert graph.tensor["y"].shape == (4,)
    assert graph.tensor["positions"].shape == (1, 1)


@pytest.mark.parametrize(
    "view",
    [
        make_node("Reshape", ["r", "shape"], ["v"]),
        make_node("Flatten", ["r"], ["v"]),
        make_node("Squeeze", ["r", "axis"], ["v"]),
        make_node("Unsqueeze", ["r", "axis"], ["v"]),
        make_node("Identity", ["r"], ["v"]),
        make_node("Dropout", ["r"], ["v"]),
        make_node("Dropout", ["r", "", "no"], ["v", ""]),
        make_node("Dropout", ["r", "ratio"], ["v", "mask_nobody_reads"]),
    ],
    ids=lambda node: f"{node.op_type}{len(node.input)}",
)
def test_a_view_folds_into_its_base(view: onnx.NodeProto, tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["x"], ["r"]), view, make_node("Tanh", ["v"], ["y"])]
    constants = [
        integers("shape", [-1]),
        integers("axis", [0]),
        make_tensor("no", TensorProto.BOOL, [], [False]),
        make_tensor("ratio", TensorProto.FLOAT, [], [0.5]),
    ]
    graph = read(model(nodes, [value("x", [1, 2, 3])], ["y"], constants), tmp_path)
    assert [operator.inputs for operator in graph.operators] == [("x",), ("r",)]
    assert [tensor.name for tensor in graph.tensors] == ["x", "r", "y"]


@pytest.mark.parametrize(("inputs", "outputs"), [(["x", "", "yes"], ["d"]), (["x"], ["d", "mask"])])
def test_a_dropout_that_does_something_is_an_operator(inputs: list[str], outputs: list[str], tmp_path: Path) -> None:
    nodes = [make_node("Dropout", inputs, outputs), make_node("Cast", [outputs[-1]], ["y"], to=TensorProto.FLOAT)]
    constants = [make_tensor("yes", TensorProto.BOOL, [], [True])]
    graph = read(model(nodes, [value("x", [4])], ["y", "d"], constants), tmp_path)
    assert [operator.kind for operator in graph.operators] == ["Dropout", "Cast"]
    assert graph.operators[0].outputs == tuple(outputs)


def test_an_output_that_is_a_view_is_its_base_with_both_names_kept(tmp_path: Path) -> None:
    nodes = [
        make_node("Relu", ["x"], ["r"]),
        make_node("Flatten", ["r"], ["flat"]),
        make_node("Identity", ["flat"], ["same"]),
    ]
    graph = read(model(nodes, [value("x", [1, 2, 3])], ["same", "r", "flat"]), tmp_path)
    assert operator_names(graph) == ["r"]
    (output,) = graph.with_role(Role.OUTPUT)
    assert (output.name, output.aliases, output.shape) == ("r", ("same", "flat"), (1, 2, 3))


def test_an_output_that_is_a_view_of_an_input_is_copied_once(tmp_path: Path) -> None:
    nodes = [
        make_node("Flatten", ["x"], ["flat"], name="flatten"),
        make_node("Identity", ["x"], ["same"]),
        make_node("Relu", ["flat"], ["y"]),
    ]
    graph = read(model(nodes, [value("x", [1, 2, 3])], ["flat", "same", "y"]), tmp_path)
    assert [(o.name, o.kind, o.inputs, o.outputs) for o in graph.operators] == [
        ("flatten", "Identity", ("x",), ("flat",)),
        ("y", "Relu", ("x",), ("y",)),
    ]
    assert graph.tensor["flat"].role is Role.OUTPUT
    assert graph.tensor["flat"].aliases == ("same",)


def test_an_output_that_is_an_input_or_a_parameter_is_copied(tmp_path: Path) -> None:
    network = model([make_node("Add", ["x", "w"], ["y"])], [value("x", [4])], ["x", "w", "y"], [weight("w", [4])])
    graph = read(network, tmp_path)
    assert [(o.kind, o.inputs, o.parameters, o.outputs) for o in graph.operators] == [
        ("Identity", ("x",), (), ("x.output",)),
        ("Identity", (), ("w",), ("w.output",)),
        ("Add", ("x",), ("w",), ("y",)),
    ]
    assert [tensor.name for tensor in graph.with_role(Role.OUTPUT)] == ["x.output", "w.output", "y"]


def test_empty_names_are_no_operands(tmp_path: Path) -> None:
    node = make_node("Resize", ["x", "", "scales"], ["y"], name="resize")
    scales = make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 2, 2])
    graph = read(model([node], [value("x", [1, 2, 3, 4])], ["y"], [scales]), tmp_path)
    assert (graph.operators[0].inputs, graph.operators[0].parameters) == (("x",), ("scales",))
    assert graph.tensor["y"].shape == (1, 2, 6, 8)


def test_outputs_nobody_reads_are_tensors_unless_they_are_optional(tmp_path: Path) -> None:
    nodes = [
        make_node("Split", ["x"], ["left", "right"], axis=0, num_outputs=2),
        make_node("MaxPool", ["left"], ["y", "indices"], kernel_shape=[1]),
        make_node("LSTM", ["left", "w", "r"], ["", "hidden", "cell"], hidden_size=2),
    ]
    network = model(nodes, [value("x", [4, 3, 5])], ["y", "hidden"], [weight("w", [1, 8, 5]), weight("r", [1, 8, 2])])
    graph = read(network, tmp_path)
    assert [operator.outputs for operator in graph.operators] == [("left", "right"), ("y",), ("hidden",)]
    assert graph.tensor["right"].role is Role.ACTIVATION


def test_an_operator_onnx_does_not_know_needs_declared_shapes(tmp_path: Path) -> None:
    nodes = [make_node("Twist", ["x"], ["t"], domain="custom"), make_node("Relu", ["t"], ["y"])]
    graph = read(model(nodes, [value("x", [4])], ["y"], declared=[value("t", [2, 6])]), tmp_path)
    assert graph.operators[0].kind == "custom::Twist"
    assert graph.tensor["y"].shape == (2, 6)


@pytest.mark.parametrize(
    ("node", "opset"),
    [
        (make_node("GroupNormalization", ["x", "c", "c"], ["y"], num_groups=2), 21),
        (make_node("MeanVarianceNormalization", ["x"], ["y"]), 13),
        (make_node("GreaterOrEqual", ["x", "x"], ["y"]), 12),
        (make_node("Gelu", ["x"], ["y"]), 20),
        (make_node("Swish", ["x"], ["y"]), 24),
    ],
    ids=lambda parameter: getattr(parameter, "op_type", str(parameter)),
)
def test_operators_that_onnx_defines_by_a_function_have_shapes(
    node: onnx.NodeProto, opset: int, tmp_path: Path
) -> None:
    graph = read(model([node], [value("x", [1, 4, 6])], ["y"], [weight("c", [4])], opset=opset), tmp_path)
    assert graph.tensor["y"].shape == (1, 4, 6)


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    network = model([make_node("Twice", ["x"], ["y"], domain="custom")], [value("x", [4])], ["y"])
    body = [make_node("Relu", ["a"], ["b"]), make_node("Tanh", ["b"], ["c"])]
    network.functions.append(make_function("custom", "Twice", ["a"], ["c"], body, [make_opsetid("", 21)]))
    assert [operator.kind for operator in read(network, tmp_path).operators] == ["Relu", "Tanh"]


def test_a_shape_in_an_external_file_is_read(tmp_path: Path) -> None:
    shape = integers("shape", [2, 6])
    shape.raw_data, shape.data_location = b"", TensorProto.EXTERNAL
    shape.ClearField("int64_data")
    shape.external_data.add(key="location", value="shape.bin")
    (tmp_path / "shape.bin").write_bytes((2).to_bytes(8, "little") + (6).to_bytes(8, "little"))
    nodes = [make_node("Reshape", ["x", "shape"], ["v"]), make_node("Relu", ["v"], ["y"])]
    assert read(model(nodes, [value("x", [12])], ["y"], [shape]), tmp_path).tensor["y"].shape == (2, 6)


def test_weights_may_be_absent_and_larger_than_two_gigabytes(tmp_path: Path) -> None:
    network = model(
        [make_node("MatMul", ["x", "w"], ["y"])], [value("x", [1, 70_000])], ["y"], [weight("w", [70_000, 70_000])]
    )
    (parameter,) = network.graph.initializer
    parameter.data_location = TensorProto.EXTERNAL
    parameter.external_data.add(key="location", value="absent.bin")
    assert read(network, tmp_path).tensor["w"].size_bytes == 4 * 70_000**2


def test_every_number_type_of_onnx_has_bits() -> None:
    without = {TensorProto.UNDEFINED, TensorProto.STRING}
    assert set(BITS) == set(TensorProto.DataType.values()) - without


def test_a_quantised_model_has_the_bytes_its_types_say(tmp_path: Path) -> None:
    nodes = [
        make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
        make_node("DequantizeLinear", ["wq", "wscale"], ["wd"], axis=0),
        make_node("Transpose", ["wd"], ["wt"], perm=[1, 0]),
        make_node("MatMul", ["xd", "wt"], ["y"]),
    ]
    constants = [
        make_tensor("scale", TensorProto.FLOAT, [], [0.5]),
        make_tensor("zero", TensorProto.UINT8, [], [3]),
        weight("wq", [7, 9], TensorProto.INT4),
        weight("wscale", [7]),
    ]
    graph = read(model(nodes, [value("x", [5, 9])], ["y"], constants), tmp_path)
    assert operator_names(graph) == ["xq", "xd", "y"]
    assert graph.operators[-1].inputs == ("xd",)
    assert graph.operators[-1].parameters == ("wq", "wscale")
    sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    assert (sizes["x"], sizes["xq"], sizes["xd"], sizes["wq"]) == (180, 45, 180, 32)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_a_shape_that_was_quantised_follows_from_constants_all_the_same(opset: int, tmp_path: Path) -> None:
    """Quantisers also quantise the arithmetic of shapes."""
    nodes = [
        make_node("QuantizeLinear", ["sizes", "scale", "zero"], ["q"]),
        make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        make_node("Cast", ["d"], ["target"], to=TensorProto.INT64),
        make_node("Reshape", ["x", "target"], ["r"]),
        make_node("Relu", ["r"], ["y"]),
    ]
    constants = [
        make_tensor("sizes", TensorProto.FLOAT, [2], [6.0, 4.0]),
        make_tensor("scale", TensorProto.FLOAT, [], [0.5]),
        make_tensor("zero", TensorProto.INT8, [], [0]),
    ]
    graph = read(model(nodes, [value("x", [3, 8])], ["y"], constants, opset=opset), tmp_path)
    assert graph.tensor["y"].shape == (6, 4)


def test_only_what_json_has_no_word_for_becomes_text() -> None:
    assert writable(float("inf")) == "inf"
    assert writable([float("-inf"), [float("nan")], 1, 2.5, True, None, "x"]) == [
        "-inf",
        ["nan"],
        1,
        2.5,
        True,
        None,
        "x",
    ]
