"""Faults of the second prover."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

CROSSINGS = "src/onchip/audits/crossings.py"
MOMENTS = "src/onchip/audits/moments.py"

FAULTS: Final = (
    Planted(
        "audit: an output of the network pays for a store even if it is already in DRAM",
        CROSSINGS,
        "if one.role is Role.ACTIVATION:",
        "if one.role is not Role.INPUT:",
        "audit",
    ),
    Planted(
        "audit: what crosses an operator has a unit less of room",
        CROSSINGS,
        "left = self._room - sum(",
        "left = self._room - 1 - sum(",
        "audit",
    ),
    Planted(
        "audit: solutions must be two below the bound",
        MOMENTS,
        "self.model.add(total <= self.shape.bound - 1)",
        "self.model.add(total <= self.shape.bound - 2)",
        "audit",
    ),
    Planted(
        "audit: residents that overlap are taken for a plan",
        MOMENTS,
        "            self.model.add_no_overlap(intervals)\n",
        "            self.model.add_no_overlap(intervals[1:])\n",
        "audit",
    ),
    Planted(
        "audit: a network output is written to DRAM only if it has to leave",
        MOMENTS,
        "self.facts.tensors[tensor].role is Role.OUTPUT:\n                self.model.add(is_there == 1)",
        "self.facts.tensors[tensor].role is Role.PARAMETER:\n                self.model.add(is_there == 1)",
        "audit",
    ),
    Planted(
        "audit: the last unit of a packing's alignment is lost",
        "src/onchip/audits/packing.py",
        "room = _units(self._capacity_bytes, alignment)",
        "room = self._capacity_bytes // alignment",
        "audit",
    ),
)
