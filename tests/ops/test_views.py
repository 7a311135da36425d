"""Views, strided copies and repeated pixels: the parts of a tensor that a reader sees, whole and in tiles."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations, product
from math import ceil, floor, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range
from onchip.ir.window import Window
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry, Span, spans_as_stored
from onchip.ops.views import Pace, paces_of
from support.tiled import Attributes

SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)


def factorised(chance: st.DataObject, total: int) -> list[int]:
    """Draw a shape with `total` elements."""
    shape, rest = [], total
    while rest > 1:
        size = chance.draw(st.sampled_from([size for size in range(1, rest + 1) if rest % size == 0]))
        shape.append(size)
        rest //= size
        if len(shape) == 5:
            shape.append(rest)
            rest = 1
    return shape or [1]


def spans_of(chance: st.DataObject, seen: list[int]) -> list[Span]:
    """Draw for each dimension a relation to its axis, or none."""
    spans = []
    for axis, size in enumerate(seen):
        place = chance.draw(st.sampled_from([None, axis]))
        per, step, extent = (chance.draw(st.integers(1, most)) for most in (3, 4, 5))
        offset = chance.draw(st.integers(-5, 5))
        spans.append(Span(size) if place is None else Span(size, axis, per, step, offset, extent))
    return spans


@given(st.data(), SIZES)
def test_what_is_needed_of_a_view_is_needed_of_what_is_stored(chance: st.DataObject, seen: list[int]) -> None:
    stored = factorised(chance, prod(seen))
    order = chance.draw(st.sampled_from([None, *permutations(range(len(stored)))]))
    spans = spans_of(chance, seen)
    tile = [chance.draw(st.integers(0, 4)) for _ in seen]
    ranges = [(start, start + chance.draw(st.integers(1, 4))) for start in tile]
    axis_size = 1000  # no tile is the last one, which takes all elements that follow
    found = spans_as_stored(spans, stored, order)
    assert [span.size for span in found] == stored
    turned = range(len(stored)) if order is None else order
    numbered = np.arange(prod(stored)).reshape(stored).transpose(turned).reshape(seen)
    box = tuple(slice(*needed(span, ranges, axis_size, at)) for at, span in enumerate(spans))
    places = np.stack(np.unravel_index(numbered[box].reshape(-1), stored), axis=-1)
    for dimension, span in enumerate(found):
        start, stop = (0, span.size) if span.axis is None else span.range(*ranges[span.axis], axis_size)
        assert all(start <= place < stop for place in places[:, dimension])


def needed(span: Span, ranges: list[tuple[int, int]], axis_size: int, at: int) -> tuple[int, int]:
    """Return the range of elements that positions of the axis need, clipped to the dimension."""
    if span.axis is None:
        return 0, span.size
    start, stop = ranges[at]
    low = start // span.per * span.step + span.offset
    high = (stop - 1) // span.per * span.step + span.offset + span.extent
    low = min(max(low, 0), span.size)
    return low, max(low, min(max(high, 0), span.size))


def test_channels_taken_apart_are_read_as_many_at_a_time() -> None:
    """The map has 112 channels in 4 groups of 28: a tile reads all channels and the same pixels of each group."""
    seen = (Span(1, 0), Span(4, 2), Span(28, 1), Span(56, 3), Span(56, 4))
    assert spans_as_stored(seen, (1, 112, 56, 56)) == (
        Span(1),
        Span(112, 2, step=28, extent=28),
        Span(56, 3),
        Span(56, 4),
    )


def test_channels_put_together_are_read_by_their_groups() -> None:
    seen = (Span(1, 0), Span(112, 1), Span(56, 2))
    assert spans_as_stored(seen, (1, 28, 4, 56)) == (Span(1), Span(28, 1, per=4), Span(4), Span(56, 2))


def test_of_another_number_of_elements_all_is_read() -> None:
    assert spans_as_stored((Span(4, 0),), (5, 2)) == (Span(5), Span(2))


HEADS = ((1, 5, 36), (1, 3, 5, 4), (180, 4, 36, 1), 12)
"""The keys of three heads of four features, in a tensor of adjacent queries, keys and values."""
TURNED = ((1, 5, 36), (1, 3, 4, 5), (180, 4, 1, 36), 12)
EVERY_OTHER = ((4, 6), (2, 3), (12, 2), 7)
CUT = ((4, 6), (4, 2), (6, 1), 3)
SPREAD = ((4, 6), (3, 4, 2), (0, 6, 1), 3)


def geometry(source: tuple[int, ...], written: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Geometry:
    tensors = (Tensor.of_shape("x", source, 8, Role.INPUT), Tensor.of_shape("y", written, 8, Role.OUTPUT))
    operator = Operator("op", "contiguous", ("x",), ("y",), (), {"strides": list(strides), "offset": offset})
    found = geometry_of(operator, Graph("one", tensors, (operator,)), is_model=True)
    assert found is not None
    return found


@pytest.mark.parametrize(("source", "written", "strides", "offset"), [HEADS, TURNED, EVERY_OTHER, CUT, SPREAD])
def test_a_tile_reads_all_that_it_copies(
    source: tuple[int, ...], written: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    found = geometry(source, written, strides, offset)
    numbers = np.arange(prod(source)).reshape(source)
    copied = np.lib.stride_tricks.as_strided(
        numbers.reshape(-1)[offset:], written, [stride * numbers.itemsize for stride in strides]
    )
    for tile in product(*(_pieces(axis.size) for axis in found.axes)):
        region = found.reads[0].region(tile, found.axes)
        assert region is not None
        read = numbers[tuple(slice(*each) for each in region)]
        assert set(copied[tuple(slice(*each) for each in tile)].reshape(-1)) <= set(read.reshape(-1))


def test_pixels_that_are_copied_one_by_one_are_read_so() -> None:
    found = geometry(*HEADS)
    assert found.reads[0].region([(0, 1), (0, 3), (2, 3), (0, 4)], found.axes) == ((0, 1), (2, 3), (0, 36))
    assert found.reads[0].region([(0, 1), (0, 3), (0, 2), (0, 4)], found.axes) == ((0, 1), (0, 2), (0, 36))


@pytest.mark.parametrize(
    "attributes", [{}, {"strides": [6, 1], "offset": 5}, {"strides": [6, -1]}, {"strides": [6]}, {"strides": [7, 1]}]
)
def test_it_is_not_cut_where_nothing_says_what_it_copies(attributes: Attributes) -> None:
    tensors = (Tensor.of_shape("x", (4, 6), 8, Role.INPUT), Tensor.of_shape("y", (4, 2), 8, Role.OUTPUT))
    operator = Operator("op", "contiguous", ("x",), ("y",), (), attributes)
    assert geometry_of(operator, Graph("one", tensors, (operator,)), is_model=True) is None


def _pieces(size: int) -> list[Range]:
    return sorted({(0, size), (0, 1), (size // 2, size // 2 + 1), (size - 1, size)})


ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
PLACES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def nearest(place: Fraction, rounding: str) -> int:
    """Return the nearest pixel by ONNX's rule for Resize."""
    is_half = place - floor(place) == Fraction(1, 2)
    match rounding:
        case "floor":
            return floor(place)
        case "ceil":
            return ceil(place)
        case "round_prefer_ceil" if is_half:
            return ceil(place)
        case _:
            return floor(place) if is_half else round(place)


