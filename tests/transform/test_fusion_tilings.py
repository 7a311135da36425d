from __future__ import annotations

import pytest

from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode
from onchip.ops.fusable import FeatureMap
from support.stacks import tilings_of


@pytest.mark.parametrize("sizes", TileSizes)
@pytest.mark.parametrize("pixels", [1, 2, 7, 36, 960])
def test_lists_of_sizes_rise_to_the_whole_axis(sizes: TileSizes, pixels: int) -> None:
    for found in (sizes.along_columns(pixels), sizes.along_rows(pixels)):
        assert list(found) == sorted(set(found))
        assert (found[0], found[-1]) == (1, pixels)


def test_sizes_of_the_paper_are_36_and_110() -> None:
    for sizes, count in ((TileSizes.CASE_STUDY, 36), (TileSizes.SWEEP, 110)):
        assert len(sizes.along_columns(960)) * len(sizes.along_rows(540)) == count
    assert TileSizes.HALVES.along_columns(12) == (1, 2, 3, 6, 12)
    assert TileSizes.POWERS.along_rows(12) == (1, 2, 4, 8, 12)
    assert TileSizes.DIVISORS.along_rows(12) == (1, 2, 3, 4, 6, 12)
    assert TileSizes.ALL.along_rows(4) == (1, 2, 3, 4)


def test_modes_that_do_the_same_are_tried_once() -> None:
    """A tile without a neighbour to the right has no cached columns, one without a neighbour below no cached rows."""
    found = tilings_of(FeatureMap("m", 1, 2, 2), TileSizes.ALL)
    modes = {
        (one.columns, one.rows): [each.mode for each in found if (each.columns, each.rows) == (one.columns, one.rows)]
        for one in found
    }
    recompute, h_cached, fully_cached = OverlapMode
    assert modes == {
        (1, 1): [recompute, h_cached, fully_cached],
        (1, 2): [recompute, h_cached],
        (2, 1): [recompute, fully_cached],
        (2, 2): [recompute],
    }
