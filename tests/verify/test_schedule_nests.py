"""The loop nests of windows that the verifier derives, compared with those computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.ir.layer import Layer
from onchip.ir.tile import Region
from onchip.verify.schedule.nests import Nests
from support.derived_nests import LoneOperator, conv, pool, reads

X_W, X, X_X = reads("x0", "w0"), reads("x0"), reads("x0", "x1")
WINDOWS = {
    "along one dimension": (
        conv((1, 4, 10), (6, 4, 3), (1, 6, 8), kernel_shape=[3]),
        replace(X_W, k=6, c=4, q=8, s=3),
    ),
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
    "in groups": (
        conv((1, 4, 5, 5), (6, 2, 1, 1), (1, 6, 5, 5), group=2),
        replace(X_W, k=3, c=2, p=5, q=5, g=2),
    ),
    "behind all that does not reach": (
        pool((1, 1, 9, 9), (1, 1, 2, 3), kernel_shape=[2, 3], strides=[4, 3]),
        replace(X, p=2, q=3, r=2, s=3, stride=(4, 3)),
    ),
    "with a weight that stands behind other parameters": (
        LoneOperator("QLinearConv", [(1, 4, 5, 5)], (1, 6, 4, 4), [(1,), (6, 4, 2, 2)]),
        replace(reads("x0", "w1"), k=6, c=4, p=4, q=4, r=2, s=2),
    ),
    "of a view of a vector": (
        conv((1, 32), (6, 2, 3, 2), (1, 6, 2, 3)),
        replace(X_W, k=6, c=2, p=2, q=3, r=3, s=2),
    ),
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
    ],
)
def test_a_transposed_convolution_has_a_nest_for_each_place_of_its_outputs_between_two_inputs(
    read: LoneOperator, region: Region | None, layers: tuple[Layer, ...]
) -> None:
    nests = read.nests(region)
    assert nests is not None
    assert nests.layers == layers
    assert (nests.input, nests.weight) == ("x0", "w0")


NONE = {
    "that slides along four dimensions": conv((1, 1, 9, 9, 9, 9), (1, 1, 2, 2, 2, 2), (1, 1, 8, 8, 8, 8)),
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


def test_sums_in_the_making_have_at_least_the_bits_of_what_is_written() -> None:
    (layer,) = (conv((1, 4, 9), (6, 4, 1), (1, 6, 9)).nests(partial_bits=12) or Nests((), "", None, 0)).layers
    assert layer.partial_bits == 16
