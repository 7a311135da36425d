"""The loop nests that the verifier derives from operators, compared with those computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

import onchip.verify.schedule.nests
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import SEEN_SHAPES, VIEWS, AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region, size_of, whole_region
from onchip.verify.schedule.nests import NestDerivation, Nests, multiplies_matrices, multiplies_rows, rows_multiplied
from support.derived_nests import LoneOperator, conv, pool, reads
from support.toy_plugins import mix_channels

X_W, X, X_X = reads("x0", "w0"), reads("x0"), reads("x0", "x1")
WINDOWS = {
    "along one dimension": (conv((1, 4, 10), (6, 4, 3), (1, 6, 8), kernel_shape=[3]), replace(X_W, k=6, c=4, q=8, s=3)),
    "in strides, with zeros and dilated": (
        conv((2, 4, 10), (6, 4, 3), (2, 6, 4), kernel_shape=[3], strides=[2], pads=[2, 1], dilations=[3]),
        replace(X_W, n=2, k=6, c=4, q=4, s=3, stride=(1, 2), dilation=(1, 3), padding=(0, 2, 0, 1)),
    ),
    "of single taps along one dimension": (conv((1, 4, 9), (6, 4, 1), (1, 6, 9)), replace(X_W, k=6, c=4, q=9)),
    "of three dimensions, one of which slides": (
        conv((2, 4, 5, 6, 7), (8, 4, 3, 1, 1), (2, 8, 3, 6, 7)),
        replace(X_W, n=2, k=8, c=4, p=3, q=42, r=3),
    ),
    "of three dimensions, two of which slide": (
        conv((2, 4, 5, 6, 7), (8, 4, 1, 3, 2), (2, 8, 5, 4, 6)),
        replace(X_W, n=10, k=8, c=4, p=4, q=6, r=3, s=2),
    ),
    "of three dimensions, none of which slides": (
        conv((2, 4, 5, 6, 7), (8, 4, 1, 1, 1), (2, 8, 5, 6, 7)),
        replace(X_W, n=2, k=8, c=4, p=30, q=7),
    ),
    "where a stride slides": (
        pool((1, 4, 5, 7, 6), (1, 4, 5, 4, 6), kernel_shape=[1, 1, 1], strides=[1, 2, 1]),
        replace(X, g=4, p=4, q=30, stride=(2, 1)),
    ),
    "where zeros before slide": (
        pool((1, 4, 5, 7, 6), (1, 4, 5, 8, 6), kernel_shape=[1, 1, 1], pads=[0, 1, 0, 0, 0, 0]),
        replace(X, g=4, p=8, q=30, padding=(1, 0, 0, 0)),
    ),
    "where zeros behind slide": (
        pool((1, 4, 5, 7, 6), (1, 4, 5, 8, 6), kernel_shape=[1, 1, 1], pads=[0, 0, 0, 0, 1, 0]),
        replace(X, g=4, p=8, q=30, padding=(0, 0, 1, 0)),
    ),
    "in groups": (conv((1, 4, 5, 5), (6, 2, 1, 1), (1, 6, 5, 5), group=2), replace(X_W, k=3, c=2, p=5, q=5, g=2)),
    "behind all that does not reach": (
        pool((1, 1, 9, 9), (1, 1, 2, 3), kernel_shape=[2, 3], strides=[4, 3]),
        replace(X, p=2, q=3, r=2, s=3, stride=(4, 3)),
    ),
    "with a weight that stands behind other parameters": (
        LoneOperator("QLinearConv", [(1, 4, 5, 5)], (1, 6, 4, 4), [(1,), (6, 4, 2, 2)]),
        replace(reads("x0", "w1"), k=6, c=4, p=4, q=4, r=2, s=2),
    ),
    "of a view of a vector": (conv((1, 32), (6, 2, 3, 2), (1, 6, 2, 3)), replace(X_W, k=6, c=2, p=2, q=3, r=3, s=2)),
    "of a view of which the last pixels are skipped": (
        conv((1, 5 * 6 * 4), (6, 2, 1, 2), (1, 6, 2, 3), strides=[3, 2], dilations=[1, 1], group=2),
        replace(X_W, k=3, c=2, g=2, p=2, q=3, r=1, s=2, stride=(3, 2)),
    ),
    "of a view with zeros around it": (
        conv((2, 2 * 4 * 5), (6, 2, 3, 3), (2, 6, 2, 2), pads=[1, 0, 0, 1], dilations=[1, 2], strides=[2, 1]),
        replace(X_W, n=2, k=6, c=2, p=2, q=2, r=3, s=3, stride=(2, 1), dilation=(1, 2), padding=(1, 0, 0, 1)),
    ),
    "of a whole map": (
        LoneOperator("GlobalAveragePool", [(2, 3, 4, 5, 6)], (2, 3, 1, 1, 1)),
        replace(X, n=2, g=3, r=20, s=6),
    ),
    "of a whole row": (LoneOperator("GlobalAveragePool", [(2, 3, 5)], (2, 3, 1)), replace(X, n=2, g=3, s=5)),
    "of some dimensions": (LoneOperator("ReduceMean", [(2, 3, 4)], (2, 1, 4)), replace(X, g=8, c=3)),
    "of one of three dimensions at the end of the map": (
        conv((1, 1, 4, 4), (1, 1, 4, 1), (1, 1, 1, 4)),
        replace(X_W, q=4, r=4),
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_is_one_loop_nest(name: str) -> None:
    read, layer = WINDOWS[name]
    nests = read.nests()
    assert nests is not None
    assert nests.layers == (layer,)
    assert nests.input == "x0"
    expected = f"w{len(read.weights) - 1}" if read.weights else None
    assert nests.weight == expected


TRANSPOSED = LoneOperator("ConvTranspose", [(1, 4, 3)], (1, 6, 7), [(4, 6, 3)], {"strides": [2]})
PADDED = LoneOperator("ConvTranspose", [(1, 4, 3)], (1, 6, 5), [(4, 6, 3)], {"strides": [2], "pads": [1, 1]})
APART = LoneOperator("ConvTranspose", [(1, 1, 3)], (1, 1, 8), [(1, 1, 2)], {"strides": [3]})
PLAIN = LoneOperator("ConvTranspose", [(1, 4, 3)], (1, 6, 5), [(4, 6, 3)])
IN_THIRDS = LoneOperator("ConvTranspose", [(1, 1, 3)], (1, 1, 7), [(1, 1, 3)], {"strides": [3], "pads": [1, 1]})
BEFORE_ALL = LoneOperator("ConvTranspose", [(1, 1, 3)], (1, 1, 5), [(1, 1, 1)], {"pads": [-1, -1]})
ODD, EVEN = replace(X_W, k=6, c=4, q=3, s=1), replace(X_W, k=6, c=4, q=4, s=2, padding=(0, 1, 0, 1))


@pytest.mark.parametrize(
    ("read", "region", "layers"),
    [
        (TRANSPOSED, None, (EVEN, ODD)),
        (TRANSPOSED, ((0, 1), (0, 6), (2, 3)), (replace(EVEN, q=1, padding=(0, 0, 0, 0)),)),
        (TRANSPOSED, ((0, 1), (0, 6), (0, 1)), (replace(EVEN, q=1, padding=(0, 1, 0, 0)),)),
        (TRANSPOSED, ((0, 1), (0, 6), (5, 7)), (replace(EVEN, q=1, padding=(0, 0, 0, 1)), replace(ODD, q=1))),
        (PADDED, None, (replace(EVEN, q=2, padding=(0, 0, 0, 0)), ODD)),
        (APART, None, (replace(X_W, q=3), replace(X_W, q=3))),
        (APART, ((0, 1), (0, 1), (2, 3)), ()),
        (PLAIN, None, (replace(X_W, k=6, c=4, q=5, s=3, padding=(0, 2, 0, 2)),)),
        (IN_THIRDS, None, (replace(X_W, q=2), replace(X_W, q=3), replace(X_W, q=2))),
        (replace(TRANSPOSED, attributes={"strides": [2], "auto_pad": "VALID"}), None, (EVEN, ODD)),
        (BEFORE_ALL, None, (replace(X_W, q=4, padding=(0, 0, 0, 1)),)),
    ],
)
def test_a_transposed_convolution_has_a_nest_for_each_place_of_its_outputs_between_two_inputs(
    read: LoneOperator, region: Region | None, layers: tuple[Layer, ...]
) -> None:
    nests = read.nests(region)
    assert nests is not None
    assert nests.layers == layers
    assert (nests.input, nests.weight) == ("x0", "w0")
    computed = sum(layer.n * layer.k * layer.p * layer.q for layer in layers)
    assert nests.left_over == size_of(region or whole_region(read.output)) - computed


NONE = {
    "that slides along four dimensions": conv((1, 1, 9, 9, 9, 9), (1, 1, 2, 2, 2, 2), (1, 1, 8, 8, 8, 8)),
    "that slides along four of five dimensions": conv(
        (1, 1, 2, 2, 2, 2, 3), (1, 1, 2, 2, 2, 2, 1), (1, 1, 1, 1, 1, 1, 3)
    ),
    "a pool whose window has too few dimensions": pool((1, 1, 4, 4), (1, 1, 2, 2), kernel_shape=[3]),
    "without a weight": LoneOperator("Conv", [(1, 1, 4, 4)], (1, 1, 4, 4), [(1,)]),
    "with a weight of few dimensions": LoneOperator("Conv", [(4, 4)], (4, 4), [(4, 4)]),
    "a pool of a view": pool((1, 16), (1, 1, 2, 2), kernel_shape=[3, 3]),
    "a pool of a view of fewer dimensions": pool((1, 16, 4), (1, 4, 2, 2), kernel_shape=[3]),
    "a pool that says no window": pool((1, 1, 4, 4), (1, 1, 2, 2)),
    "with groups that do not divide what is written": conv((1, 4, 4, 4), (3, 2, 1, 1), (1, 3, 4, 4), group=2),
    "with groups that do not divide what is read": conv((1, 3, 4, 4), (4, 2, 1, 1), (1, 4, 4, 4), group=2),
    "with no group": conv((1, 4, 4, 4), (4, 2, 1, 1), (1, 4, 4, 4), group=0),
    "of a view of too few elements": conv((1, 31), (6, 2, 3, 2), (1, 6, 2, 3)),
    "of a view that pads itself": conv((1, 32), (6, 2, 3, 2), (1, 6, 2, 3), auto_pad="VALID"),
    "that only sees zeros": pool((1, 1, 1, 1), (1, 1, 1, 3), kernel_shape=[1, 1], pads=[0, 9, 0, 1], strides=[1, 4]),
    "that only sees zeros along the first of three dimensions": pool(
        (1, 1, 1, 2, 2), (1, 1, 3, 1, 1), kernel_shape=[1, 2, 2], pads=[9, 0, 0, 0, 0, 0], strides=[4, 1, 1]
    ),
    "transposed and dilated": replace(TRANSPOSED, attributes={"dilations": [2]}),
    "transposed, of a view": LoneOperator("ConvTranspose", [(1, 12)], (1, 6, 7), [(4, 6, 3)], {"strides": [2]}),
    "transposed, that pads itself": replace(TRANSPOSED, attributes={"strides": [2], "auto_pad": "SAME_UPPER"}),
    "a global pool of a vector": LoneOperator("GlobalMaxPool", [(2, 3)], (2, 3)),
    "a sum of a part": LoneOperator("ReduceSum", [(2, 3)], (4,)),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_loop_nest_has_none(name: str) -> None:
    assert NONE[name].nests() is None


@pytest.mark.parametrize(
    ("rows", "columns", "padding"),
    [((0, 2), (0, 2), (2, 1, 0, 0)), ((1, 3), (1, 3), (0, 0, 0, 0)), ((3, 4), (4, 6), (0, 0, 0, 2))],
)
def test_a_part_of_a_convolution_has_the_zeros_that_it_sees(
    rows: tuple[int, int], columns: tuple[int, int], padding: tuple[int, int, int, int]
) -> None:
    read = conv((1, 2, 7, 5), (3, 2, 3, 3), (1, 3, 4, 6), pads=[2, 1, 0, 2], strides=[2, 1], kernel_shape=[3, 3])
    nests = read.nests(((0, 1), (0, 3), rows, columns))
    assert nests is not None
    p, q = rows[1] - rows[0], columns[1] - columns[0]
    assert nests.layers == (replace(X_W, k=3, c=2, p=p, q=q, r=3, s=3, stride=(2, 1), padding=padding),)


def test_a_part_of_a_batch_has_its_own_samples() -> None:
    read = conv((5, 2, 4, 4), (3, 2, 1, 1), (5, 3, 4, 4))
    nests = read.nests(((2, 4), (0, 3), (0, 4), (0, 4)))
    assert nests is not None
    assert nests.layers == (replace(X_W, n=2, k=3, c=2, p=4, q=4),)


def test_a_part_of_the_channels_of_a_group_has_no_nest() -> None:
    read, _ = WINDOWS["in groups"]
    assert read.nests(((0, 1), (3, 6), (0, 5), (0, 5))) is not None
    assert read.nests(((0, 1), (0, 4), (0, 5), (0, 5))) is None


def test_sums_in_the_making_have_at_least_the_bits_of_what_is_written() -> None:
    (layer,) = (conv((1, 4, 9), (6, 4, 1), (1, 6, 9)).nests(partial_bits=12) or Nests((), "", None, 0)).layers
    assert layer.partial_bits == 16


PRODUCTS = {
    "rows of a vector": (LoneOperator("Gemm", [(3, 5)], (3, 7), [(7, 5)]), ("x0", "w0"), replace(X_W, n=3, k=7, c=5)),
    "features of a view": (
        LoneOperator("Gemm", [(3, 5, 2)], (3, 7), [(7,), (10, 7)]),
        ("x0", "w1"),
        replace(X_W, n=3, k=7, c=10),
    ),
    "of a vector and a matrix": (LoneOperator("MatMul", [(5,)], (7,), [(5, 7)]), ("x0", "w0"), replace(X_W, k=7, c=5)),
    "of a matrix and a vector": (LoneOperator("MatMul", [(3, 5)], (3,), [(5,)]), ("x0", "w0"), replace(X_W, n=3, c=5)),
    "of two vectors": (LoneOperator("MatMul", [(5,), (5,)], ()), ("x0", "x1"), replace(X_X, c=5)),
    "of two matrices": (LoneOperator("MatMul", [(3, 5), (5, 7)], (3, 7)), ("x0", "x1"), replace(X_X, n=3, c=5, k=7)),
    "of a batch and a matrix": (
        LoneOperator("MatMul", [(2, 4, 3, 5), (1, 5, 7)], (2, 4, 3, 7)),
        ("x0", "x1"),
        replace(X_X, n=24, c=5, k=7),
    ),
    "of a matrix and a batch": (
        LoneOperator("MatMul", [(3, 5)], (2, 4, 3, 7), [(2, 4, 5, 7)]),
        ("w0", "x0"),
        replace(reads("w0", "x0"), n=56, c=5, k=3),
    ),
    "of two batches": (
        LoneOperator("MatMul", [(2, 1, 4, 3, 5), (2, 4, 5, 7)], (2, 1, 4, 3, 7)),
        ("x0", "x1"),
        replace(X_X, n=3, c=5, k=7, g=8),
    ),
    "of two batches with dimensions of one": (
        LoneOperator("MatMul", [(2, 4, 3, 5), (2, 1, 4, 5, 7)], (2, 1, 4, 3, 7)),
        ("x0", "x1"),
        replace(X_X, n=3, c=5, k=7, g=8),
    ),
    "beside numbers": (
        LoneOperator("QLinearMatMul", [(3, 5), (5, 7)], (3, 7), [(1,)]),
        ("x0", "x1"),
        replace(X_X, n=3, c=5, k=7),
    ),
    "behind numbers": (
        LoneOperator("QLinearMatMul", [(3, 5)], (3, 7), [(1,), (), (5, 7)]),
        ("x0", "w2"),
        replace(X_W, n=3, c=5, k=7),
    ),
    "of two turned matrices of onnxruntime": (
        LoneOperator("com.microsoft::FusedMatMul", [(5, 3)], (3, 7), [(7, 5)], {"transA": 1, "transB": 1}),
        ("x0", "w0"),
        replace(X_W, n=3, c=5, k=7),
    ),
    "of a fused Gemm": (
        LoneOperator("com.microsoft::FusedGemm", [(3, 5)], (3, 7), [(5, 7)]),
        ("x0", "w0"),
        replace(X_W, n=3, c=5, k=7),
    ),
    "of listed factors": (
        LoneOperator("Gemm", [(3, 5)], (3, 7), [(5, 7)], {"input_shapes": [[3, 5], [5, 7]]}),
        ("x0", "w0"),
        replace(X_W, n=3, k=7, c=5),
    ),
    "of a batch beside an addend": (
        LoneOperator("Gemm", [(2, 3, 7), (2, 3, 5)], (2, 3, 7), [(2, 5, 7)], {"input_shapes": [[2, 3, 5], [2, 5, 7]]}),
        ("x1", "w0"),
        replace(X_W, n=3, c=5, k=7, g=2),
    ),
    "of batches that spread over each other, beside an addend": (
        LoneOperator(
            "Gemm",
            [(1, 2, 3, 7), (2, 1, 3, 5)],
            (2, 2, 3, 7),
            [(1, 2, 5, 7)],
            {"input_shapes": [[2, 1, 3, 5], [1, 2, 5, 7]]},
        ),
        ("x1", "w0"),
        replace(X_W, n=6, c=5, k=14),
    ),
    "of a parameter behind an addend": (
        LoneOperator("Gemm", [(3, 5), (3, 7)], (3, 7), [(5, 7)]),
        ("x0", "w0"),
        replace(X_W, n=3, c=5, k=7),
    ),
    "of heads": (
        LoneOperator(
            "HeadProducts", [(6, 5), (6, 5)], (2, 3, 3), (), {"rows": 3, "columns": 4, "depth": 5, "batch": 2}
        ),
        ("x0", "x1"),
        replace(X_X, n=3, k=4, c=5, g=2),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_one_loop_nest(name: str) -> None:
    read, operands, layer = PRODUCTS[name]
    nests = read.nests()
    assert nests is not None
    assert nests.layers == (layer,)
    assert (nests.input, nests.weight) == operands


ELEMENTS = {
    "of one map": (LoneOperator("Relu", [(2, 3, 4, 5)], (2, 3, 4, 5)), ("x0", None), replace(X, n=2, g=3, p=4, q=5)),
    "of five dimensions": (
        LoneOperator("Relu", [(2, 3, 4, 5, 6)], (2, 3, 4, 5, 6)),
        ("x0", None),
        replace(X, n=2, g=3, p=20, q=6),
    ),
    "of one dimension": (LoneOperator("Relu", [(7,)], (7,)), ("x0", None), replace(X, n=7)),
    "of one number": (LoneOperator("Relu", [()], ()), ("x0", None), X),
    "of two dimensions": (LoneOperator("Relu", [(2, 7)], (2, 7)), ("x0", None), replace(X, n=2, g=7)),
    "of three dimensions": (LoneOperator("Relu", [(2, 7, 3)], (2, 7, 3)), ("x0", None), replace(X, n=2, g=7, q=3)),
    "of two maps": (LoneOperator("Add", [(2, 6), (2, 6)], (2, 6)), ("x0", "x1"), replace(X_X, g=12)),
    "of a map and as large a parameter": (
        LoneOperator("Add", [(2, 6)], (2, 6), [(2, 6)]),
        ("x0", "w0"),
        replace(X_W, g=12),
    ),
    "of a small map and a large one": (
        LoneOperator("Mul", [(6,), (4, 6)], (4, 6)),
        ("x1", "x0"),
        replace(X_X, n=4, g=6),
    ),
    "of a map and two numbers": (LoneOperator("Add", [(2, 6)], (2, 6), [(2,)]), ("x0", "w0"), replace(X_W, n=6, g=2)),
    "of a map and a number": (LoneOperator("Add", [(2, 6)], (2, 6), [(1,)]), ("x0", None), replace(X, n=2, g=6)),
    "of two numbers": (LoneOperator("Add", [(1,), (1,)], (1,)), ("x0", "x1"), X_X),
    "of two that spread over each other": (
        LoneOperator("Mul", [(4, 1, 5), (2, 1)], (4, 2, 5)),
        ("x0", "x1"),
        replace(X_X, n=20, k=2),
    ),
    "of two that share an axis": (
        LoneOperator("Mul", [(3, 2, 1), (3, 1, 5)], (3, 2, 5)),
        ("x1", "x0"),
        replace(X_X, n=5, k=2, g=3),
    ),
    "of two, and the slope of an activation": (
        LoneOperator("Add", [(2, 6), (2, 6)], (2, 6), [(6,)]),
        ("x0", "x1"),
        replace(X_X, g=12),
    ),
    "of a map and its slope": (LoneOperator("PRelu", [(2, 6)], (2, 6), [(6,)]), ("x0", "w0"), replace(X_W, n=2, g=6)),
    "of a map and its scale": (
        LoneOperator("BatchNormalization", [(2, 3, 4)], (2, 3, 4), [(3,)] * 4),
        ("x0", "w0"),
        replace(X_W, n=8, g=3),
    ),
    "of a window of channels": (
        LoneOperator("LRN", [(2, 6, 4, 5)], (2, 6, 4, 5), (), {"size": 4}),
        ("x0", None),
        replace(X, n=2, p=6, q=20, r=4, padding=(1, 0, 2, 0)),
    ),
    "of a sum of squares": (LoneOperator("ReduceSumSquare", [(4, 6)], (4,)), ("x0", None), replace(X, g=4, c=6)),
    "of a sum by an equation": (
        LoneOperator("Einsum", [(4, 6)], (4,), (), {"equation": "ij -> i"}),
        ("x0", None),
        replace(X, g=4, c=6),
    ),
    "of a product by an equation": (
        LoneOperator("Einsum", [(3, 4, 5), (3, 5, 7)], (3, 4, 7), (), {"equation": "bij,bjk->bik"}),
        ("x0", "x1"),
        replace(X_X, n=4, k=7, c=5, g=3),
    ),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_what_is_element_by_element_is_one_loop_nest(name: str) -> None:
    read, operands, layer = ELEMENTS[name]
    nests = read.nests()
    assert nests is not None
    assert nests.layers == (layer,)
    assert (nests.input, nests.weight) == operands


WITHOUT_NEST = {
    "without a shape": LoneOperator("Relu", [None], (4,)),
    "of two maps, one without a shape": LoneOperator("Add", [None, (4,)], (4,)),
    "that reads nothing": LoneOperator("Relu", [], (4,)),
    "of another kind": LoneOperator("Softmax", [(4,)], (4,)),
    "heads of which nothing is known": LoneOperator("HeadProducts", [(6, 5), (6, 5)], (2, 3, 3)),
    "heads of nothing": LoneOperator(
        "HeadProducts", [], (2, 3, 3), (), {"rows": 3, "columns": 3, "depth": 5, "batch": 2}
    ),
    "a product whose batch lies inside its matrices": LoneOperator(
        "com.microsoft::FusedMatMul", [(3, 2, 5)], (2, 3, 7), [(2, 5, 7)], {"transBatchA": 1}
    ),
    "a product whose factors and addend are alike": LoneOperator(
        "Gemm", [(2, 3, 3)] * 3, (2, 3, 3), (), {"input_shapes": [[2, 3, 3], [2, 3, 3]]}
    ),
    "a product beside two addends": LoneOperator(
        "Gemm", [(2, 3, 7), (2, 3, 5)], (2, 3, 7), [(2, 5, 7), (7,)], {"input_shapes": [[2, 3, 5], [2, 5, 7]]}
    ),
    "a product of one operand": LoneOperator("Gemm", [(3, 5)], (3, 7), [(7,)]),
    "a product that is a number": LoneOperator("Gemm", [(5,)], (), [(5, 1)]),
    "a product of a part of the features": LoneOperator("Gemm", [(3, 5)], (3, 7), [(5, 6)]),
    "a product of more than there is": LoneOperator("Gemm", [(3, 5)], (3, 7), [(6, 7)]),
    "a product of one matrix": LoneOperator("MatMul", [(3, 5)], (3, 7), [(3,)]),
    "a product of a number": LoneOperator("MatMul", [()], (3, 7), [(3, 7)]),
    "a product of other features": LoneOperator("MatMul", [(3, 5), (6, 7)], (3, 7)),
    "a product of batches that differ": LoneOperator("MatMul", [(2, 3, 5), (4, 5, 7)], (8, 3, 7)),
    "a normalisation of a part": LoneOperator("BatchNormalization", [(2, 6)], (2, 6), [(5,), (5,), (5,), (5,)]),
    "elements of two parts that make no whole": LoneOperator("Add", [(4, 1), (1, 5)], (4, 5, 2)),
    "elements of a part alone": LoneOperator("Relu", [(4, 1)], (4, 5)),
    "an equation without an output": LoneOperator("Einsum", [(2, 3), (3, 4)], (2, 4), (), {"equation": "ij,jk"}),
    "a diagonal": LoneOperator("Einsum", [(2, 2), (2, 4)], (2, 4), (), {"equation": "ii,ik->ik"}),
    "an axis that is added up alone": LoneOperator("Einsum", [(2, 3), (2, 4)], (2, 4), (), {"equation": "ij,ik->ik"}),
    "a letter that is broadcast": LoneOperator(
        "Einsum", [(1, 4, 5), (3, 5, 7)], (3, 4, 7), (), {"equation": "bij,bjk->bik"}
    ),
    "three matrices": LoneOperator("Einsum", [(2, 3)] * 3, (2, 3), (), {"equation": "ij,ij,ij->ij"}),
    "a transposition": LoneOperator("Einsum", [(2, 3)], (3, 2), (), {"equation": "ij->ji"}),
    "a view of another shape": LoneOperator("Einsum", [(6,), (3, 4)], (2, 4), (), {"equation": "ij,jk->ik"}),
    "a window of the channels of a vector": LoneOperator("LRN", [(5,)], (5,), (), {"size": 3}),
    "a window of channels without a size": LoneOperator("LRN", [(1, 4, 5)], (1, 4, 5)),
    "elements of another number": LoneOperator("Relu", [(4,)], (5,)),
    "elements of three maps": LoneOperator("Sum", [(4,), (4,), (4,)], (4,)),
    "elements spread over a part": LoneOperator("Add", [(4, 6), (5,)], (4, 6)),
    "elements of too many": LoneOperator("Add", [(7,), (5,)], (7,)),
}


@pytest.mark.parametrize("name", WITHOUT_NEST)
def test_what_is_no_product_has_no_loop_nest(name: str) -> None:
    assert WITHOUT_NEST[name].nests() is None


def test_a_kind_of_a_plugin_has_the_nests_that_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = LoneOperator("Mix", [(1, 4, 3, 3)], (1, 4, 3, 3), [(4, 4)])
    assert mixed.nests() is None
    monkeypatch.setattr(onchip.verify.schedule.nests, "nests_of_plugin", mix_channels)
    nests = mixed.nests()
    assert nests is not None
    assert (nests.input, nests.weight) == ("x0", "w0")
    assert nests.layers == (replace(X_W, k=4, c=4, p=3, q=3),)


def test_a_part_of_a_product_has_fewer_rows_and_all_columns() -> None:
    read, _, layer = PRODUCTS["rows of a vector"]
    nests = read.nests(((1, 2), (0, 7)))
    assert nests is not None
    assert nests.layers == (replace(layer, n=1),)
    assert read.nests(((1, 2), (0, 6))) is None
    shared = LoneOperator("MatMul", [(3, 1, 2, 4), (3, 2, 4, 5)], (3, 2, 2, 5))
    assert shared.nests(((0, 3), (0, 1), (0, 2), (0, 5))) is None
    rows = ((0, 1), (1, 3))
    assert rows_multiplied([(2, 3, 4), (2, 4, 5)], (2, 3, 5), (*rows, (0, 5))) == (
        (*rows, (0, 4)),
        ((0, 1), (0, 4), (0, 5)),
    )
    with pytest.raises(LookupError, match="columns"):
        rows_multiplied([(2, 3, 4), (2, 4, 5)], (2, 3, 5), (*rows, (1, 5)))


@pytest.mark.parametrize("view", [None, *sorted(VIEWS - {SEEN_SHAPES})])
def test_rows_of_an_operand_that_is_no_whole_tensor_in_its_order_are_no_product(view: str | None) -> None:
    seen: dict[str, AttributeValue] = {} if view is None else {view: ["2"]}
    graph = LoneOperator("MatMul", [(3, 5)], (3, 7), [(5, 7)], seen).graph()
    shapes = {tensor.name: tensor.shape or () for tensor in graph.tensors}
    assert multiplies_rows(graph.operators[0], shapes) is (view is None)


@pytest.mark.parametrize(
    ("read", "is_product"),
    [
        (LoneOperator("Gemm", [(3, 5)], (3, 7), [(5, 7), (1, 7)]), True),
        (LoneOperator("Gemm", [(3, 5)], (3, 7), [(7, 5), (7,), ()]), True),
        (LoneOperator("MatMul", [(2, 2, 3, 5)], (2, 2, 3, 7), [(5, 7)]), True),
        (LoneOperator("Odd", [(3, 5)], (3, 7), [(5, 7)]), False),
        (LoneOperator("Gemm", [(3, 5), (3, 7)], (3, 7), [(5, 7)]), False),
        (LoneOperator("Gemm", [(5, 5)], (5, 7), [(5, 7)], {"transA": 1}), False),
        (LoneOperator("MatMul", [(2, 2, 2, 3, 5)], (2, 2, 2, 3, 7), [(5, 7)]), False),
        (LoneOperator("MatMul", [(3, 5)], (4, 7), [(5, 7)]), False),
        (LoneOperator("MatMul", [(3, 5)], (3, 7), [(5, 6)]), False),
        (LoneOperator("MatMul", [(3, 5)], (3, 7), [(5, 7), (5, 7)]), False),
        (LoneOperator("Gemm", [(3, 5)], (3, 7), [(5, 7), (3,)]), False),
    ],
)
def test_rows_are_multiplied_by_one_matrix_beside_parameters_of_columns(
    read: LoneOperator, *, is_product: bool
) -> None:
    graph = read.graph()
    shapes = {tensor.name: tensor.shape or () for tensor in graph.tensors}
    assert multiplies_rows(graph.operators[0], shapes) is is_product


@pytest.mark.parametrize("view", [None, *sorted(VIEWS)])
def test_only_two_inputs_that_are_read_as_they_are_stored_are_multiplied_head_by_head(view: str | None) -> None:
    seen: dict[str, AttributeValue] = {} if view is None else {view: [[2, 3, 3], [2, 3, 3]]}
    (product,) = LoneOperator("MatMul", [(2, 3, 3)] * 2, (2, 3, 3), (), seen).graph().operators
    shapes = dict.fromkeys(("x0", "x1", "y"), (2, 3, 3))
    assert multiplies_matrices(product, shapes) is (view is None)
    assert not multiplies_matrices(replace(product, inputs=("x0", "x0")), shapes)
    assert not multiplies_matrices(product, dict.fromkeys(("x0", "x1", "y"), (2, 2, 2, 3, 3)))


def test_of_elements_that_spread_over_each_other_no_part_has_a_nest() -> None:
    both, _, _ = ELEMENTS["of two that spread over each other"]
    assert both.nests(((0, 4), (0, 2), (0, 5))) is not None
    assert both.nests(((0, 2), (0, 2), (0, 5))) is None


@pytest.mark.parametrize(
    ("name", "region", "expected"),
    [
        ("of one map", ((0, 1), (1, 3), (1, 4), (2, 4)), replace(X, g=2, p=3, q=2)),
        ("of two maps", ((0, 1), (1, 5)), replace(X_X, g=4)),
        ("of a small map and a large one", ((1, 4), (0, 6)), replace(X_X, n=3, g=6)),
        ("of a sum of squares", ((1, 4),), replace(X, g=3, c=6)),
    ],
)
def test_a_part_of_what_is_element_by_element_has_its_own_extents(name: str, region: Region, expected: Layer) -> None:
    nests = ELEMENTS[name][0].nests(region)
    assert nests is not None
    assert nests.layers == (expected,)


def test_an_operator_is_derived_once_and_its_parts_each_time() -> None:
    operator = Operator("f", "Relu", ("x",), ("y",))
    tensors = (Tensor.of_shape("x", (4,), 8, Role.INPUT), Tensor.of_shape("y", (4,), 8, Role.OUTPUT))
    derivation = NestDerivation(Graph("one", tensors, (operator,)), 24)
    assert derivation.of(operator) is derivation.of(operator)
    part = derivation.of(operator, ((1, 3),))
    assert part is not None
    assert part.layers == (Layer(n=2, has_weight=False),)
