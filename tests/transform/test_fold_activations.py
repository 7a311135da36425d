from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.transform.rewrite.activations import ACTIVATIONS, fuse

SHAPE = (1, 8, 4, 4)
BATCH_NORM = ("s", "b", "m", "v")


def activation(name: str) -> Tensor:
    return Tensor.of_shape(name, SHAPE, 16, Role.ACTIVATION)


def parameter(name: str, *shape: int, bits: int = 32) -> Tensor:
    return Tensor.of_shape(name, shape, bits, Role.PARAMETER)


PARAMETERS = {
    "w": parameter("w", 8, 8, 3, 3, bits=16),
    "bias": parameter("bias", 8),
    "slope": parameter("slope", 8),
    "low": parameter("low"),
    "high": parameter("high"),
    **{name: parameter(name, 8) for name in BATCH_NORM},
}


def operator(
    kind: str, inputs: str, outputs: str, parameters: tuple[str, ...] = (), **attributes: AttributeValue
) -> Operator:
    """Return an operator with the name of its first output."""
    results = tuple(outputs.split())
    return Operator(f"{results[0]}_node", kind, tuple(inputs.split()), results, parameters, attributes)


def network(*operators: Operator, outputs: str) -> Graph:
    """Return a graph over the input `x`, with every tensor that an operator names."""
    written = [activation(name) for one in operators for name in one.outputs]
    tensors = [replace(tensor, role=Role.OUTPUT) if tensor.name in outputs.split() else tensor for tensor in written]
    read = dict.fromkeys(name for one in operators for name in one.parameters)
    source = replace(activation("x"), role=Role.INPUT)
    return Graph("network", (source, *tensors, *(PARAMETERS[name] for name in read)), operators)


def conv(inputs: str, outputs: str, *parameters: str) -> Operator:
    return operator("Conv", inputs, outputs, parameters or ("w",), group=1)


def names(graph: Graph) -> list[str]:
    return [one.name for one in graph.operators]


@pytest.mark.parametrize("kind", sorted(ACTIVATIONS))
def test_an_activation_fuses_into_its_producer(kind: str) -> None:
    graph = fuse(network(operator("Add", "x x", "a"), operator(kind, "a", "y"), outputs="y"))
    (fused,) = graph.operators
    assert (fused.name, fused.kind, fused.inputs, fused.outputs) == ("a_node", "Add", ("x", "x"), ("y",))
    assert fused.members == ("a_node", "y_node")
    assert [tensor.name for tensor in graph.tensors] == ["x", "y"]
    assert graph.tensor["y"].role is Role.OUTPUT


@pytest.mark.parametrize("kind", ["Softmax", "Add", "MaxPool", "LayerNormalization"])
def test_other_operators_do_not_fuse(kind: str) -> None:
    graph = network(conv("x", "c"), operator(kind, "c", "y"), outputs="y")
    assert fuse(graph) == graph


def test_an_activation_of_a_network_input_stays() -> None:
    graph = network(operator("Relu", "x", "y"), outputs="y")
    assert fuse(graph) == graph


def test_an_activation_of_a_tensor_with_another_reader_stays() -> None:
    graph = network(conv("x", "c"), operator("Relu", "c", "r"), operator("Add", "c r", "y"), outputs="y")
    assert fuse(graph) == graph


def test_an_activation_of_a_network_output_stays() -> None:
    graph = network(conv("x", "c"), operator("Relu", "c", "y"), outputs="c y")
    assert fuse(graph) == graph


def test_an_activation_with_another_input_that_is_no_parameter_stays() -> None:
    graph = network(conv("x", "c"), operator("Tanh", "x", "t"), operator("PRelu", "c t", "y"), outputs="y")
    assert fuse(graph) == graph


def test_a_slope_computed_from_the_same_producer_makes_no_cycle() -> None:
    split = operator("Split", "x", "left right")
    graph = network(split, operator("Exp", "right", "slope"), operator("PRelu", "left slope", "y"), outputs="y")
    assert fuse(graph) == graph


def test_the_activation_s_parameters_join_the_operator_s() -> None:
    clip = operator("Clip", "p", "y", ("low", "high"))
    graph = fuse(network(conv("x", "c", "w", "bias"), operator("PRelu", "c", "p", ("slope",)), clip, outputs="y"))
    (fused,) = graph.operators
    assert fused.parameters == ("w", "bias", "slope", "low", "high")
    assert fused.members == ("c_node", "p_node", "y_node")
    assert fused.attributes == {"group": 1}