def source_of(pixel: int, size: int, times: int, places: str, rounding: str) -> int:
    """Return the input pixel of an output pixel along an axis of `size` pixels that is enlarged `times` times."""
    match places:
        case "asymmetric":
            place = Fraction(pixel, times)
        case "align_corners":
            place = Fraction(pixel * (size - 1), size * times - 1)
        case _:
            place = (pixel + Fraction(1, 2)) / times - Fraction(1, 2)
    return min(max(nearest(place, rounding), 0), size - 1)


def resize(attributes: Mapping[str, AttributeValue], kind: str = "Resize") -> Operator:
    return Operator("grow", kind, ("x",), ("y",), (), attributes)


@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize("rounding", ROUNDING)
@pytest.mark.parametrize("places", PLACES)
def test_pixels_that_are_repeated_are_those_that_onnx_takes(places: str, rounding: str, times: int) -> None:
    said = {"mode": "nearest", "coordinate_transformation_mode": places, "nearest_mode": rounding}
    found = paces_of(resize(said), (1, 1, 5), (1, 1, 5 * times))
    if found is None:
        return
    for pixel in range(5 * times):
        assert found[-1].seen((pixel, pixel + 1))[0] == source_of(pixel, 5, times, places, rounding)


def test_they_are_known_of_the_ways_that_files_use() -> None:
    known = (
        {"mode": "nearest"},
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"},
    )
    for said in known:
        assert paces_of(resize(said), (1, 2, 3, 4), (1, 2, 6, 12)) == (Pace(0), Pace(0), Pace(0, 1, 2), Pace(0, 1, 3))
    assert paces_of(resize({}, "Upsample"), (1, 4), (1, 8)) == (Pace(0), Pace(0, 1, 2))


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"mode": "linear"},
        {"mode": "nearest", "coordinate_transformation_mode": "align_corners"},
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"},
        {"mode": "nearest", SEEN_SHAPES: [[8]]},
    ],
)
def test_of_others_nothing_is_said(said: dict[str, AttributeValue]) -> None:
    assert paces_of(resize(said), (1, 4), (1, 8)) is None


def test_parts_of_a_pixel_are_not_repeated() -> None:
    assert paces_of(resize({"mode": "nearest"}), (1, 4), (1, 6)) is None
    assert paces_of(resize({"mode": "nearest"}), (1, 4), (1, 2)) is None
    assert paces_of(resize({"mode": "nearest"}), (1, 4), (4, 2)) is None


@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_pixels_at_positions_are_those_that_these_fall_into(repeat: int) -> None:
    window = Window(3, 1, 1, 2, repeat)
    for start in range(-3, 4 * repeat):
        for stop in range(start + 1, 4 * repeat + 4):
            taken = {position // repeat for position in range(start, stop) if 0 <= position < 4 * repeat}
            found = window.pixels((start, stop), 4)
            assert set(range(*found)) == taken
