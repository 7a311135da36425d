"""The effort of single steps of planning: what depends on the end of a search says how long it is worth waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StepParams:
    """Nodes of the exact packing search, about 500,000 a second, and work of CP-SAT, which counts a second as 1."""

    stretch_nodes: int = 2_000
    """For a stretch of steps: one of many, and those that do not pack are mostly seen at once."""
    quick_nodes: int = 8_000
    """For a packing that is repaired or replaced if it is not found: hundredths of a second."""
    plan_nodes: int = 20_000
    """For a plan as cheap as its bound in bytes, before CP-SAT is asked."""
    round_nodes: int = 30_000
    """For a round of a search that learns from what does not pack."""
    check_nodes: int = 200_000
    """For a packing that decides between the best plan and another: tenths of a second."""
    proof_nodes: int = 4_000_000
    """For a packing that nothing else decides: seconds."""
    quick_work: float = 0.5
    """For one of several plans of the same cost."""
    short_work: float = 2.0
    """For a part of a plan, or for a first plan."""
    patient_work: float = 3.0
    """For a plan that is optimal if it packs."""
    long_work: float = 10.0
    """For a model that gives a bound, or the plan of one of many orders."""


STEP: Final = StepParams()