def test_an_operator_of_several_outputs_keeps_the_others() -> None:
    split = operator("Split", "x", "left right")
    graph = fuse(network(split, operator("Relu", "right", "r"), operator("Add", "left r", "y"), outputs="y"))
    assert [one.outputs for one in graph.operators] == [("left", "r"), ("y",)]


def test_both_outputs_may_take_their_activation() -> None:
    split = operator("Split", "x", "left right")
    graph = fuse(network(split, operator("Relu", "right", "r"), operator("Tanh", "left", "t"), outputs="r t"))
    (fused,) = graph.operators
    assert (fused.outputs, fused.members) == (("t", "r"), ("left_node", "r_node", "t_node"))


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_batch_norm_leaves_the_weight_and_one_bias(kind: str) -> None:
    convolution = operator(kind, "x", "c", ("w",))
    graph = fuse(network(convolution, operator("BatchNormalization", "c", "y", BATCH_NORM), outputs="y"))
    (fused,) = graph.operators
    assert fused.parameters == ("w", "b")
    assert fused.members == ("c_node", "y_node")
    assert graph.tensor["b"] == parameter("b", 8, bits=16)
    assert {tensor.name for tensor in graph.tensors} == {"x", "y", "w", "b"}


def test_a_bias_the_convolution_has_stays_the_only_one() -> None:
    norm = operator("BatchNormalization", "c", "y", BATCH_NORM)
    graph = fuse(network(conv("x", "c", "w", "bias"), norm, outputs="y"))
    assert graph.operators[0].parameters == ("w", "bias")
    assert graph.tensor["bias"] == PARAMETERS["bias"]
    assert {tensor.name for tensor in graph.tensors} == {"x", "y", "w", "bias"}


def test_statistics_that_others_read_stay() -> None:
    norm = operator("BatchNormalization", "c", "n", BATCH_NORM)
    graph = fuse(network(conv("x", "c"), norm, operator("Add", "n", "y", ("b",)), outputs="y"))
    assert graph.operators[0].parameters == ("w", "n_node.bias")
    assert graph.operators[1].parameters == ("b",)
    assert graph.tensor["b"] == PARAMETERS["b"]
    assert "m" not in graph.tensor


def test_one_tensor_may_be_all_of_batch_norm_s_parameters() -> None:
    norm = operator("BatchNormalization", "c", "y", ("s", "s", "s", "s"))
    assert fuse(network(conv("x", "c"), norm, outputs="y")).operators[0].parameters == ("w", "s")


def test_a_graph_that_lists_no_parameters_gets_none() -> None:
    norm = operator("BatchNormalization", "c", "y")
    (fused,) = fuse(network(operator("Conv", "x", "c"), norm, outputs="y")).operators
    assert (fused.members, fused.parameters) == (("c_node", "y_node"), ())


def test_convolution_batch_norm_and_activation_are_one() -> None:
    norm = operator("BatchNormalization", "c", "n", BATCH_NORM)
    graph = fuse(network(conv("x", "c"), norm, operator("Relu", "n", "y"), outputs="y"))
    (fused,) = graph.operators
    assert (fused.name, fused.outputs, fused.members) == ("c_node", ("y",), ("c_node", "n_node", "y_node"))


def test_batch_norm_after_an_activation_stays() -> None:
    """The scale of the norm does not commute with the activation."""
    norm = operator("BatchNormalization", "r", "y", BATCH_NORM)
    graph = fuse(network(conv("x", "c"), operator("Relu", "c", "r"), norm, outputs="y"))
    assert names(graph) == ["c_node", "y_node"]
    assert fuse(graph) == graph


def test_batch_norm_after_anything_but_a_convolution_stays() -> None:
    norm = operator("BatchNormalization", "a", "y", BATCH_NORM)
    graph = network(operator("Add", "x x", "a"), norm, outputs="y")
    assert fuse(graph) == graph


@pytest.mark.parametrize(
    ("convolution", "norm", "outputs"),
    [
        (conv("x", "c"), operator("BatchNormalization", "c", "y", BATCH_NORM), "c y"),
        (conv("x x", "c"), operator("BatchNormalization", "c", "y", BATCH_NORM), "y"),
        (conv("x", "c"), operator("BatchNormalization", "c x", "y", BATCH_NORM[1:]), "y"),
        (conv("x", "c"), operator("BatchNormalization", "c", "y", BATCH_NORM, training_mode=1), "y"),
        (conv("x", "c"), operator("BatchNormalization", "c", "y mean", BATCH_NORM), "y"),
    ],
    ids=["network output", "computed weight", "computed scale", "training", "statistics computed"],
)
def test_batch_norm_that_does_not_fold_stays(convolution: Operator, norm: Operator, outputs: str) -> None:
    graph = network(convolution, norm, outputs=outputs)
    assert fuse(graph) == graph


