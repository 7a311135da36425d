"""Shapes of one-node models with random attributes: the reader finds those that onnxruntime computes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto
from onnx.defs import get_all_schemas_with_history
from onnx.helper import make_node, tensor_dtype_to_np_dtype

from onchip.errors import GraphError
from onchip.formats.onnx.control_flow import unfold
from onchip.formats.onnx.file import load_model
from onchip.formats.onnx.specification import einsum_shape
from support.one_node_models import NEWEST, RULES, OneNode, one_node
from support.onnx_networks import model, read, value

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
    *("Pad", "Reshape", "Resize", "Slice", "com.microsoft::NhwcMaxPool", "com.microsoft::QLinearAveragePool"),
)
"""Operators with many attributes that change the shape."""


def test_every_kind_of_onnx_is_drawn() -> None:
    kinds = {one.name for one in get_all_schemas_with_history() if not one.domain and one.since_version <= NEWEST}
    assert kinds - RULES.keys() == NO_SHAPES_TO_COMPARE


@pytest.mark.slow
def test_shapes_are_those_that_onnxruntime_computes(tmp_path: Path) -> None:
    assert_alike([*sorted(RULES), *RULED * 10], tmp_path)


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
    types = unfold(load_model(path)).types
    for name, result in zip(node.written, results, strict=True):
        if name in types.unknown:
            assert node.kind in REFUSED, f"{what}: {types.unknown[name]}"
            continue
        shape, element_type = types.shape_and_element_type(name)
        assert tensor_dtype_to_np_dtype(element_type) == result.dtype, what
        if name in types.bounded:
            assert node.kind in BY_VALUES, what
            assert len(shape) == result.ndim, what
            assert all(most >= size for most, size in zip(shape, result.shape, strict=True)), what
        else:
            assert shape == result.shape, what


INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
SHAPES_BY_VALUES = [
    # (kind, attributes, operands as (shape, element type), a possible shape, an impossible one)
    ("Reshape", {}, [([2, 6], FLOAT), ([2], INT64)], [3, 4], [5, 5]),
    ("Squeeze", {}, [([2, 1, 6], FLOAT), ([1], INT64)], [2, 6], [2, 7]),
    ("Unsqueeze", {}, [([2, 6], FLOAT), ([1], INT64)], [2, 1, 6], [2, 6, 3]),
    ("Tile", {}, [([2, 6], FLOAT), ([2], INT64)], [4, 6], [3, 7]),
    ("ReduceSum", {}, [([2, 6], FLOAT), ([1], INT64)], [1, 6], [5, 1]),
    ("ReduceSum", {"keepdims": 0}, [([2, 3, 6], FLOAT), ([1], INT64)], [2, 6], [6, 2]),
    ("NonZero", {}, [([2, 6], FLOAT)], [2, 7], [2, 13]),
    ("Unique", {}, [([6], FLOAT)], [4], [7]),
    ("Compress", {"axis": 1}, [([2, 6], FLOAT), ([4], BOOL)], [2, 3], [2, 5]),
    ("Slice", {}, [([2, 6], FLOAT), ([1], INT64), ([1], INT64)], [1, 6], [2, 7]),
    ("MaxUnpool", {"kernel_shape": [2]}, [([1, 1, 2], FLOAT), ([1, 1, 2], INT64), ([3], INT64)], [1, 1, 5], [4, 4]),
]


@pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
@pytest.mark.parametrize(
    ("kind", "attributes", "operands", "possible", "impossible"), SHAPES_BY_VALUES, ids=lambda each: str(each)
)
def test_declared_shape_counts_only_if_the_node_can_write_it(
    kind: str,
    attributes: dict[str, Any],
    operands: list[tuple[list[int], int]],
    possible: list[int],
    impossible: list[int],
    tmp_path: Path,
) -> None:
    names = [f"x{index}" for index in range(len(operands))]
    given = [value(name, *operand) for name, operand in zip(names, operands, strict=True)]
    written = INT64 if kind == "NonZero" else FLOAT

    def shape(declared: list[int]) -> tuple[int, ...] | None:
        nodes = [make_node(kind, names, ["y"], **attributes)]
        return read(model(nodes, given, [value("y", declared, written)]), tmp_path).tensor["y"].shape

    assert shape(possible) == tuple(possible)
    if kind in ("NonZero", "Unique", "Compress", "Slice"):  # the largest shape is known
        assert shape(impossible) != tuple(impossible)
        return
    with pytest.raises(GraphError, match="is unknown"):
        shape(impossible)


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
