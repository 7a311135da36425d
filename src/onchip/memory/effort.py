"""Effort of single steps of planning, for steps that are worth a part of a search whatever its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StepParams:
    """Nodes of the exact packing search, about 500,000 a second, and work of CP-SAT, which counts a second as 1."""

    stretch_nodes: int = 2_000
    """For a stretch of steps, one of many. Most stretches without a packing are refuted at once."""
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
    part_states: int = 20_000
    """States of the search of a part of a problem: tenths of a second."""
    whole_states: int = 200_000
    """States of a search of everything that another search starts from, or is told of: about a second."""
    states_alone: int = 1 << 16
    """States up to which a search has one worker: several would begin for nothing."""
    gap_states: int = 1_000
    """States for each step of a window in which residencies are chosen state by state: milliseconds."""
    most_gap_states: int = 20_000_000
    """The same for all steps of a window: some seconds, and a few hundred MB."""
    window_steps: int = 1_000
    """Steps of each of several windows of an order whose residencies a model chooses."""
    searched_pairs: int = 1_000_000
    """Pairs of buffers alive together above which one attempt of the exact packing search takes many seconds."""
    listed_pairs: int = 20_000_000
    """Pairs of buffers alive together up to which they are listed: the lists take some 400 MB."""
    model_terms: int = 60_000
    """Actions, or pairs of tensors and steps, up to which a published program is written down: a minute."""
    other_orders: int = 6
    """Orders of minimum need that are tried in several scratchpads after the given ones."""
    state_choices: int = 200
    """Choices of states on the chip that are planned one after another, each for a part of the time."""
    share: float = 0.1
    """Part of the time left for one of many steps."""
    arena_share: float = 0.25
    """Part of the time left for the least arenas of memories without a capacity."""
    quick_work: float = 0.5
    """For one of several plans of the same cost."""
    short_work: float = 3.0
    """For a part of a plan, a first plan, or a plan that is optimal if it packs."""
    long_work: float = 10.0
    """For a model that gives a bound, or the plan of one of many orders."""

    @property
    def quick_nodes(self) -> int:
        """Nodes for a packing that is repaired or replaced if it is not found: hundredths of a second."""
        return self.stretch_nodes * self.node_growth


STEP: Final = StepParams()
