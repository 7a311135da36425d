"""What crosses one boundary at one port, in cycles, by cell of a lattice of places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.lattice import Along

Waits: TypeAlias = tuple[tuple[Along, Along], ...]
"""Of transfers that are waited for one by one: how often at least, and how long each takes."""


@dataclass(frozen=True)
class PortCycles:
    """Cycles of a port by cell: of what crosses a boundary while the loops `run`, and what comes `first` or goes last.

    `total` is both together; `waiting` are those by which single transfers exceed the time in which their tiles may be
    replaced, and `waits` these transfers, where that time may be shorter than it seems from their place alone.
    """

    run: Along
    first: Along
    total: Along
    waiting: Along
    waits: Waits = ()

    def __add__(self, other: PortCycles) -> PortCycles:
        return PortCycles(
            self.run + other.run,
            self.first + other.first,
            self.total + other.total,
            self.waiting + other.waiting,
            (*self.waits, *other.waits),
        )

    def in_full_windows(self) -> PortCycles:
        """Return the same of a memory with room for two tiles: the next may come all the time."""
        return replace(self, waits=())


def cycles_of(
    chain: OperandChain, longest: Along, most: Along, together: Along, window: Along, *, returns: bool
) -> PortCycles:
    """Of tiles of which the largest takes from `longest` to `most`, and all of them together, each once."""
    once = np.maximum(chain.tiles * longest, together)
    waiting = np.maximum(longest - window, 0.0)
    if returns:
        again = chain.comes_again - 1
        times = chain.tiles * again
        return PortCycles(once * again, 0.0 * once, once * again, times * waiting, _waits(times, longest))
    total, times = once * chain.comes_again, chain.tiles * chain.comes_again - 1
    run = np.maximum(np.maximum(total - most, times * longest), 0.0)
    return PortCycles(run, longest, np.maximum(total, longest), times * waiting, _waits(times, longest))


def _waits(times: Along, longest: Along) -> Waits:
    """None of what takes a cycle: a window is no shorter."""
    return ((times, longest),) if longest.max() > 1 and times.max() > 0 else ()
