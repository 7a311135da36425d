"""Faults in how operators are split."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

FAULTS: Final = (
    Planted(
        name="what lies behind the last window is not read",
        file="src/onchip/ops/slicing.py",
        old="following = self.size if stop == axis_size else stop // self.per * self.step + self.offset",
        new="following = stop // self.per * self.step + self.offset",
        level="split",
    ),
    Planted(
        name="a window without its dilation",
        file="src/onchip/ir/window.py",
        old="return (self.kernel - 1) * self.dilation + 1",
        new="return self.kernel",
        level="split",
    ),
    Planted(
        name="bands are not rounded up to the alignment",
        file="src/onchip/model/capacity/room.py",
        old="padding = -size % self.memory.alignment_bytes",
        new="padding = 0",
        level="split",
    ),
    Planted(
        name="the last part of a sum forgets the others",
        file="src/onchip/transform/slices/emission.py",
        old="if described.part.adds_to_a_sum:",
        new="if described.part is SumPart.MIDDLE:",
        level="split",
    ),
    Planted(
        name="room for splits is short of one byte",
        file="src/onchip/scheduling/candidates/choice.py",
        old="fit &= together <= limit",
        new="fit &= together < limit",
        level="split",
    ),
    Planted(
        name="a group's input channels are taken for one output channel's",
        file="src/onchip/ops/slicing.py",
        old="per, step = written.terms[outer], dimension.terms[outer]",
        new="per, step = 1, dimension.terms[outer]",
        level="split",
    ),
)
