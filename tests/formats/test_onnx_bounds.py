"""Shapes that follow from values have bounds, which no run of onnxruntime exceeds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node, make_opsetid, make_tensor

from onchip.answer.bindings import Bindings
from onchip.errors import InputError, NetworkWarning
from onchip.formats.networks import read_onnx
from onchip.formats.onnx.control_flow import unfold
from onchip.formats.onnx.dimensions import bind
from onchip.formats.onnx.file import load_model
from onchip.formats.onnx.runtime_kinds import RUNTIME_DOMAIN
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from support.onnx_networks import integers, model, value
from support.onnx_runs import AS_IT_IS, run_model, saved

X = value("x", [3, 4])
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def read_model(network: onnx.ModelProto, folder: Path) -> Graph:
    return read_onnx(saved(network, folder))


BOXES = [value("boxes", [2, 6, 4]), value("scores", [2, 3, 6])]
LARGEST: dict[str, tuple[onnx.ModelProto, tuple[int, ...]]] = {
    "NonZero": (model([make_node("NonZero", ["x"], ["y"])], [X], ["y"]), (2, 12)),
    "Unique": (model([make_node("Unique", ["x"], ["y"])], [X], ["y"]), (12,)),
    "Unique along an axis": (model([make_node("Unique", ["x"], ["y"], axis=-1)], [X], ["y"]), (3, 4)),
    "Compress": (model([make_node("Compress", ["x", "c"], ["y"])], [X, value("c", [5], BOOL)], ["y"]), (5,)),
    "Compress along an axis": (
        model([make_node("Compress", ["x", "c"], ["y"], axis=1)], [X, value("c", [2], BOOL)], ["y"]),
        (3, 2),
    ),
    "NonMaxSuppression": (
        model(
            [make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])], BOXES, ["y"], [integers("most", [2])]
        ),
        (12, 3),
    ),
    "NonMaxSuppression of a limit that is an input": (
        model(
            [make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])],
            [*BOXES, value("most", [1], INT64)],
            ["y"],
        ),
        (36, 3),
    ),
    "TopK": (model([make_node("TopK", ["x", "k"], ["y", "i"])], [X, value("k", [1], INT64)], ["y"]), (3, 4)),
    "Slice": (
        model(
            [make_node("Slice", ["x", "zero", "stop"], ["y"])],
            [X, value("stop", [1], INT64)],
            ["y"],
            [integers("zero", [0])],
        ),
        (3, 4),
    ),
}


@pytest.mark.parametrize("name", LARGEST)
def test_a_shape_that_follows_from_values_is_planned_at_its_largest(name: str, tmp_path: Path) -> None:
    network, shape = LARGEST[name]
    with pytest.warns(NetworkWarning, match=r"node 'y': the shape of its output follows from values: 'y' "):
        graph = read_model(network, tmp_path)
    assert graph.tensor["y"].shape == shape
    assert graph.operators[-1].attributes["upper_bound"] in (["y"], ["y", "i"])


def test_what_is_made_of_the_shape_of_such_a_tensor_has_a_bound(tmp_path: Path) -> None:
    """A tensor made from the bound instead of the size would have a wrong size at run time."""
    nodes = [
        make_node("NonZero", ["x"], ["n"]),
        make_node("Shape", ["n"], ["s"]),
        make_node("ConstantOfShape", ["s"], ["z"], name="room", value=make_tensor("v", INT64, [1], [1])),
        make_node("Relu", ["x"], ["y"]),
        make_node("Add", ["n", "z"], ["t"]),
    ]
    path = saved(model(nodes, [X], ["y", "t"]), tmp_path)
    with pytest.warns(NetworkWarning):
        graph = read_onnx(path)
    assert graph.tensor["t"].shape == (2, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run_model(path, AS_IT_IS, None).relative_difference == 0


def test_a_size_that_falls_as_others_grow_is_refused(tmp_path: Path) -> None:
    nodes = [
        make_node("NonZero", ["x"], ["n"]),
        make_node("Size", ["n"], ["s"]),
        make_node("Sub", ["many", "s"], ["left"]),
        make_node("ConstantOfShape", ["left"], ["z"], name="room"),
        make_node("Relu", ["z"], ["y"]),
    ]
    with pytest.raises(InputError, match="node 'room': the shape of its output 'z' is unknown"):
        read_model(model(nodes, [X], ["y"], [integers("many", [100])]), tmp_path)


def test_a_slice_may_be_longer_of_a_shorter_tensor(tmp_path: Path) -> None:
    """The slice from the third last position to the second has two of three columns, but none of twelve."""
    nodes = [make_node("NonZero", ["x"], ["n"]), make_node("Slice", ["n", "a", "b", "c"], ["s"], name="cut")]
    nodes.append(make_node("Neg", ["s"], ["y"]))
    constants = [integers("a", [-3]), integers("b", [2]), integers("c", [1])]
    with pytest.warns(NetworkWarning):
        assert read_model(model(nodes, [X], ["y"], constants), tmp_path).tensor["y"].shape == (2, 2)


@pytest.mark.parametrize("kind", ["Col2Im", "Resize"])
def test_an_operator_of_which_no_largest_output_is_known_is_refused(kind: str, tmp_path: Path) -> None:
    """A smaller axis makes another one larger if the aspect ratio is kept."""
    last = make_node("Resize", ["f", "", "", "size"], ["y"], name="last", keep_aspect_ratio_policy="not_larger")
    if kind == "Col2Im":
        last = make_node("Col2Im", ["f", "size", "size"], ["y"], name="last")
    nodes = [make_node("NonZero", ["x"], ["n"]), make_node("Cast", ["n"], ["f"], to=1), last]
    with pytest.raises(InputError, match="node 'last': the shape of its input 'f' follows from values"):
        read_model(model(nodes, [X], ["y"], [integers("size", [4, 4])]), tmp_path)


ROWS, COLUMNS = 3, 5
GREATEST = ROWS * COLUMNS


Operand = object
"""A tensor by its name, or a constant."""


@dataclass
class Built:
    """Nodes that read tensors with one row per nonzero element of `x`."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def several(self, kind: str, *operands: Operand, outputs: int = 1, **attributes: Any) -> list[str]:  # noqa: ANN401
        """Add a node; return its outputs. Numbers become constants."""
        read = [one if isinstance(one, str) else self.constant(one) for one in operands]
        made = [f"t{len(self.nodes)}.{at}" for at in range(outputs)]
        self.nodes.append(make_node(kind, read, made, **attributes))
        return made

    def node(self, kind: str, *operands: Operand, **attributes: Any) -> str:  # noqa: ANN401
        """Add a node; return its only output."""
        (made,) = self.several(kind, *operands, **attributes)
        return made

    def constant(self, array: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, *shape: int) -> str:
        return self.constant(np.random.default_rng(len(self.constants)).uniform(0.5, 1, shape).astype(np.float32))

    def places(self) -> str:
        """Return the positions of nonzero elements of `x`, one per row."""
        return self.node("Transpose", self.node("NonZero", "x"))

    def rows(self) -> str:
        """Return a tensor with a row of `x` for each position."""
        return self.node("Squeeze", self.node("Slice", self.places(), [0], [1], [1]), [1])

    def found(self, *shape: int) -> str:
        """Return a tensor of this shape for each position."""
        return self.node("Gather", self.floats(ROWS, *shape), self.rows())

    def turned(self, *shape: int) -> str:
        """Return a tensor [1, shape, positions]."""
        return self.node("Unsqueeze", self.node("Transpose", self.found(*shape)), [0])

    def small(self, *shape: int) -> str:
        """Return such a tensor of small integers."""
        return self.node("Cast", self.found(*shape), to=TensorProto.UINT8)

    def count(self) -> str:
        """Return the number of positions, as a tensor of one element."""
        return self.node("Slice", self.node("Shape", self.places()), [0], [1])

    def joined(self, *parts: Operand, axis: int = 0) -> str:
        return self.node("Concat", *parts, axis=axis)


