"""Operator costs stated in a network file, from measurements or another model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from onchip.errors import GraphError

MOST_CYCLES: Final = 2**48
"""Limit for one operator: three days at 1 GHz. The cycles of ten thousand operators fit in 64 bits."""
GREATEST_ENERGY_PJ: Final = 1e18
"""Limit for one operator: a megajoule."""


@dataclass(frozen=True, slots=True)
class ChannelSplits:
    """The numbers of equal channel tiles into which an operator's outputs and parameters may be split.

    `ways` are pairs (parts, cycles of one part) with increasing parts. Each tile reads the whole inputs, or only the
    same channels of them with `cuts_inputs`. Raises GraphError for invalid values.
    """

    cuts_inputs: bool
    ways: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        parts = [parts for parts, _ in self.ways]
        if not parts or parts[0] < 2 or any(one >= other for one, other in pairwise(parts)):
            raise GraphError(f"its parts are {parts}", expected="at least 2, and more with each way")
        for _, cycles in self.ways:
            if not 1 <= cycles <= MOST_CYCLES:
                raise GraphError(f"a part takes {cycles} cycles", expected=f"1 to {MOST_CYCLES:,}")

    def cycles_of(self, parts: int) -> int | None:
        """Return the cycles of one of `parts` tiles, or None if that split is not listed."""
        return dict(self.ways).get(parts)


@dataclass(frozen=True, slots=True)
class StatedCost:
    """The cycles, energy in pJ and splits stated for a whole operator; None where nothing is stated.

    Stated costs take precedence over the cost models. Raises GraphError for invalid values.
    """

    cycles: int | None = None
    energy_pj: float | None = None
    splits: ChannelSplits | None = None

    def __post_init__(self) -> None:
        if self.cycles is not None and not 1 <= self.cycles <= MOST_CYCLES:
            raise GraphError(f"it takes {self.cycles} cycles", expected=f"1 to {MOST_CYCLES:,}")
        if self.energy_pj is not None and not 0 <= self.energy_pj <= GREATEST_ENERGY_PJ:
            raise GraphError(f"it takes {self.energy_pj} pJ", expected=f"0 to {GREATEST_ENERGY_PJ:g}")
        if self.splits is not None and self.cycles is None:
            raise GraphError("it states cycles of its parts alone", expected="cycles of the whole, too")

    def share(self, part: int, whole: int) -> StatedCost:
        """Return the cost of `part` of `whole` elements: cycles rounded up, and energy."""
        cycles = None if self.cycles is None else max(1, -(-self.cycles * part // whole))
        energy_pj = None if self.energy_pj is None else self.energy_pj * part / whole
        return replace(self, cycles=cycles, energy_pj=energy_pj, splits=None)


NOTHING_STATED = StatedCost()