def test_batch_norm_of_a_tensor_with_another_reader_stays() -> None:
    norm = operator("BatchNormalization", "c", "n", BATCH_NORM)
    graph = network(conv("x", "c"), norm, operator("Add", "c n", "y"), outputs="y")
    assert fuse(graph) == graph


def test_members_of_members_are_flattened() -> None:
    first = replace(operator("Add", "x x", "a"), members=("a_node", "inner"))
    last = replace(operator("Relu", "a", "y"), members=("y_node", "outer"))
    (fused,) = fuse(network(first, last, outputs="y")).operators
    assert fused.members == ("a_node", "inner", "y_node", "outer")


def test_a_fused_operator_stands_where_its_first_node_stood() -> None:
    graph = network(
        conv("x", "c"),
        operator("MaxPool", "x", "p"),
        operator("Relu", "c", "r"),
        operator("Concat", "p r", "y"),
        outputs="y",
    )
    assert names(fuse(graph)) == ["c_node", "p_node", "y_node"]


def test_names_of_network_outputs_are_kept() -> None:
    graph = network(conv("x", "c"), operator("Relu", "c", "y"), outputs="y")
    named = replace(graph, tensors=tuple(replace(t, aliases=("z",)) if t.name == "y" else t for t in graph.tensors))
    assert fuse(named).tensor["y"].aliases == ("z",)


def test_sizes_given_in_bytes_are_enough() -> None:
    norm = operator("BatchNormalization", "c", "y", BATCH_NORM)
    graph = network(conv("x", "c"), norm, outputs="y")
    in_bytes = replace(graph, tensors=tuple(replace(t, shape=None, bits=None) for t in graph.tensors))
    fused = fuse(in_bytes)
    assert fused.operators[0].parameters == ("w", "b")
    assert fused.tensor["b"].size_bytes == 32


def test_fusing_twice_is_fusing_once() -> None:
    norm = operator("BatchNormalization", "c", "n", BATCH_NORM)
    graph = network(conv("x", "c"), norm, operator("Relu", "n", "r"), operator("Add", "r x", "y"), outputs="y")
    assert fuse(fuse(graph)) == fuse(graph)


def test_a_name_that_exists_is_not_taken_again() -> None:
    norm = operator("BatchNormalization", "c", "n", BATCH_NORM)
    last = replace(operator("Add", "n", "y", ("b",)), outputs=("n_node.bias",))
    graph = fuse(network(conv("x", "c"), norm, last, outputs="n_node.bias"))
    assert graph.operators[0].parameters == ("w", "n_node.bias_")


def product_and_addition(bias: tuple[int, ...], *, is_first: bool = False, shape: tuple[int, ...] = (2, 5, 3)) -> Graph:
    """Return a product with weights, then an addition of a parameter, or of another input, then an activation."""
    sizes = {"x": (2, 5, 4), "w": (4, 3), "m": (2, 5, 3), "b": bias, "a": shape, "y": shape}
    roles = {"x": Role.INPUT, "w": Role.PARAMETER, "b": Role.PARAMETER, "y": Role.OUTPUT}
    operators = (
        Operator("product", "MatMul", ("x",), ("m",), ("w",)),
        Operator("bias", "Sub" if is_first else "Add", ("m",), ("a",), ("b",)),
        Operator("relu", "Relu", ("a",), ("y",)),
    )
    tensors = [Tensor.of_shape(name, size, 8, roles.get(name, Role.ACTIVATION)) for name, size in sizes.items()]
    return Graph("rows", tuple(tensors), operators)


@pytest.mark.parametrize("bias", [(3,), (1, 3), (1, 1, 3)])
def test_a_bias_and_an_activation_join_a_product(bias: tuple[int, ...]) -> None:
    (operator,) = fuse(product_and_addition(bias)).operators
    assert (operator.kind, operator.members) == ("MatMul", ("product", "bias", "relu"))
    assert (operator.parameters, operator.outputs) == (("w", "b"), ("y",))


def test_what_is_no_bias_of_a_product_stays() -> None:
    for graph in (product_and_addition((5, 3)), product_and_addition((1,)), product_and_addition((3,), is_first=True)):
        first, *_ = fuse(graph).operators
        assert first.members == ()
