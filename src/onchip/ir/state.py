"""State: what a network keeps from one inference to the next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    """A network input `old` whose value for the next inference is the network output `new`, of as many bytes.

    `alias` is the name of `new` under which a file lists it as an output, where that is a view: no output beside it.
    With `in_place` the operator that writes `new` may do so over `old`, which it reads: its kernel updates the state.
    """

    old: str
    new: str
    in_place: bool = False
    alias: str = ""
