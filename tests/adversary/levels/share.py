"""Outputs in bytes of inputs: half the operators compute in place, some join tensors or take them apart."""

from __future__ import annotations

from typing import Final

from adversary.levels.exhausted import ExhaustedLevel
from oracles.shared_bytes import least_shared_arena, least_shared_traffic, random_sharing_graph

SHARE: Final = ExhaustedLevel(
    "share",
    random_sharing_graph,
    least_shared_traffic,
    least_shared_arena,
    operators=(2, 3, 4, 5, 5),
    more=(-1, 0, 0, 0, 1, 2, 4),
)
