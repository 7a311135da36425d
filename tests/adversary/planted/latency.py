"""Faults in plans and bounds of least latency."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

LEVEL: Final = "latency"

FAULTS: Final = (
    Planted(
        name="all scratchpads together are as large as the largest",
        file="src/onchip/bounds/latency/latency_bounds.py",
        old="    room = Memory(name, sum(memory.capacity_bytes for memory in memories))\n",
        new="    room = Memory(name, max(memory.capacity_bytes for memory in memories))\n",
        level=LEVEL,
    ),
    Planted(
        name="all scratchpads together are as fast as the slowest",
        file="src/onchip/bounds/latency/latency_bounds.py",
        old="        if all(_is_nowhere_above(rate, other) for other in known):\n",
        new="        if all(_is_nowhere_above(other, rate) for other in known):\n",
        level=LEVEL,
    ),
    Planted(
        name="operands never fill a scratchpad to its last byte",
        file="src/onchip/memory/timed/homes.py",
        old="fill.need_bytes > self._capacities[memory]:\n",
        new="fill.need_bytes >= self._capacities[memory]:\n",
        level=LEVEL,
    ),
    Planted(
        name="readers that have run wait for a later load",
        file="src/onchip/bounds/latency/latency_bounds.py",
        old="self._tails[one] for one in self.ways.readers[each] if one in later)",
        new="self._tails[one] for one in self.ways.readers[each])",
        level=LEVEL,
    ),
)
