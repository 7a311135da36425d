"""Addresses near a schedule, at little extra cost: a beam over layouts, step by step.

The beam is `native/layouts.hpp`. It keeps to what the schedule says stays, leaves what does not where it is until it is
in the way, and lets what has no place leave more often.
"""

from __future__ import annotations

from typing import Final

from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import LayoutBeam, LayoutTensor, LayoutUse, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

LARGEST_SUM: Final = 1 << 60


def has_countable_layouts(indexed: IndexedProblem) -> bool:
    """Whether a beam can price every plan: nothing is overwritten, and all costs, were nothing kept, add up."""
    if indexed.problem.graph.shares_bytes or len(indexed.views) > 1:
        return False
    costs = (
        indexed.load_costs[tensor] + indexed.store_costs[tensor]
        for operands in indexed.operand_lists
        for tensor in operands
    )
    return sum(costs) <= LARGEST_SUM and indexed.memory.capacity_bytes <= LARGEST_SUM


class LayoutPlacer:
    """Places one schedule in one scratchpad; `has_countable_layouts`, and every operator fits by itself."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        self._order = schedule.order
        memory = indexed.memory
        self._beam = LayoutBeam(
            layout_tensors(indexed),
            _steps(indexed, schedule),
            capacity_bytes=memory.capacity_bytes,
            alignment_bytes=memory.alignment_bytes,
        )

    @property
    def cost(self) -> int:
        """What the schedule placed last pays beyond the compulsory."""
        return self._beam.cost

    def place(self, width: int, run: Run) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
        """Return a schedule with its offsets in bytes, found among so many layouts; None if the run has to stop."""
        token = StopToken()
        if not run_watched(lambda: self._beam.run(width, run.limits.seed, token), token.ask, run):
            return None
        stays = sorted(self._beam.stays, key=lambda stay: (stay.start, stay.tensor))
        residencies = tuple(PlannedResidency(stay.tensor, stay.start, stay.stop) for stay in stays)
        return OperatorSchedule(self._order, residencies), tuple(stay.offset_bytes for stay in stays)


def layout_tensors(indexed: IndexedProblem) -> list[LayoutTensor]:
    """Return the tensors as beams take them: storing what DRAM has a copy of anyway costs nothing."""
    capacity_bytes = indexed.memory.capacity_bytes
    return [
        LayoutTensor(
            size_bytes=min(size, capacity_bytes),
            load_cost=indexed.load_costs[tensor],
            store_cost=0 if indexed.backed >> tensor & 1 else indexed.store_costs[tensor],
        )
        for tensor, size in enumerate(indexed.sizes_bytes)
    ]


def _steps(indexed: IndexedProblem, schedule: OperatorSchedule) -> list[list[LayoutUse]]:
    """Return the uses of each step; a tensor is wanted until its next use where one residency has both."""
    uses = indexed.uses(schedule.order)
    ends = {(one.tensor, one.stop - 1) for one in schedule.residencies}
    return [
        [
            LayoutUse(
                tensor=tensor,
                is_written=indexed.producer[tensor] == operator,
                is_wanted=(tensor, step) not in ends,
                is_last=uses[tensor][-1] == step,
            )
            for tensor in indexed.operand_lists[operator]
        ]
        for step, operator in enumerate(schedule.order)
    ]
