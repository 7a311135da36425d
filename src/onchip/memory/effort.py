"""Effort of single steps of planning, for steps that are worth a part of a search whatever its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StepParams:
    """Nodes of the exact packing search, about 500,000 a second, and work of CP-SAT, which counts a second as 1."""

    stretch_nodes: int = 2_000
    """For a stretch of steps, one of many. Most stretches without a packing are refuted at once."""
    quick_nodes: int = 8_000
    """For a packing that is repaired or replaced if it is not found: hundredths of a second."""
    plan_nodes: int = 30_000
    """For a plan as cheap as its bound in bytes, or a choice that returns as a conflict: before CP-SAT is asked."""
    check_nodes: int = 200_000
    """For a packing that decides between the best plan and another: tenths of a second."""
    proof_nodes: int = 4_000_000
    """For a packing that nothing else decides: seconds."""
    node_growth: int = 4
    """Ratio of the nodes of a packing's next round to those of the round before."""
    work_nodes: int = 500_000
    """Nodes that take as long as 1 of CP-SAT's work."""
    search_bytes: int = 5 << 30
    """Bytes that the states of one search may take."""
    quick_work: float = 0.5
    """For one of several plans of the same cost."""
    short_work: float = 3.0
    """For a part of a plan, a first plan, or a plan that is optimal if it packs."""
    long_work: float = 10.0
    """For a model that gives a bound, or the plan of one of many orders."""


STEP: Final = StepParams()
