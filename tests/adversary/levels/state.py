"""Networks with state: one or two outputs are kept for the next inference, on the chip at every offset, or in DRAM."""

from __future__ import annotations

from functools import partial
from typing import Final

from adversary.levels.exhausted import ExhaustedLevel
from oracles.states import least_arena_with_states, least_traffic_with_states, random_graph_with_states

STATE: Final = ExhaustedLevel(
    "state",
    partial(random_graph_with_states, greatest_size=2),
    least_traffic_with_states,
    least_arena_with_states,
    operators=(2, 3, 3),
    more=(-2, -1, 0, 0, 1, 2, 3),
    inferences=3,
)
