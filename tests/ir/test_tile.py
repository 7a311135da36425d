from __future__ import annotations

from typing import Any

import pytest

from onchip.errors import GraphError
from onchip.ir.tile import SumPart, Tile

CONV: dict[str, Any] = {
    "operator": "conv",
    "inputs": ("x",),
    "parameters": ("w",),
    "outputs": ("y",),
    "shapes": ((1, 2, 8, 8), (2, 2, 3, 3), (1, 2, 6, 6)),
    "regions": (((0, 1), (0, 2), (2, 6), (0, 3)),),
}


def test_a_tile_knows_the_whole_shape_of_each_operand() -> None:
    assert Tile(**CONV).shape == {"x": (1, 2, 8, 8), "w": (2, 2, 3, 3), "y": (1, 2, 6, 6)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shapes": ((1, 2, 8, 8),)}, "tile of 'conv' has 1 shapes"),
        ({"regions": ()}, "has 0 regions"),
        ({"regions": (((0, 1), (0, 2), (2, 6)),)}, "'y' has 3 ranges"),
        ({"regions": (((0, 1), (0, 2), (2, 7), (0, 3)),)}, "'y' has the range [2, 7]"),
        ({"regions": (((0, 1), (0, 2), (2, 2), (0, 3)),)}, "'y' has the range [2, 2]"),
        ({"regions": (((-1, 1), (0, 2), (2, 6), (0, 3)),)}, "'y' has the range [-1, 1]"),
        ({"reduction": (1, 1), "part": SumPart.START}, "sums up the range [1, 1]"),
    ],
)
def test_nonsense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as raised:
        Tile(**{**CONV, **change})
    assert message in str(raised.value)
