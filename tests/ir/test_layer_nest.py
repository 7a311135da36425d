from __future__ import annotations

from itertools import product

import pytest

from onchip.errors import InputError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, WEIGHT, Axis, Layer


def test_a_text_says_bounds_and_options() -> None:
    layer = Layer.of_text("conv:n2k256c128p14q7r3s5:stride2x1:dilation1x2:pad1:groups32")
    assert layer == Layer(2, 8, 4, 14, 7, 3, 5, 32, (2, 1), (1, 2), (1, 1, 1, 1))


def test_channels_in_a_text_are_those_of_all_groups_and_those_of_a_layer_of_one() -> None:
    depthwise = Layer.of_text("conv:k32c32p4q4r3s3:groups32")
    assert (depthwise.k, depthwise.c, depthwise.g) == (1, 1, 32)
    assert depthwise.macs == 32 * 16 * 9


def test_a_product_has_rows_as_batch_and_the_inner_dimension_as_input_channels() -> None:
    assert Layer.of_text("gemm:m64n256k512") == Layer(n=64, k=256, c=512)


def test_padding_of_two_numbers_is_height_and_width_and_of_four_is_top_left_bottom_right() -> None:
    assert Layer.of_text("conv:p8q8r3s5:pad1x2").padding == (1, 2, 1, 2)
    assert Layer.of_text("conv:p8q8r3s5:pad1x2x0x1").padding == (1, 2, 0, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pool:p2", "pool:p2: 'pool' is no kind of layer"),
        ("conv:x2", "'x2' gives no sizes"),
        ("conv:p2p3", "'p2p3' gives no sizes"),
        ("conv:", "'' gives no sizes"),
        ("conv:p2:stride", "'stride' is not an option"),
        ("conv:p2:stride1x1x1", "'stride1x1x1' is not an option"),
        ("conv:k3c4:groups2", "3 channels k do not make 2 groups"),
        ("conv:k0", "conv:k0: K is 0"),
        ("gemm:m0n1k1", "gemm:m0n1k1: M is 0"),
        ("gemm:m1n1k0", "gemm:m1n1k0: K is 0"),
        ("conv:k2:groups0", "2 channels k do not make 0 groups"),
        ("conv:p2:stride0", "stride is 0"),
        ("conv:p2r3:pad2", "leaves no input"),
    ],
)
def test_a_text_that_is_no_layer_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Layer.of_text(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_partial_sums_are_at_least_as_wide_as_the_output() -> None:
    with pytest.raises(InputError, match="partial sums have 4 bits"):
        Layer(output_bits=8, partial_bits=4)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 2), (2, 5)])
def test_the_halo_is_the_span_of_the_positions_touched(stride: int, dilation: int) -> None:
    axis = Axis("P", "R", stride, dilation, 0, 100)
    for outputs, filters in product(range(1, 5), range(1, 5)):
        touched = [p * stride + r * dilation for p in range(outputs) for r in range(filters)]
        assert axis.span(outputs, filters) == max(touched) - min(touched) + 1


def test_padded_zeros_are_no_elements_of_the_input_unless_they_are_stored() -> None:
    layer = Layer.of_text("conv:n2k4c3p8q8r3s3:pad1")
    assert layer.elements(INPUT) == 2 * 3 * 8 * 8
    assert layer.with_stored_padding().elements(INPUT) == 2 * 3 * 10 * 10
    assert layer.elements(WEIGHT) == 4 * 3 * 9
    assert layer.elements(OUTPUT) == 2 * 4 * 64


def test_a_layer_without_weights_has_no_weight_elements() -> None:
    pool = Layer(p=4, q=4, r=2, s=2, g=8, stride=(2, 2), has_weight=False)
    assert pool.operands == (INPUT, OUTPUT)
    assert pool.elements(WEIGHT) == 0


def test_padded_bounds_are_not_shorter() -> None:
    layer = Layer.of_text("conv:k6p7")
    longer = dict.fromkeys(LOOPS, 1) | {"K": 8, "P": 7}
    assert layer.padded_to(longer).bounds == longer
    with pytest.raises(InputError, match="P has 6 iterations"):
        layer.padded_to(longer | {"P": 6})
