"""The tiles in which an operator runs, as a plan file records them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from onchip.errors import GraphError


class TilesOption(StrEnum):
    """The tilings that a plan may use: the best that the search finds, or whole operators only."""

    AUTO = "auto"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class OperatorTiles:
    """The tiles of an operator along one of its axes, by their ends in ascending order.

    The axes are the dimensions of the operator's output. Without ends, the operator is *recomputed*: it runs for each
    tile of its only reader, and computes all that the tile reads. Raises GraphError for ends that do not ascend from
    above 0.
    """

    axis: int
    ends: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.axis < 0 or any(end <= start for start, end in pairwise((0, *self.ends))):
            raise GraphError("it has an empty tile", place="tiles", expected="an axis, and ends that ascend")

    @property
    def is_recomputed(self) -> bool:
        """Return True if the operator runs for each tile of its reader, so that borders are computed again."""
        return not self.ends
