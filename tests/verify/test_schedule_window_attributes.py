"""Input regions that attributes imply: omitted attributes, and equivalent ones."""

from __future__ import annotations

import pytest

from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tile import Range, Region
from onchip.verify.schedule.windows import Shape, as_stored, seen, turned


def operator(kind: str, **attributes: AttributeValue) -> Operator:
    return Operator("f", kind, ("x",), ("y",), (), attributes)


def row(start: int, stop: int) -> Region:
    """Return a region of a map of one channel and one row."""
    return ((0, 1), (0, 1), (0, 1), (start, stop))


def along_a_row(made: Operator, taps: int, sizes: tuple[int, int], wanted: Range) -> Range:
    """Return the input range of a row, for `sizes` before and after."""
    maps = [(1, 1, 1, size) for size in sizes]
    (need,) = seen(made, maps[:1], (1, 1, 1, taps), maps[1], row(*wanted))
    assert need is not None
    assert need[:3] == ((0, 1), (0, 1), (0, 1))
    return need[3]


@pytest.mark.parametrize(
    ("made", "taps", "sizes", "wanted", "expected"),
    [
        (operator("Conv", kernel_shape=[1, 3]), 3, (9, 7), (2, 4), (2, 6)),
        (operator("Conv"), 3, (9, 7), (2, 4), (2, 6)),
        (operator("Conv", strides=[1, 2]), 3, (9, 4), (1, 3), (2, 7)),
        (operator("Conv", dilations=[1, 2]), 3, (9, 5), (1, 3), (1, 7)),
        (operator("Conv", auto_pad="VALID", pads=[0, 1, 0, 1]), 3, (9, 7), (2, 4), (2, 6)),
        (operator("Conv", auto_pad="SAME_UPPER", pads=[0, 0, 0, 2]), 3, (9, 9), (2, 4), (1, 5)),
        (operator("Conv", auto_pad="SAME_UPPER", strides=[1, 2]), 4, (9, 5), (1, 3), (1, 7)),
        (operator("Conv", auto_pad="SAME_LOWER", strides=[1, 2]), 4, (9, 5), (1, 3), (0, 6)),
        (operator("Conv", auto_pad="SAME_LOWER", dilations=[1, 3]), 2, (9, 9), (3, 5), (1, 6)),
        (operator("Conv", auto_pad="SAME_UPPER", strides=[1, 3]), 2, (9, 3), (1, 2), (3, 5)),
        (operator("ConvTranspose"), 3, (5, 7), (3, 4), (1, 4)),
        (operator("ConvTranspose", strides=[1, 3]), 2, (3, 8), (3, 4), (1, 2)),
        (operator("ConvTranspose", auto_pad="VALID", strides=[1, 2]), 3, (3, 7), (2, 3), (0, 2)),
        (operator("ConvTranspose", strides=[1, 2], dilations=[1, 3]), 2, (3, 8), (3, 4), (0, 2)),
    ],
)
def test_what_is_left_out_is_one_or_nothing(
    made: Operator, taps: int, sizes: tuple[int, int], wanted: Range, expected: Range
) -> None:
    assert along_a_row(made, taps, sizes, wanted) == expected


@pytest.mark.parametrize(("kind", "sizes", "seen_of_it"), [("Conv", (9, 7), (2, 6)), ("ConvTranspose", (5, 7), (0, 4))])
def test_maps_of_one_dimension_are_seen_in_parts(kind: str, sizes: tuple[int, int], seen_of_it: Range) -> None:
    maps = [(1, 1, size) for size in sizes]
    region = ((0, 1), (0, 1), (2, 4))
    assert seen(operator(kind), maps[:1], (1, 1, 3), maps[1], region) == (((0, 1), (0, 1), seen_of_it),)


