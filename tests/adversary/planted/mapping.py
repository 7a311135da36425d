"""Faults of the exact mapper."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

EXACT = "src/onchip/solve/mapping/exact/exact.py"
TABLES = "src/onchip/solve/mapping/exact/tables.py"
STALL = "src/onchip/solve/mapping/exact/stall.py"
FLOOR = "src/onchip/solve/mapping/exact/floor.py"

FAULTS: Final = (
    Planted(
        "a mapping better by one cycle is not looked for",
        EXACT,
        "return self.best - 0.5 if",
        "return self.best - 1.5 if",
        "map",
    ),
    Planted(
        "sums that are complete in no memory are forgotten",
        EXACT,
        "return 1 + int(self._tables.space.holds[OPERANDS.index(OUTPUT)].sum())",
        "return max(1, int(self._tables.space.holds[OPERANDS.index(OUTPUT)].sum()))",
        "map",
    ),
    Planted(
        "energies within a hundredth count as equal",
        EXACT,
        "SLACK: Final = 1 + 1e-9",
        "SLACK: Final = 1 + 1e-2",
        "map",
    ),
    Planted(
        "a run that is cut short claims that nothing is better",
        EXACT,
        "bound = min(int(self.proven), value) if stop else value",
        "bound = value",
        "map",
    ),
    Planted(
        "rows that a stride skips are in every way to cut an input",
        TABLES,
        "fewest[own] = min(fewest[own], prime * fewest[entry[axis, smaller, beside, taps, taps_beside]])",
        "fewest[own] = min(fewest[own], prime * largest[own])",
        "map",
    ),
    Planted(
        "the first tile of all makes the loops wait, too",
        STALL,
        "times = returned if is_return else episodes - 1.0",
        "times = returned if is_return else episodes",
        "map",
    ),
    Planted(
        "an input is counted whole at the port of each instance",
        FLOOR,
        "return float(joint * channels(w, last) * space.blocks.fewest[height] * space.blocks.fewest[width])",
        "return float(space.touched[operand])",
        "map",
    ),
)
