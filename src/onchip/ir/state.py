"""State: a tensor that a network keeps between inferences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    """A network input `old` whose next value is the network output `new`, of the same size.

    `alias` is the name under which a file lists `new` as an output if that output is a view; it is no additional
    output. With `in_place` the operator that reads `old` and writes `new` may overwrite `old`: its kernel updates the
    state.
    """

    old: str
    new: str
    in_place: bool = False
    alias: str = ""
