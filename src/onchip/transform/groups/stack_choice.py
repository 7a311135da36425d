"""A fused group of consecutive layers with its tilings and the places of its feature maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from onchip.answer.stacks import Tiling
from onchip.arch.memory import DRAM
from onchip.transform.groups.stacks import LayerSpan
from onchip.transform.groups.tilings import TileBox

Homes: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of a feature map and the on-chip memory that holds it; other feature maps are in DRAM."""
FEW_TILINGS: Final = 128
"""Number of tilings up to which those of a box are costed one by one."""


@dataclass(frozen=True, slots=True)
class StackChoice:
    """A fused group, its tiles, and the memories of its inputs (`homes`) and its output while it runs.

    With a `box` the choice represents all tilings of the box, and `tiling` is one of them.
    """

    span: LayerSpan
    tiling: Tiling
    homes: Homes = ()
    output_home: str = DRAM
    box: TileBox | None = None

    @property
    def tiles(self) -> Tiling | TileBox:
        """Return the box if there is one, else the tiling."""
        return self.box or self.tiling

    @property
    def without_tiles(self) -> tuple[LayerSpan, Homes, str]:
        """Key that choices share if they differ in their tiles only."""
        return self.span, self.homes, self.output_home

    def parts(self) -> tuple[StackChoice, ...]:
        """Return the tilings of a small box one by one, or a large box in quarters; nothing for a single tiling."""
        if self.box is None:
            return ()
        if self.box.count <= FEW_TILINGS:
            return self.singly()
        return tuple(choice_of(self.span, one, self.homes, self.output_home) for one in self.box.quarters())

    def singly(self) -> tuple[StackChoice, ...]:
        """Return one choice for each tiling of the box, or the choice itself."""
        if self.box is None:
            return (self,)
        return tuple(choice_of(self.span, one, self.homes, self.output_home) for one in self.box.tilings)

    def __str__(self) -> str:
        homes = "".join(f", {name!r} in {memory!r}" for name, memory in self.homes)
        output = "" if self.output_home == DRAM else f", output in {self.output_home!r}"
        return f"layers {self.span.start}-{self.span.stop - 1}, {self.tiles}{homes}{output}"


def choice_of(span: LayerSpan, tiling: Tiling | TileBox, homes: Homes, output_home: str) -> StackChoice:
    """Return the choice of one tiling, or of all tilings of a box."""
    if isinstance(tiling, Tiling):
        return StackChoice(span, tiling, homes, output_home)
    first = Tiling(tiling.columns[0], tiling.rows[0], tiling.mode)
    return StackChoice(span, first, homes, output_home, tiling)
