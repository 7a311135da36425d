"""Shapes by rule: one-node models, empty tensors and SAME padding, as onnxruntime has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.defs import get_all_schemas_with_history
from onnx.helper import make_node, make_opsetid, tensor_dtype_to_np_dtype

from onchip.answer.document import Reading
from onchip.api.networks import read_network
from onchip.errors import GraphError
from onchip.formats.onnx.control_flow import unfold
from onchip.formats.onnx.file import load_model
from onchip.formats.onnx.runtime_kinds import RUNTIME_DOMAIN
from onchip.formats.onnx.specification import einsum_shape
from onchip.ir.window import windows_of
from support.diamond import Program
from support.one_node_models import NEWEST, RULES, OneNode, one_node
from support.onnx_networks import model, read, value
from support.onnx_runs import AS_IT_IS, run_model, saved
from support.series import series
from support.small_schedules import schedule_check_and_run

NO_SHAPES_TO_COMPARE = frozenset(
    # control flow, which has separate tests
    {"If", "Loop", "Scan", "SequenceMap"}
    # sequences, optional values, strings, files
    | {"ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceConstruct"}
    | {"SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence", "RegexFullMatch"}
    | {"StringConcat", "StringNormalizer", "StringSplit", "ImageDecoder"}
)
BY_VALUES = frozenset({"NonZero", "NonMaxSuppression", "Unique"})
"""Operators whose shape depends on values that no file states: the reader has the largest."""
REFUSED = frozenset({"ArrayFeatureExtractor"})
"""Operators whose shape ONNX's inference misses in some cases, and no rule gives."""
RULED = (
    *("AveragePool", "Compress", "Conv", "ConvTranspose", "Dropout", "Einsum", "LpPool", "MaxPool", "MaxUnpool"),
    *("Pad", "Resize", "Slice", "com.microsoft::NhwcMaxPool", "com.microsoft::QLinearAveragePool"),
)
"""Operators with many attributes that change the shape."""


