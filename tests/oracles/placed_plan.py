"""A placed plan whose windows are planned again, in plain code, using the windows of `MovablePlan`.

It does the same as `PlacedPlan` of `native/placed_plan.hpp`, with the same beam search.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onchip.memory.allocate.residencies import layout_tensors
from onchip.memory.decisions import OperatorSchedule, PlannedResidency
from onchip.memory.spill.windows import MovablePlan, PlanWindow, layout_operators
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import LayoutOperator, OrderBeam, StopToken

MOST_AHEAD: Final = 64
ANYWHERE: Final = -1


class LayoutOrders:
    """Beam search for order and offsets in one scratchpad with `has_countable_layouts`, where each operator fits.

    `pins_bytes` are the only offsets of some tensors. The `last` operators each read one of these, and run together
    after all others.
    """

    def __init__(self, indexed: IndexedProblem, pins_bytes: Mapping[int, int], last: int = 0) -> None:
        self._count = indexed.operator_count - last
        self._all = indexed.operator_count
        operators = layout_operators(indexed)[: self._count]
        if last:
            reads = [tensor for one in indexed.read_lists[self._count :] for tensor in one]
            operators.append(LayoutOperator(reads=reads, writes=(), predecessors=range(self._count)))
        self._beam = OrderBeam(
            layout_tensors(indexed),
            [pins_bytes.get(tensor, ANYWHERE) for tensor in range(len(indexed.tensors))],
            operators,
            capacity_bytes=indexed.memory.capacity_bytes,
            alignment_bytes=indexed.memory.alignment_bytes,
        )

    @property
    def cost(self) -> int:
        """Return the non-compulsory cost of the last schedule found."""
        return self._beam.cost

    def find(
        self, width: int, upper_bound: int, soon: int, seed: int = 0
    ) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
        """Return a schedule below the upper bound, with its offsets in bytes, from a beam of that width, or None."""
        token = StopToken()
        if not self._beam.run(width, upper_bound=upper_bound, ahead=MOST_AHEAD, soon=soon, seed=seed, stop=token):
            return None
        stays = sorted(self._beam.stays, key=lambda stay: (stay.start, stay.tensor))
        order = (*(one for one in self._beam.order if one < self._count), *range(self._count, self._all))
        residencies = (
            PlannedResidency(stay.tensor, stay.start, self._all if stay.stop > self._count else stay.stop)
            for stay in stays
        )
        return OperatorSchedule(order, tuple(residencies)), tuple(stay.offset_bytes for stay in stays)


class PlainPlacedPlan:
    """An order, residencies and offsets, in one scratchpad that `has_countable_layouts`."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...]) -> None:
        self.plan = MovablePlan(indexed, schedule)
        self._offsets_bytes: dict[tuple[int, int], int] = {}  # (tensor, use) -> offset
        for residency, offset in zip(schedule.residencies, offsets_bytes, strict=True):
            for use in self.plan.uses(residency.tensor):
                if residency.start <= self.plan.step_of[use] < residency.stop:
                    self._offsets_bytes[residency.tensor, use] = offset

    @property
    def answer(self) -> tuple[OperatorSchedule, tuple[int, ...]]:
        """Return the current schedule with its offsets in bytes."""
        schedule = self.plan.schedule
        found = (self._offsets_bytes[one.tensor, schedule.order[one.start]] for one in schedule.residencies)
        return schedule, tuple(found)

    def pins_bytes(self, window: PlanWindow) -> Mapping[int, int] | None:
        """Return the offset of each tensor that crosses an end of the window, by window tensor; None if one has two."""
        stop, pins = window.begin + len(window.operators), dict[int, int]()
        for number, one in enumerate(window.tensors):
            if one.comes and one.before is not None:
                pins[number] = self._offsets_bytes[one.tensor, one.before]
            if one.goes:
                following = next(use for use in self.plan.uses(one.tensor) if self.plan.step_of[use] >= stop)
                offset = self._offsets_bytes[one.tensor, following]
                if pins.setdefault(number, offset) != offset:
                    return None
        return pins

    def plan_anew(self, begin: int, stop: int, width: int, soon: int, seed: int) -> None:
        """Plan the steps [begin, stop) again with a beam of that width."""
        window = self.plan.window(begin, stop)
        pins = self.pins_bytes(window)
        if pins is None:
            return
        orders = LayoutOrders(window.problem, pins, last=window.problem.operator_count - len(window.operators) - 1)
        found = orders.find(width, window.cost + 1, soon, seed)
        if found is not None:
            self.follow(window, *found)

    def follow(self, window: PlanWindow, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...]) -> None:
        """Replace the window's part by a placed schedule of the window's problem."""
        self.plan.follow(window, schedule)
        for residency, offset in zip(schedule.residencies, offsets_bytes, strict=True):
            tensor = window.tensors[residency.tensor].tensor
            for number in schedule.order[residency.start : residency.stop]:
                if 1 <= number <= len(window.operators):
                    self._offsets_bytes[tensor, window.operators[number - 1]] = offset
