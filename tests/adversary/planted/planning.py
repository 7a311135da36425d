"""Faults of planning one scratchpad."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

STATES = "src/onchip/native/joint_states.cpp"
STATE_PARTS = "src/onchip/native/joint_parts.hpp"
FRONTIER = "src/onchip/native/joint_frontier.cpp"
CANDIDATES = "src/onchip/native/joint_candidates.cpp"
PEAK_POSITION = "src/onchip/native/peak_position.cpp"
INDEXED = "src/onchip/model/lifetimes/indexed.py"
COMPOSE = "src/onchip/memory/decisions.py"

FAULTS: Final = (
    Planted(
        "a state dominates though it lacks copies that the other has",
        FRONTIER,
        "while (copies != 0 && left >= 0) left -= ",
        "while (copies != 0 && left >= 0) left -= 0 * ",
        "plan",
    ),
    Planted(
        "safe: outputs may stand in for an input that is cheaper to evict",
        STATES,
        "} else if (is_resident && left.cost <= evict_cost(state, tensor)) {",
        "} else if (is_resident) {",
        "plan",
    ),
    Planted(
        "of two that are alike, either may leave in place of the other, whoever reads them",
        CANDIDATES,
        "if (mine != awaited && !runs_before(awaited, mine)) return false;",
        "if (mine == none) return false;",
        "plan",
    ),
    Planted(
        "an eviction is charged a write though DRAM has a copy",
        STATE_PARTS,
        "return has(copied(state), tensor) ? one.load_cost : one.load_cost + one.store_cost;",
        "return one.load_cost + one.store_cost;",
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
        PEAK_POSITION,
        "return change.units < 0 ||",
        "return change.units <= 1 ||",
        "plan",
    ),
    Planted(
        "the last, partial unit takes a tensor that ends one byte beyond",
        "src/onchip/model/lifetimes/indexed.py",
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