@pytest.mark.slow
def test_shapes_are_those_that_onnxruntime_computes(tmp_path: Path) -> None:
    """Kinds whose shape follows from rules of the reader are drawn, with many attributes and opsets."""
    assert_alike([*sorted(RULES), *RULED * 10], tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_shapes_are_those_of_the_tests_of_onnx(tmp_path: Path) -> None:
    """ONNX has tests of nodes, with values, for all kinds that it defines except those that are drawn."""
    compared = set()
    for case in collect_testcases(None):
        assert case.model is not None
        assert case.data_sets is not None
        node, *others = case.model.graph.node
        if not others and not node.domain and node.op_type not in RULES.keys() | NO_SHAPES_TO_COMPARE:
            assert_reader_agrees_with(case.model, *case.data_sets[0], tmp_path)
            compared.add(node.op_type)
    kinds = {one.name for one in get_all_schemas_with_history() if not one.domain and one.since_version <= NEWEST}
    assert kinds - RULES.keys() - compared == NO_SHAPES_TO_COMPARE


def assert_reader_agrees_with(
    network: onnx.ModelProto, given: Sequence[object], results: Sequence[object], folder: Path
) -> None:
    """Compare the shapes that the reader infers with the outputs; scalars and a few integers are constants."""
    path, written = folder / "one.onnx", [output.name for output in network.graph.output]
    arrays = dict(zip((one.name for one in network.graph.input), map(array_of, given), strict=False))
    stated = {name for name, one in arrays.items() if not one.ndim or (one.dtype.kind in "iub" and one.size <= 16)}
    network.graph.initializer.extend(numpy_helper.from_array(arrays[name], name) for name in stated)
    for at in reversed(range(len(network.graph.input))):
        if network.graph.input[at].name in stated:
            del network.graph.input[at]
    for output in network.graph.output:
        output.ClearField("type")
    path.write_bytes(network.SerializeToString())
    assert_types(path, written, list(map(array_of, results)), network.graph.name, network.graph.node[0].op_type)


def array_of(value: object) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def assert_alike(kinds: list[str], folder: Path) -> int:
    """Compare a model of each kind with the runtime (new models if repeated); return how many onnxruntime ran."""
    ran = 0
    times: dict[str, int] = {}
    for kind in kinds:
        times[kind] = seed = times.get(kind, -1) + 1
        node = one_node(kind, Random(f"{kind} {seed}"))
        results = run(node)
        if results is not None:
            ran += 1
            assert_reader_agrees(node, results, folder, f"{kind}, seed {seed}, opset {node.opset}: {node.attributes}")
    return ran


def run(node: OneNode) -> list[np.ndarray] | None:
    """Return the outputs of onnxruntime, or None if it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(
            node.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        results: list[np.ndarray] = session.run(None, node.fed)
    except Exception:  # onnxruntime raises several types
        return None
    return results


def assert_reader_agrees(node: OneNode, results: list[np.ndarray], folder: Path, what: str) -> None:
    path = folder / "one.onnx"
    path.write_bytes(node.model().SerializeToString())
    assert_types(path, node.written, results, what, node.kind)


def assert_types(path: Path, written: list[str], results: list[np.ndarray], what: str, kind: str) -> None:
    types = unfold(load_model(path)).types
    for name, result in zip(written, results, strict=True):
        if name in types.unknown:
            assert kind in REFUSED, f"{what}: {types.unknown[name]}"
            continue
        shape, element_type = types.shape_and_element_type(name)
        assert tensor_dtype_to_np_dtype(element_type) == result.dtype, what
        if name in types.bounded:
            assert kind in BY_VALUES, what
            assert len(shape) == result.ndim, what
            assert all(most >= size for most, size in zip(shape, result.shape, strict=True)), what
        else:
            assert shape == result.shape, what


@pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
def test_a_declared_shape_counts_only_with_as_many_elements(tmp_path: Path) -> None:
    def network(*declared: int) -> onnx.ModelProto:
        node = make_node("Reshape", ["x", "target"], ["y"])
        return model([node], [value("x", [2, 6]), value("target", [2], TensorProto.INT64)], [value("y", [*declared])])

    assert read(network(3, 4), tmp_path).tensor["y"].shape == (3, 4)
    with pytest.raises(GraphError, match="is unknown"):
        read(network(5, 5), tmp_path)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("...i,ij->...j", [(7, 2, 3), (3, 4)], (7, 2, 4)),
        ("b...i,...i->b...", [(2, 5, 1, 3), (4, 3)], (2, 5, 4)),
        ("ij, jk", [(2, 3), (3, 4)], (2, 4)),
        ("ba", [(2, 3)], (3, 2)),
        ("ii->i", [(3, 3)], (3,)),
        ("i...->...", [(3, 2, 5)], (2, 5)),
        ("ij,ij->", [(1, 4), (3, 1)], ()),
    ],
)
def test_einsum_broadcasts_letters_and_ellipses(
    equation: str, shapes: list[tuple[int, ...]], expected: tuple[int, ...]
) -> None:
    assert einsum_shape(equation, shapes) == expected


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij->bi", "bij,bkj->bil", "bij,b...k->bi"])
def test_einsum_is_refused_if_its_operands_do_not_fit(equation: str, tmp_path: Path) -> None:
    node = make_node("Einsum", ["a", "b"], ["y"], equation=equation)
    with pytest.raises(GraphError, match="node 'y'"):
        read(model([node], [value("a", [2, 4, 5]), value("b", [3, 5, 6])], ["y"]), tmp_path)


ROWS, COLUMNS = 4, 6


@dataclass
class Drawn:
    """A network that grows: every tensor in `names` has four rows, and six columns or none."""

    random: Random
    names: list[str] = field(default_factory=lambda: ["x", "none"])
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def pick(self) -> str:
        return self.random.choice(self.names)

    def add(self, kind: str, operands: list[str], outputs: int = 1, **attributes: Any) -> list[str]:  # noqa: ANN401
        made = [f"t{len(self.nodes)}.{at}" for at in range(outputs)]
        self.nodes.append(make_node(kind, operands, made, **attributes))
        return made

    def constant(self, array: object, dtype: type = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(array, dtype), name))
        return name


def split_and_joined(drawn: Drawn) -> None:
    cut = drawn.random.choice((0, 2, COLUMNS))
    whole = drawn.add("Concat", [drawn.pick(), "x"], axis=1)
    wide = drawn.add("Slice", [*whole, drawn.constant([0]), drawn.constant([COLUMNS]), drawn.constant([1])])
    parts = drawn.add("Split", [*wide, drawn.constant([cut, COLUMNS - cut])], 2, axis=1)
    drawn.names += drawn.add("Concat", parts, axis=1)


def sliced(drawn: Drawn) -> None:
    start, step = drawn.random.choice(((COLUMNS, 1), (0, 1), (-1, -1)))
    end = -(2**62) if step < 0 else 2**62
    bounds = [drawn.constant([number]) for number in (start, end, 1, step)]
    drawn.names += drawn.add("Slice", [drawn.pick(), *bounds])


def elementwise(drawn: Drawn) -> None:
    source = drawn.pick()
    drawn.names += drawn.add("Mul", [source, *drawn.add("Sigmoid", [source])])


def summed(drawn: Drawn) -> None:
    """Add a sum over no elements, which is zero."""
    sums = drawn.add("ReduceSum", [drawn.pick(), drawn.constant([1])], keepdims=1)
    drawn.names += drawn.add("Add", [*sums, "x"])


def product(drawn: Drawn) -> None:
    """Add a product over no elements, which is zero; its third operand stays."""
    source = drawn.pick()
    squared = drawn.add("Gemm", [source, source, *drawn.add("MatMul", ["x", "tall"])], transB=1)
    drawn.names += drawn.add("MatMul", [*squared, "x"])


def scattered(drawn: Drawn) -> None:
    indices = drawn.constant(np.zeros((0, 1)))
    updates = drawn.constant(np.zeros((0, COLUMNS)), np.float32)
    drawn.names += drawn.add("ScatterND", ["x", indices, updates])


def viewed(drawn: Drawn) -> None:
    flat = drawn.add("Unsqueeze", [drawn.pick(), drawn.constant([0])])
    drawn.names += drawn.add("Squeeze", [*drawn.add("Relu", flat), drawn.constant([0])])


def padded(drawn: Drawn) -> None:
    nothing = drawn.add("Slice", [drawn.pick(), drawn.constant([0]), drawn.constant([0]), drawn.constant([1])])
    wide = drawn.add("Pad", [*nothing, drawn.constant([0, COLUMNS, 0, 0])])
    drawn.names += drawn.add("Sub", ["x", *wide])


STEPS: tuple[Callable[[Drawn], None], ...] = (
    split_and_joined, sliced, elementwise, summed, scattered, viewed, padded, product,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_a_network_with_empty_tensors_runs_as_onnxruntime_runs_it(seed: int, tmp_path: Path) -> None:
    drawn = Drawn(Random(seed))
    for step in drawn.random.choices(STEPS, k=7):
        step(drawn)
    last = drawn.add("Concat", drawn.names[-3:], axis=1)
    tall = np.random.default_rng(seed).standard_normal((COLUMNS, ROWS)).astype(np.float32)
    drawn.constants.append(numpy_helper.from_array(tall, "tall"))
    written = [*drawn.names[2:], *last]
    inputs = [value("x", [ROWS, COLUMNS]), value("none", [ROWS, 0])]
    path = saved(model(drawn.nodes, inputs, written, drawn.constants, opset=17), tmp_path)
    ran = run_model(path, AS_IT_IS, None)
    assert ran.relative_difference == 0
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {"x": np.ones((ROWS, COLUMNS), np.float32), "none": np.ones((ROWS, 0), np.float32)}
    made = {name: array.shape for name, array in zip(written, session.run(written, given), strict=True)}
    for tensor in ran.graph.tensors:
        assert tensor.size_bytes > 0
        assert made.get(tensor.name, tensor.shape) == tensor.shape
    kept = {name.removesuffix(".output") for tensor in ran.graph.tensors for name in (tensor.name, *tensor.aliases)}
    assert kept.issuperset(name for name, shape in made.items() if 0 not in shape)


def cached_attention(past: int | str) -> onnx.ModelProto:
    cache = [1, 2, past, 4]
    inputs = [value(name, [1, 5, 8]) for name in "qkv"] + [value("keys", cache), value("values", cache)]
    operands = ["q", "k", "v", "", "", "", "keys", "values"]
    node = make_node("MultiHeadAttention", operands, ["y", "pk", "pv"], num_heads=2, domain=RUNTIME_DOMAIN)
    network = model([node], inputs, ["y", "pk", "pv"], opset=17)
    network.opset_import.append(make_opsetid(RUNTIME_DOMAIN, 1))
    return network


@pytest.mark.parametrize(
    "options", [{"dims": {"past": 0}}, {"shapes": dict.fromkeys(("keys", "values"), (1, 2, 0, 4))}]
)
def test_a_cache_may_be_empty(options: dict[str, Any], tmp_path: Path) -> None:
    path = saved(cached_attention("past"), tmp_path)
    reading = Reading(**options)
    graph = read_network(str(path), reading)
    assert graph.operators[0].inputs == ("q", "k", "v")
    assert graph.tensor["pk"].shape == (1, 2, 5, 4)
    assert run_model(path, reading, None).relative_difference == 0


def test_a_declared_size_of_zero_may_be_replaced(tmp_path: Path) -> None:
    path = saved(cached_attention(0), tmp_path)
    assert read_network(str(path)).tensor["pk"].shape == (1, 2, 5, 4)
    shapes = {"keys": (1, 2, 3, 4), "values": (1, 2, 3, 4)}
    assert read_network(str(path), Reading(shapes=shapes)).tensor["pk"].shape == (1, 2, 8, 4)


def test_an_operator_whose_first_operand_is_empty_has_a_kind_of_its_own(tmp_path: Path) -> None:
    """The bias must not be taken for the matrix."""
    inputs = [value("a", [4, 0]), value("b", [0, 6]), value("c", [4, 6])]
    path = saved(model([make_node("Gemm", ["a", "b", "c"], ["y"])], inputs, ["y"]), tmp_path)
    (operator,) = read_network(str(path)).operators
    assert (operator.kind, operator.inputs) == ("EmptyGemm", ("c",))
    assert run_model(path, AS_IT_IS, None).relative_difference == 0


ort = pytest.importorskip("onnxruntime")


def pool(kind: str, **attributes: object) -> dict[str, Any]:
    return {"kind": kind, "opset": 22, **attributes}


CASES = {
    "MaxPool with its places": pool("MaxPool", outputs=["y", "places"]),
    "MaxPool in column order": pool("MaxPool", storage_order=1),
    "MaxPool of bytes": pool("MaxPool", dtype=np.uint8),
    "AveragePool": pool("AveragePool"),
    "AveragePool that counts pads": pool("AveragePool", count_include_pad=1),
    "LpPool": pool("LpPool"),
    "QLinearAveragePool": pool("com.microsoft::QLinearAveragePool", dtype=np.uint8),
    "NhwcMaxPool": pool("com.microsoft::NhwcMaxPool", dtype=np.uint8),
    "Conv": pool("Conv"),
    "ConvInteger": pool("ConvInteger", dtype=np.uint8),
    "QLinearConv": pool("QLinearConv", dtype=np.uint8),
    "FusedConv": pool("com.microsoft::FusedConv", activation="Relu"),
}


def network(case: dict[str, Any], size: int, taps: int, window: dict[str, Any]) -> onnx.ModelProto:
    """Return a node whose windows slide along a row; all weights are one."""
    attributes = dict(case)
    kind, dtype, outputs = (
        attributes.pop("kind").split("::")[-1],
        attributes.pop("dtype", np.float32),
        attributes.pop("outputs", ["y"]),
    )
    domain = "com.microsoft" if "::" in case["kind"] else ""
    window = {name: [1, each] if isinstance(each, int) else each for name, each in window.items()}
    constants = {"w": np.ones((1, 1, 1, taps), dtype), "s": np.float32(1), "z": np.array(0, dtype)}
    operands = {"QLinearConv": "xszwszsz", "QLinearAveragePool": "xszsz"}
    read = operands.get(kind, "xw" if "Conv" in kind else "x")
    shape = [1, 1, size, 1] if kind == "NhwcMaxPool" else [1, 1, 1, size]
    opset = attributes.pop("opset")
    node = make_node(kind, list(read), outputs, domain=domain, kernel_shape=[1, taps], **window, **attributes)
    weights = [numpy_helper.from_array(np.asarray(constants[name]), name) for name in sorted({*read} - {"x"})]
    given = value("x", shape, TensorProto.UINT8 if dtype is np.uint8 else TensorProto.FLOAT)
    made = model([node], [given], outputs, weights, opset=opset)
    made.opset_import.append(make_opsetid("com.microsoft", 1))
    made.ir_version = 8
    return made


def elements_read(built_model: onnx.ModelProto, size: int) -> list[set[int]]:
    """Return for each output of a row the input elements on which it depends."""
    session = ort.InferenceSession(built_model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    dtype = np.uint8 if "uint8" in given.type else np.float32
    found: list[set[int]] = []
    nothing = session.run(["y"], {"x": np.zeros(given.shape, dtype)})[0].reshape(-1)
    for at in range(size):
        array = np.zeros(size, dtype)
        array[at] = 100
        changed = session.run(["y"], {"x": array.reshape(given.shape)})[0].reshape(-1) != nothing
        found = found or [set() for _ in changed]
        for place in np.flatnonzero(changed):
            found[place].add(at)
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_windows_are_those_that_onnxruntime_reads(case: dict[str, Any], tmp_path: Path) -> None:
    random, negative = Random(0), 0
    can_dilate = case["kind"] in ("AveragePool", "LpPool", "MaxPool")
    for _ in range(60):
        size, taps, stride = random.randint(2, 14), random.randint(1, 3), random.randint(1, 7)
        window: dict[str, Any] = {"strides": stride, "auto_pad": random.choice(("SAME_UPPER", "SAME_LOWER"))}
        dilation = random.choice((1, 1, 2)) if can_dilate else 1
        if dilation > 1:
            window["dilations"] = dilation
        made = network(case, size, taps, window)
        try:
            found = elements_read(made, size)
        except ort.capi.onnxruntime_pybind11_state.Fail:
            assert dilation > 1  # the window does not fit
            continue
        operator = read(made, tmp_path).operators[0]
        count = -(-size // stride)
        if len(found) != count:
            assert dilation > 1  # pads ignore the dilation, so the output is smaller than in the specification
            continue
        row = windows_of(operator, (1, taps), (1, size), (1, count))[1]
        negative += row.pad < 0
        seen = [
            {at for at in range(p * stride - row.pad, p * stride - row.pad + row.reach, dilation) if 0 <= at < size}
            for p in range(count)
        ]
        if case["kind"] == "AveragePool" and dilation > 1:  # it skips elements behind a negative pad
            seen = [each & one for each, one in zip(seen, found, strict=True)]
        assert found == seen, (size, taps, window)
    assert negative > 3


@pytest.mark.parametrize("kind", series(["MaxPool", "AveragePool", "Conv"], 1))
@pytest.mark.parametrize("padding", series(["SAME_UPPER", "SAME_LOWER"], 1))
def test_tiles_of_windows_that_begin_inside_give_the_right_values(
    kind: str, padding: str, onchip: Program, tmp_path: Path
) -> None:
    random, path = np.random.default_rng(0), tmp_path / "network.onnx"
    attributes: dict[str, Any] = {"storage_order": 1} if kind == "MaxPool" else {}
    nodes = [
        make_node("Conv", ["x", "w"], ["a"], "first"),
        make_node(
            kind,
            ["a", "v"] if kind == "Conv" else ["a"],
            ["b"],
            "windows",
            kernel_shape=[2, 1],
            strides=[1, 5],
            auto_pad=padding,
            **attributes,
        ),
        make_node("Conv", ["b", "w"], ["y"], "last"),
    ]
    shapes = {"w": (3, 3, 1, 1), "v": (3, 3, 2, 1)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype("float32"), name) for name, shape in shapes.items()
    ]
    onnx.save(model(nodes, [value("x", [1, 3, 8, 10])], ["y"], weights, opset=22), path)
    schedule_check_and_run(onchip, path, tmp_path, "simba", "--objective", "traffic", "--time-limit", "5")
    plan = tmp_path / "plan.json"
    assert onchip("plan", path, "--tiles", "auto", "--sram", "1KiB", "-o", plan).code == 0
    assert onchip("run", plan, path).code == 0
