"""Order, what stays and addresses at once, for few operators: a beam over layouts that have run different operators.

The beam is `native/layout_orders.hpp`. It proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onchip.facts.indexed import IndexedProblem
from onchip.native import LayoutOperator, OrderBeam, StopToken
from onchip.solve.allocation.layouts import layout_tensors
from onchip.solve.run.compose import OperatorSchedule, PlannedResidency
from onchip.solve.run.interruptible import run_watched
from onchip.solve.run.limits import Run

MOST_AHEAD: Final = 64
ANYWHERE: Final = -1


class LayoutOrders:
    """Orders and places a problem in one scratchpad; `has_countable_layouts`, and every operator fits by itself.

    `pins_bytes` are the only offsets of some tensors. The `last` operators, each of which reads one of these, run
    together, when all others have run.
    """

    def __init__(self, indexed: IndexedProblem, pins_bytes: Mapping[int, int], last: int = 0) -> None:
        self._count = indexed.operator_count - last
        self._all = indexed.operator_count
        self._beam = OrderBeam(
            layout_tensors(indexed),
            [pins_bytes.get(tensor, ANYWHERE) for tensor in range(len(indexed.tensors))],
            self._operators(indexed),
            capacity_bytes=indexed.memory.capacity_bytes,
            alignment_bytes=indexed.memory.alignment_bytes,
        )

    @property
    def cost(self) -> int:
        """What the schedule found last pays beyond the compulsory."""
        return self._beam.cost

    def find(
        self, width: int, run: Run, upper_bound: int, soon: int
    ) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
        """Return a schedule below the upper bound, with its offsets in bytes, found among so many layouts.

        What is read again `soon` operators later, or after that, counts as leaving before. None if nothing was found,
        or the run has to stop.
        """
        token = StopToken()

        def search() -> bool:
            return self._beam.run(
                width, upper_bound=upper_bound, ahead=MOST_AHEAD, soon=soon, seed=run.limits.seed, stop=token
            )

        if not run_watched(search, token.ask, run):
            return None
        stays = sorted(self._beam.stays, key=lambda stay: (stay.start, stay.tensor))
        order = (*(one for one in self._beam.order if one < self._count), *range(self._count, self._all))
        residencies = (
            PlannedResidency(stay.tensor, stay.start, self._all if stay.stop > self._count else stay.stop)
            for stay in stays
        )
        return OperatorSchedule(order, tuple(residencies)), tuple(stay.offset_bytes for stay in stays)

    def _operators(self, indexed: IndexedProblem) -> list[LayoutOperator]:
        operators = [
            LayoutOperator(
                reads=indexed.read_lists[operator],
                writes=indexed.write_lists[operator],
                predecessors=indexed.predecessor_lists[operator],
            )
            for operator in range(self._count)
        ]
        if self._count < self._all:
            reads = [tensor for one in indexed.read_lists[self._count :] for tensor in one]
            operators.append(LayoutOperator(reads=reads, writes=(), predecessors=range(self._count)))
        return operators