Build = Callable[[Built], str | list[str]]


def one(kind: str, *shape: int, more: Sequence[object] = (), outputs: int = 1, **attributes: Any) -> Build:  # noqa: ANN401
    """Return a builder of a node that reads a bounded tensor first, then constants."""
    return lambda b: b.several(kind, b.found(*shape), *more, outputs=outputs, **attributes)


def ones(*shape: int, dtype: type = np.float32) -> np.ndarray[Any, np.dtype[Any]]:
    return np.ones(shape, dtype)


def f(*numbers: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(numbers, np.float32)


NOTHING = np.uint8(0)
SLICES = ((0, 4, 0), (4, 100, 0), (-3, 100, 0), (0, -2, 0), (-4, 3, 0), (-4, -1, 0), (2, 4, 1))
BACKWARDS = ((-1, -100, 0, -1), (5, 0, 0, -2), (8, -3, 0, -1), (-2, 3, 0, -1), (0, 100, 0, 4))
CASES: dict[str, Build] = {
    **{f"Slice {each}": one("Slice", 6, more=[[number] for number in each]) for each in (*SLICES, *BACKWARDS)},
    "Slice without axes": one("Slice", 6, more=[[1, 1], [-1, 4]]),
    "Split into sizes": lambda b: b.several("Split", b.found(6), [2, 4], outputs=2, axis=1),
    "Split evenly": one("Split", 6, outputs=3, axis=0, num_outputs=3),
    "Split evenly into many": one("Split", 6, outputs=4, axis=0, num_outputs=4),
    "Split along another axis": one("Split", 7, outputs=4, axis=1, num_outputs=4),
    "Gemm": one("Gemm", 6, more=[ones(6, 4), ones(4)]),
    "Gemm transposed": lambda b: b.node("Gemm", b.found(6), b.floats(GREATEST, 6), transB=1),
    "MatMul": one("MatMul", 2, 6, more=[ones(6, 4)]),
    "MatMul of two": lambda b: b.node("MatMul", b.found(6), b.node("Transpose", b.found(6))),
    "ArgMax": one("ArgMax", 6, axis=1),
    "ArgMin over what is bounded": one("ArgMin", 6, axis=0, keepdims=0),
    "Pad": one("Pad", 6, more=[[1, 2, 3, 0]]),
    "Pad cuts": one("Pad", 6, more=[[-1, 0, 0, -2]]),
    "TopK": one("TopK", 6, more=[[2]], outputs=2, axis=1),
    "TopK of a number that follows": lambda b: b.several(
        "TopK", b.found(6), b.node("Shape", b.rows()), outputs=2, axis=1
    ),
    "RoiAlign": lambda b: b.node(
        "RoiAlign", b.floats(2, 3, 9, 9), b.found(4), b.node("Mod", b.rows(), [2]), output_height=2, output_width=3
    ),
    "Reshape to a row": one("Reshape", 6, more=[[-1, 3]]),
    "Reshape keeping an axis": one("Reshape", 6, more=[[0, 2, -1]]),
    "Reshape to one axis": one("Reshape", 2, 3, more=[[-1]]),
    "Flatten": one("Flatten", 2, 3, axis=2),
    "Squeeze": one("Squeeze", 1, 6, more=[[1]]),
    "Unsqueeze": one("Unsqueeze", 6, more=[[0, -1]]),
    "Transpose": one("Transpose", 6, 2, perm=[2, 0, 1]),
    "Cast": one("Cast", 6, to=TensorProto.INT64),
    "Concat": lambda b: b.joined(b.found(6), b.floats(2, 6), b.found(6)),
    "Concat along another axis": lambda b: b.joined(b.found(6), b.found(2), axis=1),
    "Concat of unequal bounds": lambda b: b.joined(b.found(6), b.node("Slice", b.found(2), [0], [100], [0]), axis=1),
    "Gather": lambda b: b.node("Gather", b.found(6), [[0, 1], [2, -1]], axis=1),
    "Gather from what is bounded": lambda b: b.node("Gather", b.found(6), 0),
    "GatherElements": lambda b: b.node("GatherElements", b.floats(COLUMNS, COLUMNS), b.places(), axis=0),
    "GatherND": lambda b: b.node("GatherND", b.floats(ROWS, COLUMNS, 2), b.places()),
    "ScatterND": lambda b: b.node(
        "ScatterND", b.floats(ROWS, COLUMNS), b.places(), b.node("GatherND", "x", b.places())
    ),
    "ScatterND into what is bounded": lambda b: b.node("ScatterND", b.found(6), [[0]], b.floats(1, 6)),
    "Where": lambda b: b.node("Where", b.node("Greater", b.found(1), b.floats(1)), b.found(6), b.floats(6)),
    "Add with itself": lambda b: b.node("Add", b.found(6), b.found(6)),
    "Add with fewer axes": lambda b: b.node("Mul", b.found(2, 6), b.floats(2, 1)),
    "Add of a column": lambda b: b.node("Add", b.found(6), b.node("Unsqueeze", b.node("Cast", b.rows(), to=1), [1])),
    "Add of unequal bounds": lambda b: b.node(
        "Add", b.found(6), b.joined(b.found(6), b.node("Slice", b.found(6), [0], [0]))
    ),
    "PRelu": lambda b: b.node("PRelu", b.found(6), b.floats(6)),
    "QuantizeLinear along an axis": lambda b: b.node("QuantizeLinear", b.found(6), b.floats(6), axis=1),
    "DynamicQuantizeLinear": one("DynamicQuantizeLinear", 6, outputs=3),
    "ReduceSum": one("ReduceSum", 6, more=[[0]], keepdims=1),
    "ReduceMax": one("ReduceMax", 6, more=[[1]], keepdims=0),
    "ReduceMean of all": one("ReduceMean", 6, keepdims=0),
    "NonZero": one("NonZero", 2),
    "Unique": one("Unique", 2, outputs=4),
    "Compress": lambda b: b.node("Compress", b.found(6), b.node("Equal", b.rows(), 1), axis=0),
    "NonMaxSuppression": lambda b: b.node(
        "NonMaxSuppression", b.node("Unsqueeze", b.found(4), [0]), b.turned(2), [2], f(0.9)
    ),
    "OneHot": lambda b: b.node("OneHot", b.rows(), [4], f(0, 1)),
    "Tile": one("Tile", 6, more=[[2, 3]]),
    "Expand": one("Expand", 1, 6, more=[[1, 4, 6]]),
    "CumSum": one("CumSum", 6, more=[0]),
    "Trilu": one("Trilu", 6),
    "Resize": lambda b: b.node("Resize", b.found(2, 3, 4), "", f(1, 1, 2, 1.5), mode="nearest"),
    "Upsized along what is bounded": lambda b: b.node("Resize", b.found(6), "", f(1.5, 1), mode="nearest"),
    "Resize to a size": lambda b: b.node("Resize", b.found(6), "", "", [7, 6], mode="nearest"),
    "DepthToSpace": one("DepthToSpace", 4, 2, 3, blocksize=2),
    "SpaceToDepth": one("SpaceToDepth", 1, 4, 2, blocksize=2),
    "Conv": one("Conv", 2, 7, 7, more=[ones(4, 2, 3, 3)], strides=[2, 2], pads=[1, 1, 1, 1]),
    "Conv over what is bounded": lambda b: b.node("Conv", b.turned(2), b.floats(3, 2, 3), pads=[1, 1], strides=[2]),
    "ConvTranspose": one("ConvTranspose", 2, 4, 4, more=[ones(2, 3, 2, 2)], strides=[2, 2]),
    "MaxPool": one("MaxPool", 2, 7, 7, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "MaxPool over what is bounded": lambda b: b.node(
        "MaxPool", b.turned(2), kernel_shape=[2], strides=[3], ceil_mode=1
    ),
    "AveragePool": one("AveragePool", 2, 7, 7, kernel_shape=[2, 2], auto_pad="SAME_UPPER", strides=[3, 3]),
    "GlobalAveragePool": one("GlobalAveragePool", 2, 7, 7),
    "LayerNormalization": one("LayerNormalization", 6, more=[ones(6)]),
    "InstanceNormalization": one("InstanceNormalization", 2, 5, more=[ones(2), ones(2)]),
    "BatchNormalization": one("BatchNormalization", 2, more=[ones(2)] * 4),
    "Softmax": one("Softmax", 6, axis=0),
    "LSTM": one("LSTM", 2, 6, more=[ones(1, 20, 6), ones(1, 20, 5)], outputs=3, hidden_size=5),
    "Einsum": lambda b: b.node("Einsum", b.found(6), b.found(6), equation="ij,kj->ik"),
    "RNN": one("RNN", 2, 6, more=[ones(1, 5, 6), ones(1, 5, 5)], outputs=2, hidden_size=5),
    "GridSample": lambda b: b.node("GridSample", b.found(2, 5, 5), b.found(3, 4, 2)),
    "LpPool": one("LpPool", 2, 7, 7, kernel_shape=[2, 2]),
    "GlobalLpPool": one("GlobalLpPool", 2, 7, 7),
    "GlobalMaxPool": one("GlobalMaxPool", 2, 7, 7),
    "MaxRoiPool": lambda b: b.node(
        "MaxRoiPool", b.floats(1, 2, 9, 9), b.node("Mul", b.found(5), f(0, 1, 1, 9, 9)), pooled_shape=[2, 3]
    ),
    "LRN": one("LRN", 4, 3, 3, size=3),
    "LpNormalization": one("LpNormalization", 4),
    "MeanVarianceNormalization": one("MeanVarianceNormalization", 2, 3, 3),
    "ReverseSequence": one("ReverseSequence", 6, more=[[1] * 6], time_axis=0, batch_axis=1),
    "EyeLike": one("EyeLike", 6),
    "Shrink": one("Shrink", 6),
    "CastLike": one("CastLike", 6, more=[1]),
    "MatMulInteger": lambda b: b.node("MatMulInteger", b.small(6), ones(6, 4, dtype=np.uint8)),
    "ConvInteger": lambda b: b.node("ConvInteger", b.small(2, 5, 5), ones(3, 2, 2, 2, dtype=np.uint8)),
    "QLinearMatMul": lambda b: b.node(
        "QLinearMatMul",
        *(b.small(6), b.floats(), NOTHING, ones(6, 4, dtype=np.uint8), b.floats(), NOTHING, b.floats(), NOTHING),
    ),
    "Gelu of the runtime": one("Gelu", 6, domain=RUNTIME_DOMAIN),
    "FusedMatMul": one("FusedMatMul", 6, more=[ones(4, 6)], domain=RUNTIME_DOMAIN, transB=1),
    "ConstantOfShape": lambda b: b.node("ConstantOfShape", b.joined(b.count(), [4])),
    "ConstantOfShape of its own": lambda b: b.node("ConstantOfShape", b.node("Shape", b.places())),
    "Expand to a count": lambda b: b.node("Expand", b.floats(1, 6), b.joined(b.count(), [1])),
    "Expand as exporters write it": lambda b: b.node(
        "Expand",
        b.found(1, 6),
        b.node("Where", b.node("Equal", stated := b.joined(b.count(), [4, 6]), [-1]), [1], stated),
    ),
    "Reshape to a count": lambda b: b.node("Reshape", b.found(2, 3), b.joined(b.count(), [6])),
    "Reshape to a multiple": lambda b: b.node("Reshape", b.found(2, 3), b.node("Mul", b.count(), [6])),
    "Reshape by an exact axis": lambda b: b.node(
        "Reshape", b.found(2, 3), b.joined([-1], b.node("Slice", b.node("Shape", b.found(2, 3)), [2], [3]))
    ),
    "Range": lambda b: b.node("Range", 0, b.node("Squeeze", b.count(), [0]), 2),
    "Tile by a count": lambda b: b.node("Tile", b.floats(2, 3), b.joined(b.count(), [2])),
    "TopK of at most a count": lambda b: b.several("TopK", b.floats(100), b.node("Min", b.count(), [10]), outputs=2),
    "Size": lambda b: b.node("ConstantOfShape", b.node("Unsqueeze", b.node("Div", b.node("Size", b.found(4)), 3), [0])),
    "Sub": lambda b: b.node("ConstantOfShape", b.node("Max", b.node("Sub", b.count(), [3]), [1])),
}
ALWAYS_REACHED = frozenset(CASES) - {
    *("Slice (-4, 3, 0)", "Slice (8, -3, 0, -1)", "Split evenly into many", "TopK of a number that follows"),
    *("NonZero", "Unique", "Compress", "NonMaxSuppression", "Add of unequal bounds"),
}


@pytest.mark.parametrize("name", CASES)
def test_no_run_exceeds_a_bound(name: str, tmp_path: Path) -> None:
    built = Built()
    made = CASES[name](built)
    written = [made] if isinstance(made, str) else made
    network = model(built.nodes, [value("x", [ROWS, COLUMNS])], written, built.constants, opset=18)
    network.opset_import.append(make_opsetid(RUNTIME_DOMAIN, 1))
    path = saved(network, tmp_path)
    largest, exact = bounds_as_read(path, written)

    numbers = np.random.default_rng(0)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    runs = reached = 0
    for count in range(GREATEST + 1):
        x = np.zeros(GREATEST, np.float32)
        x[numbers.permutation(GREATEST)[:count]] = 1
        try:
            made = session.run(written, {"x": x.reshape(ROWS, COLUMNS)})
        except Exception:  # the operator does not run on so few elements
            continue
        runs += 1
        for found, shape, axes in zip(made, largest, exact, strict=True):
            assert len(found.shape) == len(shape)
            assert all(size <= most for size, most in zip(found.shape, shape, strict=True)), count
            assert all(found.shape[axis] == shape[axis] for axis in axes), count
        reached += [each.shape for each in made] == largest
    assert runs > 0
    assert reached or name not in ALWAYS_REACHED


def bounds_as_read(path: Path, written: list[str]) -> tuple[list[tuple[int, ...]], list[set[int]]]:
    """Return the shapes as read, and the axes that are reported as exact."""
    network = load_model(path)
    assert not bind(network.graph, Bindings())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        types = unfold(network).types
    shapes = [types.shape_and_element_type(name)[0] for name in written]
    exact = [
        set(range(len(shape))) - types.variable_axes.get(name, frozenset())
        for name, shape in zip(written, shapes, strict=True)
    ]
    return shapes, exact


def detector() -> onnx.ModelProto:
    """Return a detector: a suppression, its best boxes, a feature window for each, a convolution and a classifier."""
    b = Built()
    selected = b.node("NonMaxSuppression", "boxes", "scores", [5], f(0.5))
    index = b.node("Squeeze", b.node("Slice", selected, [2], [3], [1]), [1])
    boxes = b.node("Gather", b.node("Squeeze", "boxes", [0]), index)
    scores = b.node("Gather", b.node("ReduceMax", "scores", [0, 1], keepdims=0), index)
    _, best = b.several("TopK", scores, b.node("Min", b.node("Shape", scores), [10]), outputs=2)
    kept = b.node("Gather", boxes, best)
    batch = b.node("ConstantOfShape", b.node("Shape", best), value=numpy_helper.from_array(np.zeros(1, np.int64)))
    windows = b.node("RoiAlign", "features", kept, batch, output_height=4, output_width=4)
    head = b.node("Relu", b.node("Conv", windows, b.floats(6, 4, 3, 3)))
    flat = b.node("Reshape", head, b.joined(b.node("Slice", b.node("Shape", head), [0], [1]), [24]))
    classes = b.node("Softmax", b.node("Gemm", flat, b.floats(24, 7)))
    labels = b.node("ArgMax", classes, axis=1, keepdims=0)
    inputs = [value("boxes", [1, 30, 4]), value("scores", [1, 3, 30]), value("features", [1, 4, 16, 16])]
    return model(b.nodes, inputs, [classes, labels, kept], b.constants, opset=18)


def test_a_detector_with_a_head_runs_on_what_it_finds(tmp_path: Path) -> None:
    path = saved(detector(), tmp_path)
    with pytest.warns(NetworkWarning):
        ran = run_model(path, AS_IT_IS, None)
    shapes = [tensor.shape or () for tensor in ran.graph.with_role(Role.OUTPUT)]
    assert sorted(shapes) == [(10,), (10, 4), (10, 7)]
    assert ran.relative_difference == 0