@pytest.mark.parametrize(
    ("made", "weight", "source", "output"),
    [
        (operator("ConvTranspose", auto_pad="SAME_UPPER"), (1, 1, 3, 3), (1, 1, 4, 4), (1, 1, 6, 6)),
        (operator("ConvTranspose", kernel_shape=[3, 3]), None, (1, 1, 4, 4), (1, 1, 6, 6)),
        (operator("ConvTranspose", kernel_shape=[3, 3]), (1, 1, 3, 3), (1, 16), (1, 1, 6, 6)),
        (operator("ConvTranspose", kernel_shape=[]), (1, 1, 3, 3), (4, 4), (6, 6)),
        (operator("Conv", kernel_shape=[]), (1, 1, 3, 3), (4, 4), (6, 6)),
        (operator("MaxPool", kernel_shape=[0, 2]), None, (1, 1, 4, 4), (1, 1, 3, 3)),
        (operator("Pad", pads=[0, 0, 0, 1]), None, (3, 4), (3, 6)),
        (operator("Pad"), None, (3, 4), (3, 6)),
        (operator("Slice", starts=[2], steps=[0]), None, (7,), (6,)),
        (operator("Slice", starts=[1], seen_shapes=[[7]]), None, (7,), (6,)),
        (operator("Upsample", seen_shapes=[[3, 4]]), None, (3, 4), (3, 8)),
        (operator("Squeeze"), None, (2, 3), (3, 2)),
        (operator("Concat"), None, (2, 3), (2, 3)),
        (operator("Concat", axis=2), None, (2, 3), (2, 3)),
        (operator("Concat", axis=-3), None, (2, 3), (2, 3)),
        (operator("Concat", axis=1), None, (2, 3), (2, 4)),
        (operator("Concat", axis=0), None, (2, 3), (1, 2, 3)),
        (operator("MaxPool", kernel_shape=[3]), None, (1, 1, 16), (1, 1, 4, 4)),
        (operator("Conv"), (1, 1, 3), (1, 1, 4, 4), (1, 1, 2, 2)),
        (operator("ConvTranspose", kernel_shape=[3]), (1, 1, 3), (1, 1, 16), (1, 1, 4, 4)),
        (operator("Relu"), None, (2, 3), (2, 6)),
        (operator("Relu"), None, (1, 2, 6), (2, 6)),
        (operator("Transpose", perm=[0, 2, 1, 3, 4], seen_shapes=[[1, 2, 2, 4, 4]]), None, (1, 4, 2, 8), (1, 4, 4, 4)),
        (operator("Transpose", perm=[0, 1, 2, 3]), None, (1, 4, 2, 8), (1, 4, 4, 4)),
    ],
)
def test_of_what_does_not_fit_nothing_is_said_but_of_all_of_it(
    made: Operator, weight: Shape | None, source: Shape, output: Shape
) -> None:
    whole = tuple((0, size) for size in output)
    assert seen(made, [source], weight, output, whole) == (tuple((0, size) for size in source),)
    with pytest.raises(LookupError):
        seen(made, [source], weight, output, (*whole[:-1], (0, output[-1] - 1)))


@pytest.mark.parametrize(
    ("source", "output", "region", "expected"),
    [
        ((1, 3, 1, 5), (3, 5), ((1, 2), (0, 4)), ((0, 1), (1, 2), (0, 1), (0, 4))),
        ((3, 5), (3, 1, 5, 1), ((1, 2), (0, 1), (2, 4), (0, 1)), ((1, 2), (2, 4))),
        ((2, 2), (1, 2, 2), ((0, 1), (1, 2), (0, 1)), ((1, 2), (0, 1))),
    ],
)
def test_dimensions_of_one_element_come_and_go(source: Shape, output: Shape, region: Region, expected: Region) -> None:
    assert seen(operator("Reshape"), [source], None, output, region) == (expected,)


@pytest.mark.parametrize(
    ("starts", "steps", "wanted", "expected"),
    [([-9], [1], (0, 2), (0, 2)), ([-3], [1], (0, 2), (4, 6)), ([5], [3], (0, 1), (5, 6)), ([1], [2], (1, 3), (3, 6))],
)
def test_a_slice_counts_from_either_end(starts: list[int], steps: list[int], wanted: Range, expected: Range) -> None:
    made = operator("Slice", starts=[*starts], ends=[7], steps=[*steps])
    assert seen(made, [(7,)], None, (3,), (wanted,)) == ((expected,),)


