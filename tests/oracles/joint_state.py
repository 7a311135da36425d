"""A partial plan, as the search in bytes sees it."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.memory.decisions import SearchMove


@dataclass(slots=True, eq=False)
class SearchState:
    """A partial plan. `cost` includes the reload of every live tensor that has left.

    `copied` are the live activations of which DRAM has a copy; `moves` lead here from `parent`.
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
