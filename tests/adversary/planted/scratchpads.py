"""Faults in the planner for several scratchpads, and in its verifier."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

LEVEL: Final = "scratchpads"

FAULTS: Final = (
    Planted(
        name="the pool's forced cost pays for the compulsory write too",
        file="src/onchip/bounds/retention/sure_gaps.py",
        old="        if indexed.tensors[tensor].role is not Role.OUTPUT:\n",
        new="        if indexed.tensors[tensor].role is not Role.PARAMETER:\n",
        level=LEVEL,
    ),
    Planted(
        name="a spill is forgotten unless the tensor leaves at its first gap",
        file="src/onchip/memory/retention/kept_gaps.py",
        old="            for gap in self._gaps[tensor]:\n                self._model.add(spilled",
        new="            for gap in self._gaps[tensor][:1]:\n                self._model.add(spilled",
        level=LEVEL,
    ),
    Planted(
        name="the last, partial unit of a scratchpad is never used",
        file="src/onchip/memory/retention/kept_gaps.py",
        old="self._model.add(used <= room.capacity_units + one_more)",
        new="self._model.add(used <= room.capacity_units)",
        level=LEVEL,
    ),
    Planted(
        name="what is passed on needs room beside all that is in the next step",
        file="src/onchip/memory/retention/linked.py",
        old="        for place, stays in self._stays.items():\n            staying.setdefault",
        new="        for place, stays in self._at.items():\n            staying.setdefault",
        level=LEVEL,
    ),
    Planted(
        name="a tensor pinned for life may have two residencies over links",
        file="src/onchip/memory/retention/addressed.py",
        old="self._model.add(sum(residencies) <= 1).only_enforce_if",
        new="self._model.add(sum(residencies) <= 2).only_enforce_if",
        level=LEVEL,
    ),
    Planted(
        name="the verifier lets an operator write into two scratchpads",
        file="src/onchip/verify/replay.py",
        old="        elif len(residencies) > 1:\n",
        new="        elif len(residencies) > 2:\n",
        level=LEVEL,
    ),
)
