"""Faults of whole schedules."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

FLOORS = "src/onchip/bounds/layer/nest_floor.py"
FIGURES = "src/onchip/model/program/figures.py"
WORKSPACES = "src/onchip/model/program/compute_cost.py"

FAULTS: Final = (
    Planted(
        "in the bound a map comes from the home that is dearest",
        FLOORS,
        "return work.macs_with_input * floor.per_mac + work.inputs * min(floor.per_element.values())",
        "return work.macs_with_input * floor.per_mac + work.inputs * max(floor.per_element.values())",
        "schedule",
    ),
    Planted(
        "loads of parameters are not traffic",
        FIGURES,
        "self.loads += tensor.size_bytes if copy.source == DRAM else 0",
        "self.loads += tensor.size_bytes if copy.source == DRAM and not is_parameter else 0",
        "schedule",
    ),
    Planted(
        "tiles of sums have no workspace",
        WORKSPACES,
        "bits = sum(need for (memory, _), need in needs.items() if memory == name) - problem.resident_bits(name)",
        'bits = sum(need for (memory, one), need in needs.items() if memory == name and one != "output")',
        "schedule",
    ),
    Planted(
        "the last schedule found is taken for the best",
        "src/onchip/scheduling/search/solve.py",
        "return min(self.attempts, key=lambda one: one.improver.best.key, default=None)",
        "return self.attempts[-1] if self.attempts else None",
        "schedule",
    ),
)
