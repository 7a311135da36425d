"""Faults in the tiles of operators."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

FAULTS: Final = (
    Planted(
        name="elements behind the last window are not read",
        file="src/onchip/ops/slicing.py",
        old="following = self.size if stop == axis_size else stop // self.per * self.step + self.offset",
        new="following = stop // self.per * self.step + self.offset",
        level="tiles",
    ),
    Planted(
        name="a window without its dilation",
        file="src/onchip/ir/window.py",
        old="return (self.kernel - 1) * self.dilation + 1",
        new="return self.kernel",
        level="tiles",
    ),
    Planted(
        name="a group's input channels are taken for one output channel's",
        file="src/onchip/ops/slicing.py",
        old="per, step = written.terms[outer], dimension.terms[outer]",
        new="per, step = 1, dimension.terms[outer]",
        level="tiles",
    ),
    Planted(
        name="borders between tiles are counted twice",
        file="src/onchip/scheduling/tiles/bounds.py",
        old="behind_it = np.maximum(held, link.border) * link.row_bytes + after[ran]",
        new="behind_it = (held + link.border) * link.row_bytes + after[ran]",
        level="tiles",
    ),
    Planted(
        name="the smallest tile is the largest",
        file="src/onchip/scheduling/tiles/bounds.py",
        old="return min((whole, *tilings))",
        new="return max((whole, *tilings))",
        level="tiles",
    ),
)
