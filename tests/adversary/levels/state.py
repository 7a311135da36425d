"""Networks with state: one or two outputs are kept for the next inference, on the chip at every offset, or in DRAM."""

from __future__ import annotations

import random
from typing import Final

from adversary.levels.exhausted import ExhaustedLevel
from onchip.ir.graph import Graph
from oracles.states import least_arena_with_states, least_traffic_with_states, random_graph_with_states
from support.updated_states import graph_with_updates


def _graph(seed: int, operators: int) -> Graph:
    """Return a network in which an operator updates states it reads, or any other with states."""
    if seed % 2:
        return graph_with_updates(random.Random(seed), operators - 1)
    return random_graph_with_states(seed, operators, greatest_size=2)


STATE: Final = ExhaustedLevel(
    "state",
    _graph,
    least_traffic_with_states,
    least_arena_with_states,
    operators=(2, 3, 3),
    more=(-4, -2, -1, 0, 0, 0, 1, 2, 3),
    inferences=3,
)
