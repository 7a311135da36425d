"""A partial plan in the search over bytes without addresses."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.memory.decisions import SearchMove


@dataclass(slots=True, eq=False)
class SearchState:
    """A partial plan. `cost` includes the reload of every evicted live tensor.

    `copied` are the live activations with a copy in DRAM; `moves` lead here from `parent`.
    """

    cost: int
    executed: int
    ready: int
    resident: int
    used_units: int
    copied: int
    parent: SearchState | None
    moves: tuple[SearchMove, ...]
    is_dominated: bool = False
