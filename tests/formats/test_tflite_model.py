"""TFLite models as graphs: kinds, maps, windows, states, and the files that are refused."""

from __future__ import annotations

import random
import resource
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from onchip.api.networks import read_network
from onchip.errors import InputError, NetworkWarning, UsageError
from onchip.formats.networks import read_tflite
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.layers_of import layers_and_left_out
from support.onnx_networks import make_node, model, read, value, weight
from support.tflite_models import (
    TfliteModel,
    TfliteOperator,
    TfliteSubgraph,
    TfliteTensor,
    branching,
    looping,
    network,
    with_variables,
)

VALID = ("Conv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1})
RELU6 = 3


def graph_of(model: TfliteModel, folder: Path) -> Graph:
    return read_tflite(model.write(folder / "model.tflite"))


def tensor(name: str, *shape: int, kind: str = "FLOAT32") -> TfliteTensor:
    return TfliteTensor(name, shape, kind)


def constant(name: str, *shape: int) -> TfliteTensor:
    return TfliteTensor(name, shape, data=np.ones(shape, np.float32))


def numbers(name: str, *values: int) -> TfliteTensor:
    return TfliteTensor(name, [len(values)], "INT32", np.array(values, np.int32))


def relu(source: str, target: str) -> TfliteOperator:
    return TfliteOperator("RELU", [source], [target])


@pytest.mark.parametrize(
    ("kind", "size_bytes"),
    [
        *(("FLOAT32", 20), ("FLOAT16", 10), ("FLOAT64", 40), ("INT8", 5), ("UINT8", 5), ("INT16", 10), ("UINT16", 10)),
        *(("INT32", 20), ("UINT32", 20), ("INT64", 40), ("UINT64", 40), ("BOOL", 5), ("COMPLEX64", 40), ("INT4", 3)),
        *(("COMPLEX128", 80), ("BFLOAT16", 10)),
    ],
)
def test_every_type_has_its_bytes_and_halves_of_a_byte_lie_two_in_one(
    kind: str, size_bytes: int, tmp_path: Path
) -> None:
    model = network([tensor("x", 1, 5, kind=kind), tensor("y", 1, 5, kind=kind)], [relu("x", "y")], ["x"], ["y"])
    graph = graph_of(model, tmp_path)
    assert {each.name: (each.size_bytes, each.role) for each in graph.tensors} == {
        "x": (size_bytes, Role.INPUT),
        "y": (size_bytes, Role.OUTPUT),
    }


def test_names_that_repeat_or_are_empty_are_made_unique_the_same_way_every_time(tmp_path: Path) -> None:
    names = ("x", "a", "a", "", "tensor 3", "dram")
    tensors = [tensor(name, 4) for name in names]
    path = network(tensors, [TfliteOperator("SPLIT", [0], [1, 2, 3, 4, 5])], ["x"], ["a"]).write(tmp_path / "m.tflite")
    graph = read_tflite(path)
    assert list(graph.tensor) == ["x", "a", "a #2", "tensor 3 #3", "tensor 3", "dram #5"]
    assert read_tflite(path) == graph


def test_maps_and_filters_have_their_channels_before_their_pixels(tmp_path: Path) -> None:
    tensors = [tensor("x", 1, 6, 8, 3), constant("w", 5, 2, 4, 3), constant("b", 5), tensor("y", 1, 5, 5, 5)]
    graph = graph_of(network(tensors, [TfliteOperator("CONV_2D", "xwb", "y", VALID)], "x", "y"), tmp_path)
    assert {each.name: each.shape for each in graph.tensors} == {
        "x": (1, 3, 6, 8),
        "w": (5, 3, 2, 4),
        "b": (5,),
        "y": (1, 5, 5, 5),
    }
    (convolution,) = graph.operators
    assert (convolution.kind, convolution.inputs, convolution.parameters) == ("Conv", ("x",), ("w", "b"))
    assert convolution.attributes["kernel_shape"] == [2, 4]


def test_an_activation_inside_an_operator_is_its_attribute(tmp_path: Path) -> None:
    options = ("AddOptions", {"FusedActivationFunction": RELU6})
    tensors = [tensor("x", 4), tensor("y", 4)]
    graph = graph_of(network(tensors, [TfliteOperator("ADD", "xx", "y", options)], "x", "y"), tmp_path)
    assert graph.operators[0].attributes == {"fused_activation": "RELU6"}


def test_a_constant_beside_maps_is_spread_along_their_channels(tmp_path: Path) -> None:
    pool = ("Pool2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 2})
    tensors = [tensor("x", 1, 3, 3, 2), tensor("p", 1, 2, 2, 2), constant("c", 2), tensor("y", 1, 2, 2, 2)]
    operators = [TfliteOperator("MAX_POOL_2D", "x", "p", pool), TfliteOperator("MUL", "pc", "y")]
    graph = graph_of(network(tensors, operators, "x", "y"), tmp_path)
    assert graph.tensor["c"].shape == (1, 2, 1, 1)


def test_without_convolutions_and_pools_axes_stay_where_they_are(tmp_path: Path) -> None:
    model = network([tensor("x", 1, 6, 8, 3), tensor("y", 1, 6, 8, 3)], [relu("x", "y")], ["x"], ["y"])
    assert graph_of(model, tmp_path).tensor["x"].shape == (1, 6, 8, 3)


def test_an_axis_of_maps_is_that_of_their_presented_order(tmp_path: Path) -> None:
    pool = ("Pool2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 2})
    tensors = [tensor("x", 1, 3, 3, 2), tensor("p", 1, 2, 2, 2), tensor("y", 1, 2, 2, 4), tensor("z", 1, 4, 4, 4)]
    tensors.append(TfliteTensor("q", [4, 2], "INT32", np.array([[0, 0], [1, 1], [2, 0], [0, 0]], np.int32)))
    operators = [
        TfliteOperator("MAX_POOL_2D", "x", "p", pool),
        TfliteOperator("CONCATENATION", "pp", "y", ("ConcatenationOptions", {"Axis": -1})),
        TfliteOperator("PAD", "yq", "z"),
    ]
    graph = graph_of(network(tensors, operators, "x", "z"), tmp_path)
    assert graph.operator["y"].attributes["axis"] == 1
    assert graph.operator["z"].attributes["pads"] == [0, 0, 1, 2, 0, 0, 1, 0]
    assert graph.operator["z"].parameters == ()


def test_what_a_kind_does_not_say_keeps_the_kind_and_all_constants_of_the_file(tmp_path: Path) -> None:
    tensors = [tensor("x", 2, 3), numbers("axis", 1), tensor("y", 2, 3)]
    graph = graph_of(network(tensors, [TfliteOperator("CUMSUM", ["x", "axis"], "y")], "x", "y"), tmp_path)
    assert (graph.operators[0].kind, graph.operators[0].parameters) == ("CUMSUM", ("axis",))


def test_views_are_their_base_and_an_output_over_one_is_its_alias(tmp_path: Path) -> None:
    tensors = [tensor("x", 2, 3), tensor("a", 2, 3), numbers("s", 6), tensor("y", 6)]
    operators = [relu("x", "a"), TfliteOperator("RESHAPE", "as", "y")]
    graph = graph_of(network(tensors, operators, "x", "y"), tmp_path)
    assert [each.name for each in graph.operators] == ["a"]
    assert (graph.tensor["a"].role, graph.tensor["a"].aliases) == (Role.OUTPUT, ("y",))


def test_an_output_over_an_input_or_a_constant_is_copied(tmp_path: Path) -> None:
    tensors = [tensor("x", 2, 3), constant("c", 2), tensor("y", 6), numbers("s", 6)]
    graph = graph_of(network(tensors, [TfliteOperator("RESHAPE", "xs", "y")], "x", "yc"), tmp_path)
    assert {(each.kind, each.inputs, each.parameters, each.outputs) for each in graph.operators} == {
        ("Identity", ("x",), (), ("y",)),
        ("Identity", (), ("c",), ("c.output",)),
    }


def test_a_dequantised_constant_stays_as_it_is_stored(tmp_path: Path) -> None:
    half = TfliteTensor("h", [5, 1, 1, 3], "FLOAT16", np.ones((5, 1, 1, 3), np.float16))
    tensors = [tensor("x", 1, 6, 8, 3), half, tensor("w", 5, 1, 1, 3), constant("b", 5), tensor("y", 1, 6, 8, 5)]
    operators = [TfliteOperator("DEQUANTIZE", "h", "w"), TfliteOperator("CONV_2D", "xwb", "y", VALID)]
    graph = graph_of(network(tensors, operators, "x", "y"), tmp_path)
    assert [each.kind for each in graph.operators] == ["Conv"]
    assert (graph.tensor["h"].shape, graph.tensor["h"].size_bytes) == ((5, 3, 1, 1), 30)
    assert "w" not in graph.tensor


def test_a_call_is_its_body_and_a_decided_branch_stands_for_the_choice(tmp_path: Path) -> None:
    yes = TfliteTensor("yes", [], "BOOL", np.array(True))
    main = TfliteSubgraph(
        [tensor("x", 4), yes, tensor("m", 4), tensor("y", 4)],
        [
            TfliteOperator("CALL", ["x"], ["m"], ("CallOptions", {"Subgraph": 1})),
            TfliteOperator("IF", ["yes", "m"], ["y"], ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})),
        ],
        ["x"],
        ["y"],
    )
    bodies = [
        TfliteSubgraph([tensor("x", 4), tensor("z", 4)], [TfliteOperator(kind, ["x"], ["z"])], ["x"], ["z"])
        for kind in ("NEG", "ABS")
    ]
    graph = graph_of(TfliteModel([main, *bodies]), tmp_path)
    assert [each.kind for each in graph.operators] == ["Neg", "Neg"]
    assert graph.operators[1].inputs == graph.operators[0].outputs
    assert [each.role for each in graph.tensors] == [Role.INPUT, Role.ACTIVATION, Role.OUTPUT]


def test_state_is_an_input_and_its_next_value_an_output_and_a_warning_says_so(tmp_path: Path) -> None:
    tensors = [tensor("x", 1, 4), TfliteTensor("s", [1, 4], is_variable=True), tensor("y", 1, 4)]
    model = network(tensors, [TfliteOperator("SVDF", "xs", "y")], "x", "y")
    with pytest.warns(NetworkWarning, match="tensor 's': state between inferences"):
        graph = graph_of(model, tmp_path)
    assert (graph.operators[0].inputs, graph.operators[0].outputs) == (("x", "s"), ("y", "s@next"))
    assert (graph.tensor["s"].role, graph.tensor["s@next"].role) == (Role.INPUT, Role.OUTPUT)


def test_other_shapes_of_inputs_are_carried_through(tmp_path: Path) -> None:
    tensors = [tensor("x", 1, 6, 8, 3), constant("w", 5, 2, 4, 3), constant("b", 5), tensor("y", 1, 5, 5, 5)]
    path = network(tensors, [TfliteOperator("CONV_2D", "xwb", "y", VALID)], "x", "y").write(tmp_path / "m.tflite")
    graph = read_tflite(path, {"x": (2, 9, 9, 3)})
    assert (graph.tensor["x"].shape, graph.tensor["y"].shape) == ((2, 3, 9, 9), (2, 5, 8, 6))
    with pytest.raises(UsageError, match=r"shapes z: no network input has this name"):
        read_tflite(path, {"z": (1,)})


def test_a_transposition_between_a_map_and_the_networks_ends_is_seen_to_move_what_it_moves(tmp_path: Path) -> None:
    window = {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 3}
    last = TfliteTensor("last", [4], "INT32", np.array([0, 2, 3, 1], np.int32))
    first = TfliteTensor("first", [4], "INT32", np.array([0, 3, 1, 2], np.int32))
    tensors = [tensor("x", 1, 3, 5, 6), tensor("m", 1, 5, 6, 3), tensor("p", 1, 4, 4, 3), tensor("y", 1, 3, 4, 4)]
    operators = [
        TfliteOperator("TRANSPOSE", ["x", "last"], "m"),
        TfliteOperator("MAX_POOL_2D", "m", "p", ("Pool2DOptions", window)),
        TfliteOperator("TRANSPOSE", ["p", "first"], "y"),
    ]
    graph = graph_of(network([*tensors, last, first], operators, "x", "y"), tmp_path)
    assert [each.kind for each in graph.operators] == ["Transpose", "MaxPool", "Transpose"]
    assert [graph.operator[name].attributes["perm"] for name in "my"] == [[0, 3, 1, 2], [0, 2, 3, 1]]
    assert [graph.tensor[name].shape for name in "xmpy"] == [(1, 5, 6, 3), (1, 3, 5, 6), (1, 3, 4, 4), (1, 4, 4, 3)]


@pytest.mark.parametrize(("shape", "kind"), [((1, 4), "MUL"), ((1, 1, 1, 4), "Mul")])
def test_beside_maps_an_operand_of_fewer_axes_keeps_the_operators_kind(
    shape: tuple[int, ...], kind: str, tmp_path: Path
) -> None:
    pool = ("Pool2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 3})
    keeps = ("ReducerOptions", {"KeepDims": len(shape) == 4})
    tensors = [tensor("x", 1, 4, 4, 4), tensor("p", 1, 4, 4, 4), numbers("axes", 1, 2)]
    tensors += [tensor("m", *shape), tensor("y", 1, 4, 4, 4)]
    operators = [
        TfliteOperator("MAX_POOL_2D", "x", "p", pool),
        TfliteOperator("MEAN", ["p", "axes"], "m", keeps),
        TfliteOperator("MUL", "pm", "y"),
    ]
    graph = graph_of(network(tensors, operators, "x", "y"), tmp_path)
    assert graph.operator["y"].kind == kind


def test_a_turned_constant_of_a_product_is_presented_as_the_product_reads_it(tmp_path: Path) -> None:
    tensors = [tensor("x", 2, 3, 4), constant("c", 2, 5, 4), tensor("y", 2, 3, 5)]
    operators = [TfliteOperator("BATCH_MATMUL", "xc", "y", ("BatchMatMulOptions", {"AdjY": True}))]
    graph = graph_of(network(tensors, operators, "x", "y"), tmp_path)
    assert graph.operators[0].kind == "MatMul"
    assert graph.tensor["c"].shape == (2, 4, 5)


MODELS = sorted((Path(__file__).parents[1] / "data" / "tflite").glob("*.tflite"))
MUTATIONS = 600
GREATEST_KIB = 2 * 2**20


def refused(content: bytes, folder: Path) -> str:
    """Return the one line that a reader gets, without the file's name."""
    path = folder / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_tflite(path)
    line = str(caught.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    assert caught.value.expected
    return line.removeprefix(str(path)).removeprefix(":").strip()


def one(kind: str, tensors: list[TfliteTensor], inputs: str = "x", outputs: str = "y") -> TfliteModel:
    return network(tensors, [TfliteOperator(kind, inputs, outputs)], ["x"], ["y"])


@pytest.mark.parametrize("content", [b"", b"TFL3", b"\x1c\0\0\0TFLX" + bytes(64), b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_what_is_no_tflite_file_is_refused(content: bytes, tmp_path: Path) -> None:
    assert refused(content, tmp_path).startswith("is no TFLite model")


def test_subgraphs_that_call_each_other_are_refused(tmp_path: Path) -> None:
    call = TfliteOperator("CALL", ["x"], ["y"], ("CallOptions", {"Subgraph": 1}))
    again = TfliteSubgraph([tensor("x", 4), tensor("y", 4)], [call], ["x"], ["y"])
    assert "call each other" in refused(TfliteModel([again, again]).content(), tmp_path)


def test_a_tensor_that_is_read_before_it_is_written_is_refused(tmp_path: Path) -> None:
    operators = [TfliteOperator("RELU", "a", "y"), TfliteOperator("NEG", "x", "a")]
    tensors = [tensor("x", 4), tensor("a", 4), tensor("y", 4)]
    line = refused(network(tensors, operators, "x", "y").content(), tmp_path)
    assert line.startswith("operator 'y': tensor 'a' is read before it is written")


def test_state_of_two_operators_is_refused(tmp_path: Path) -> None:
    tensors = [tensor("x", 4), TfliteTensor("s", [4], is_variable=True), tensor("a", 4), tensor("y", 4)]
    operators = [TfliteOperator("SVDF", "xs", "a"), TfliteOperator("SVDF", "as", "y")]
    line = refused(network(tensors, operators, "x", "y").content(), tmp_path)
    assert line.startswith("tensor 's': both 'a' and 'y' keep their state in it")


def test_a_symbolic_dimension_cannot_be_bound(tmp_path: Path) -> None:
    from onchip.answer.document import Reading

    path = one("RELU", [tensor("x", 4), tensor("y", 4)]).write(tmp_path / "model.tflite")
    with pytest.raises(InputError, match="leaves shapes open alone"):
        read_network(str(path), Reading(dims={"batch": 1}))


def small_models() -> list[bytes]:
    controlled = (_calls(), branching(), looping(3), looping(None), looping(10**6), with_variables())
    return [path.read_bytes() for path in MODELS] + [model.content() for model in controlled]


def _calls() -> TfliteModel:
    yes = TfliteTensor("yes", [], "BOOL", np.array(True))
    options = ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1})
    calls = [
        TfliteOperator("CALL", ["x"], ["m"], ("CallOptions", {"Subgraph": 1})),
        TfliteOperator("IF", ["yes", "m"], ["y"], options),
    ]
    main = TfliteSubgraph([tensor("x", 4), yes, tensor("m", 4), tensor("y", 4)], calls, ["x"], ["y"])
    relu = TfliteOperator("RELU", ["x"], ["z"])
    return TfliteModel([main, TfliteSubgraph([tensor("x", 4), tensor("z", 4)], [relu], ["x"], ["z"])])


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return the file truncated, or with some bytes changed: half of them within the tables."""
    if chance.random() < 0.2:
        return content[: chance.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(chance.choice((1, 2, 5, 20))):
        near = min(len(content), 3000)
        place = chance.choice((chance.randrange(len(content)), chance.randrange(near), -1 - chance.randrange(near)))
        changed[place] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    return bytes(changed)


def refusal_of(path: Path) -> str | None:
    """Return why a file is refused, or None if it is read; any error except InputError fails the test."""
    try:
        layers_and_left_out(read_network(str(path)))
    except InputError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
def test_whatever_becomes_of_a_file_it_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    models, path = small_models(), tmp_path / "model.tflite"
    refusals = 0
    for seed in range(MUTATIONS):
        chance = random.Random(seed)
        path.write_bytes(mutated(chance.choice(models), chance))
        line = refusal_of(path)
        refusals += line is not None
        assert line is None or (line.startswith(str(path)) and "\n" not in line), seed
    assert MUTATIONS / 4 < refusals < MUTATIONS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < GREATEST_KIB


@pytest.mark.slow
def test_many_tables_that_share_one_long_list_are_refused_at_once(tmp_path: Path) -> None:
    names = [f"t{at}" for at in range(3000)]
    operators = [TfliteOperator("ADD_N", [0] * 3000, [name]) for name in names[1:]]
    model = network([tensor(name, 1) for name in names], operators, ["t0"], ["t1"])
    assert "list more than a network has" in refused(model.content(), tmp_path)


SIZES = ((7, 7), (8, 5), (12, 9))
STEPS = ((1, 1), (2, 2), (2, 1), (3, 2))
CASES = list(product(SIZES, ((1, 1), (3, 3), (2, 5)), STEPS, ("SAME", "VALID")))
SAME, WITHOUT_PADDING = "SAME", "VALID"


def pixels(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    """Return the output size along an axis in TFLite's reference (kernels/padding.h, ComputeOutSize)."""
    reach = (kernel - 1) * dilation + 1
    return (size + stride - 1) // stride if padding == SAME else (size + stride - reach) // stride


def alike(tflite_graph: Graph, onnx_graph: Graph) -> None:
    """Check that the layers, and the sizes and shapes of all computed tensors, are equal."""
    ours, theirs = (list(layers_and_left_out(graph)[0].values()) for graph in (tflite_graph, onnx_graph))
    assert ours
    assert ours == theirs
    sizes = [
        {each.name: (each.size_bytes, each.shape) for each in graph.tensors} for graph in (tflite_graph, onnx_graph)
    ]
    assert sizes[0] == sizes[1]


def options(padding: str, strides: tuple[int, int], dilations: tuple[int, int]) -> dict[str, int]:
    stated = {"Padding": int(padding == WITHOUT_PADDING), "StrideH": strides[0], "StrideW": strides[1]}
    return {**stated, "DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}


def auto_pad(padding: str) -> str:
    return "SAME_UPPER" if padding == SAME else WITHOUT_PADDING


@pytest.mark.parametrize(("size", "kernel", "strides", "padding"), CASES)
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolutions(
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: str,
    dilation: int,
    tmp_path: Path,
) -> None:
    out = [pixels(*each, dilation, padding) for each in zip(size, kernel, strides, strict=True)]
    if min(out) < 1:
        pytest.skip("its kernel is larger than its input")
    stated = ("Conv2DOptions", options(padding, strides, (dilation, dilation)))
    tensors = [TfliteTensor("x", (2, *size, 6)), constant("w", 4, *kernel, 3), constant("b", 4)]
    tensors.append(TfliteTensor("y", (2, *out, 4)))
    path = network(tensors, [TfliteOperator("CONV_2D", "xwb", "y", stated)], "x", "y").write(tmp_path / "m.tflite")
    node = make_node(
        "Conv", ["x", "w", "b"], ["y"],
        strides=strides, dilations=(dilation, dilation), auto_pad=auto_pad(padding), group=2,
    )  # fmt: skip
    parameters = [weight("w", (4, 3, *kernel)), weight("b", (4,))]
    alike(read_tflite(path), read(model([node], [value("x", (2, 6, *size))], ["y"], parameters), tmp_path))


@pytest.mark.parametrize(("size", "kernel", "strides", "padding"), CASES)
def test_depthwise_convolutions(
    size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], padding: str, tmp_path: Path
) -> None:
    out = [pixels(*each, 1, padding) for each in zip(size, kernel, strides, strict=True)]
    stated = ("DepthwiseConv2DOptions", {**options(padding, strides, (1, 1)), "DepthMultiplier": 2})
    tensors = [TfliteTensor("x", (1, *size, 3)), constant("w", 1, *kernel, 6), constant("b", 6)]
    tensors.append(TfliteTensor("y", (1, *out, 6)))
    operators = [TfliteOperator("DEPTHWISE_CONV_2D", "xwb", "y", stated)]
    path = network(tensors, operators, "x", "y").write(tmp_path / "m.tflite")
    node = make_node("Conv", ["x", "w", "b"], ["y"], strides=strides, auto_pad=auto_pad(padding), group=3)
    parameters = [weight("w", (6, 1, *kernel)), weight("b", (6,))]
    alike(read_tflite(path), read(model([node], [value("x", (1, 3, *size))], ["y"], parameters), tmp_path))


@pytest.mark.parametrize(("size", "kernel", "strides", "padding"), CASES)
@pytest.mark.parametrize("kind", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_pools(
    kind: str, size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], padding: str, tmp_path: Path
) -> None:
    out = [pixels(*each, 1, padding) for each in zip(size, kernel, strides, strict=True)]
    stated = {"Padding": int(padding == WITHOUT_PADDING), "StrideH": strides[0], "StrideW": strides[1]}
    stated |= {"FilterHeight": kernel[0], "FilterWidth": kernel[1]}
    tensors = [TfliteTensor("x", (2, *size, 6)), TfliteTensor("y", (2, *out, 6))]
    operators = [TfliteOperator(kind, "x", "y", ("Pool2DOptions", stated))]
    path = network(tensors, operators, "x", "y").write(tmp_path / "m.tflite")
    named = "MaxPool" if kind == "MAX_POOL_2D" else "AveragePool"
    node = make_node(named, ["x"], ["y"], kernel_shape=kernel, strides=strides, auto_pad=auto_pad(padding))
    alike(read_tflite(path), read(model([node], [value("x", (2, 6, *size))], ["y"]), tmp_path))


@pytest.mark.parametrize(("size", "kernel", "strides", "padding"), CASES)
def test_transposed_convolutions_undo_the_sizes_of_a_convolution(
    size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], padding: str, tmp_path: Path
) -> None:
    low = [pixels(*each, 1, padding) for each in zip(size, kernel, strides, strict=True)]
    stated = {"Padding": int(padding == WITHOUT_PADDING), "StrideH": strides[0], "StrideW": strides[1]}
    shape = TfliteTensor("s", [4], "INT32", np.array([1, *size, 4], np.int32))
    tensors = [shape, constant("w", 4, *kernel, 6), TfliteTensor("x", (1, *low, 6)), TfliteTensor("y", (1, *size, 4))]
    operators = [TfliteOperator("TRANSPOSE_CONV", "swx", "y", ("TransposeConvOptions", stated))]
    path = network(tensors, operators, "x", "y").write(tmp_path / "m.tflite")
    graph = read_tflite(path)
    pads = graph.operators[0].attributes["pads"]
    more = graph.operators[0].attributes["output_padding"]
    node = make_node(
        "ConvTranspose", ["x", "w"], ["y"], strides=strides, kernel_shape=kernel, pads=pads, output_padding=more
    )
    alike(graph, read(model([node], [value("x", (1, 6, *low))], ["y"], [weight("w", (6, 4, *kernel))]), tmp_path))


def test_a_fully_connected_layer_is_a_product_with_a_row_of_weights_for_each_unit(tmp_path: Path) -> None:
    tensors = [TfliteTensor("x", (2, 12)), constant("w", 5, 12), constant("b", 5), TfliteTensor("y", (2, 5))]
    path = network(tensors, [TfliteOperator("FULLY_CONNECTED", "xwb", "y")], "x", "y").write(tmp_path / "m.tflite")
    node = make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    alike(
        read_tflite(path),
        read(model([node], [value("x", (2, 12))], ["y"], [weight("w", (5, 12)), weight("b", (5,))]), tmp_path),
    )