def test_an_operator_that_reads_nothing_is_seen_whole() -> None:
    assert seen(operator("Constant"), [], None, (3,), ((0, 3),)) == ()
    with pytest.raises(LookupError):
        seen(operator("MaxPool"), [], None, (1, 1, 3, 3), ((0, 1), (0, 1), (0, 1), (0, 3)))


def test_without_pads_nothing_is_padded() -> None:
    assert seen(operator("Pad"), [(1, 1, 1, 4)], None, (1, 1, 1, 4), row(1, 3)) == (row(1, 3),)


def test_other_operands_than_the_first_are_seen_whole() -> None:
    needs = seen(operator("Pad"), [(1, 1, 1, 4), (8,)], None, (1, 1, 1, 4), row(1, 3))

    assert needs == (row(1, 3), ((0, 8),))


def test_what_has_only_parameters_sees_no_input() -> None:
    assert seen(operator("Add"), [], None, (1, 1, 1, 4), row(1, 3)) == ()


def test_a_transpose_of_the_channels_of_an_image_is_known_for_some_pixels_of_all_channels() -> None:
    shuffle, sizes = operator("Transpose", perm=[0, 2, 1, 3, 4], seen_shapes=[[1, 2, 2, 3, 5]]), (1, 4, 3, 5)
    pixels = ((0, 1), (0, 4), (1, 2), (0, 3))
    assert seen(shuffle, [sizes], None, sizes, pixels) == (pixels,)
    plain = operator("Transpose", perm=[0, 1, 2, 3], seen_shapes=[""])
    assert seen(plain, [sizes], None, sizes, pixels) == (pixels,)
    with pytest.raises(LookupError):
        seen(shuffle, [sizes], None, sizes, (pixels[0], (0, 2), *pixels[2:]))
    with pytest.raises(LookupError):
        seen(operator("Transpose", perm=[0, 1, 2]), [sizes[1:]], None, sizes[1:], pixels[1:])


def test_elements_of_several_rows_are_in_all_columns_of_these_rows() -> None:
    assert as_stored(((0, 1), (2, 7)), (1, 12), (3, 4)) == ((0, 2), (0, 4))
    assert as_stored(((0, 1), (5, 7)), (1, 12), (3, 4)) == ((1, 2), (1, 3))


@pytest.mark.parametrize(("shape", "stored"), [((2, 3), (2,)), ((2, 3), (3, 3)), ((0, 3), (0,))])
def test_shapes_of_different_sizes_or_without_elements_are_no_views_of_each_other(shape: Shape, stored: Shape) -> None:
    with pytest.raises(LookupError, match="shape"):
        as_stored(tuple((0, size) for size in shape), shape, stored)


def test_a_turned_matrix_has_the_dimensions_of_its_input_in_the_order_that_it_states() -> None:
    assert turned(operator("Transpose", perm=[1, 0]), (3, 5), (5, 3), ((1, 3), (0, 2))) == ((0, 2), (1, 3))
    for order, output in (([1, 0], (3, 5)), ([0, 0], (3, 3)), ([0, 0], (5, 3))):
        with pytest.raises(LookupError, match="perm"):
            turned(operator("Transpose", perm=[*order]), (3, 5), output, tuple((0, size) for size in output))


@pytest.mark.parametrize("view", ["seen_parts", "seen_orders", "written_orders"])
def test_a_turned_matrix_that_is_read_or_written_through_another_view_is_not_known(view: str) -> None:
    attributes: dict[str, AttributeValue] = {"perm": [1, 0], view: [""]}
    made = operator("Transpose", **attributes)
    with pytest.raises(LookupError, match="view"):
        turned(made, (3, 5), (5, 3), ((1, 3), (0, 2)))
