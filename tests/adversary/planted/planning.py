"""Faults of planning one scratchpad."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

SEARCH = "src/onchip/solve/joint/search.py"
EVICTIONS = "src/onchip/solve/joint/evictions.py"
MIN_PEAK = "src/onchip/solve/ordering/min_peak.py"
INDEXED = "src/onchip/facts/indexed.py"
COMPOSE = "src/onchip/solve/run/compose.py"

FAULTS: Final = (
    Planted(
        "a state dominates though it lacks copies that the other has",
        SEARCH,
        "            cost += self._indexed.store_costs[tensor]\n        return cost <= worse.cost",
        "            cost += 0\n        return cost <= worse.cost",
        "plan",
    ),
    Planted(
        "safe: outputs may stand in for an input that is cheaper to evict",
        SEARCH,
        "if difference < 0 or sum(map(self._full_evict_cost, outputs)) > self._evict_cost(freed, state.copied):",
        "if difference < 0:",
        "plan",
    ),
    Planted(
        "of two that are alike, either may leave in place of the other, whoever reads them",
        EVICTIONS,
        "return is_one and all(awaited & (1 << o | self._ancestors[o]) for o in bits(readers[rather]))",
        "return is_one",
        "plan",
    ),
    Planted(
        "an eviction is charged a write though DRAM has a copy",
        EVICTIONS,
        "if not (self._indexed.backed | copied) >> tensor & 1:",
        "if not self._indexed.backed >> tensor & 1:",
        "plan",
    ),
    Planted(
        "a network output that leaves early is charged another write",
        INDEXED,
        "if tensor.role is not Role.ACTIVATION)",
        "if tensor.role in (Role.INPUT, Role.PARAMETER))",
        "plan",
    ),
    Planted(
        "least peak: safe though more stays resident than before",
        MIN_PEAK,
        "return child.used_units <= state.used_units\n        padding",
        "return child.used_units <= state.used_units + 1\n        padding",
        "plan",
    ),
    Planted(
        "the last, partial unit takes a tensor that ends one byte beyond",
        INDEXED,
        "if 0 < size % alignment <= partial)",
        "if 0 < size % alignment <= partial + 1)",
        "plan",
    ),
    Planted(
        "a spill is stored a step after the tensor has left",
        COMPOSE,
        "stores.setdefault(stored.stop - 1 if can_wait else stored.start, []).append(stored)",
        "stores.setdefault(stored.stop if can_wait else stored.start, []).append(stored)",
        "plan",
    ),
)
