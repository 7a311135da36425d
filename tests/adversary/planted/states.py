"""Faults in the handling of networks with state."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

LEVEL: Final = "state"

FAULTS: Final = (
    Planted(
        name="M_R counts both values of a state that is updated in place",
        file="src/onchip/model/capacity/bounds.py",
        old="        self._search((), frozenset())\n",
        new="",
        level=LEVEL,
    ),
)
