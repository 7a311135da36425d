"""Quantised convolutions and products in tiles; their scales and zero points may precede the weight."""

from __future__ import annotations

import pytest

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry

Shapes = tuple[tuple[int, ...], ...]
CONVOLUTION = ("Conv", (1, 4, 9, 9), (6, 4, 3, 3), (1, 6, 7, 7))
PRODUCT = ("MatMul", (2, 5, 4), (4, 6), (2, 5, 6))
SQUARES = ("MatMul", (2, 4, 4), (4, 4), (2, 4, 4))


def geometry(kind: str, source: tuple[int, ...], parameters: Shapes, written: tuple[int, ...]) -> Geometry | None:
    tensors = [Tensor.of_shape("x", source, 8, Role.INPUT), Tensor.of_shape("y", written, 8, Role.OUTPUT)]
    names = tuple(f"p{at}" for at in range(len(parameters)))
    tensors += [Tensor.of_shape(name, shape, 8, Role.PARAMETER) for name, shape in zip(names, parameters, strict=True)]
    operator = Operator("op", kind, ("x",), ("y",), names)
    return geometry_of(operator, Graph("one", tuple(tensors), (operator,)), is_model=True)


@pytest.mark.parametrize(("kind", "source", "weight", "written"), [CONVOLUTION, PRODUCT, SQUARES])
@pytest.mark.parametrize("before", [(), ((), ()), ((1,), ())])
def test_what_stands_before_the_weight_does_not_change_how_it_is_cut(
    kind: str, source: tuple[int, ...], weight: tuple[int, ...], written: tuple[int, ...], before: Shapes
) -> None:
    plain, quantised = (geometry(kind, source, (*each, weight), written) for each in ((), before))
    assert plain is not None
    assert quantised is not None
    assert quantised.axes == plain.axes
    assert (quantised.reads[0].spans, quantised.reads[-1].spans) == (plain.reads[0].spans, plain.reads[-1].spans)
    assert [access.tensor for access in quantised.reads] == ["x", *(f"p{at}" for at in range(len(before) + 1))]


@pytest.mark.parametrize(("kind", "source", "weight", "written"), [CONVOLUTION, PRODUCT])
def test_scales_of_channels_are_cut_with_them(
    kind: str, source: tuple[int, ...], weight: tuple[int, ...], written: tuple[int, ...]
) -> None:
    found = geometry(kind, source, ((), (), weight, (6,), (), (6,)), written)
    assert found is not None
    channels = 1 if kind == "Conv" else 2
    assert [read.spans[0].axis for read in found.reads if len(read.spans) == 1] == [channels, channels]


def test_a_row_that_is_added_may_stand_before_the_matrix() -> None:
    found, plain = (geometry("Gemm", (5, 4), rows, (5, 6)) for rows in (((6,), (4, 6)), ((4, 6), (6,))))
    assert found is not None
    assert plain is not None
    assert found.axes == plain.axes
    assert [access.spans for access in found.reads] == [plain.reads[at].spans for at in (0, 2, 1)]


def test_a_product_whose_rows_have_scales_of_their_own_is_not_cut() -> None:
    assert geometry("MatMul", (2, 5, 4), ((5,), (), (4, 6)), (2, 5, 6)) is None
