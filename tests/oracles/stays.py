"""The least cost of evictions in one order: every choice for every gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from onchip.memory.retention.kept_gaps import IdleGap


def least_cost_of_leaving(gaps: Sequence[IdleGap], left_units: Callable[[int], int]) -> int:
    """Return the least cost of evictions; evicting everything always fits."""
    fitting = (stays for stays in product((False, True), repeat=len(gaps)) if _fits(gaps, stays, left_units))
    return min(cost_of_leaving([gap for gap, one in zip(gaps, stays, strict=True) if not one]) for stays in fitting)


def cost_of_leaving(gaps: Sequence[IdleGap]) -> int:
    """Return the cost of the loads of evicted gaps, and of one store per tensor."""
    return sum(gap.load_cost for gap in gaps) + sum({gap.tensor: gap.store_cost for gap in gaps}.values())


def _fits(gaps: Sequence[IdleGap], stays: Sequence[bool], left_units: Callable[[int], int]) -> bool:
    staying = [gap for gap, one in zip(gaps, stays, strict=True) if one]
    steps = {step for gap in staying for step in gap.steps}
    return all(sum(gap.units for gap in staying if step in gap.steps) <= left_units(step) for step in steps)
