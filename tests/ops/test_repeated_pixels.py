"""Operators that repeat each pixel equally often, compared with ONNX's formulas for nearest resizing."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor

import pytest

from onchip.ir.operator import SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.window import Window
from onchip.ops.views import Pace, paces_of

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
