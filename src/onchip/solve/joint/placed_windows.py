"""Windows of a plan that has addresses are planned anew with addresses: order, what stays, and where it lies.

What crosses an end of a window stays where it lies, so nothing changes outside. What is no worse takes the place of
what there was, as equal layouts leave other gaps; the cost never rises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from onchip.facts.indexed import IndexedProblem
from onchip.solve.allocation.layout_orders import LayoutOrders
from onchip.solve.ordering.movable_plan import MovablePlan, PlanWindow
from onchip.solve.run.compose import OperatorSchedule
from onchip.solve.run.limits import Run

WIDTHS: Final = (12, 16, 20, 24, 28)
LAYOUTS: Final = 64
SOON: Final = (8, 16)
"""What is read again so many operators later counts as leaving before: different views, different plans."""
MOST_PASSES: Final = 12
"""Without a time limit."""


class AddressedPlan:
    """An order, what stays, and where it lies; in one scratchpad that `has_countable_layouts`."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...]) -> None:
        self.plan = MovablePlan(indexed, schedule)
        self._offsets_bytes: dict[tuple[int, int], int] = {}  # by tensor and use
        for residency, offset in zip(schedule.residencies, offsets_bytes, strict=True):
            for use in self.plan.uses(residency.tensor):
                if residency.start <= self.plan.step_of[use] < residency.stop:
                    self._offsets_bytes[residency.tensor, use] = offset

    @property
    def answer(self) -> tuple[OperatorSchedule, tuple[int, ...]]:
        """The schedule as it is now, with its offsets in bytes."""
        schedule = self.plan.schedule
        found = (self._offsets_bytes[one.tensor, schedule.order[one.start]] for one in schedule.residencies)
        return schedule, tuple(found)

    def pins_bytes(self, window: PlanWindow) -> Mapping[int, int] | None:
        """Return where what crosses an end lies, by the window's tensors; None where one has two places."""
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

    def follow(self, window: PlanWindow, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...]) -> None:
        """Put a placed schedule of the problem of the window stated last in place of what there was."""
        self.plan.follow(window, schedule)
        for residency, offset in zip(schedule.residencies, offsets_bytes, strict=True):
            tensor = window.tensors[residency.tensor].tensor
            for number in schedule.order[residency.start : residency.stop]:
                if 1 <= number <= len(window.operators):
                    self._offsets_bytes[tensor, window.operators[number - 1]] = offset


def improve_in_placed_windows(placed: AddressedPlan, run: Run) -> Iterator[None]:
    """Go over the plan again and again, yielding after each pass, until the run has to stop or enough is done."""
    random, passes = Random(run.limits.seed), 0
    while run.stop is None and (run.deadline.is_set or passes < MOST_PASSES):
        width = random.choice(WIDTHS)
        steps = len(placed.plan.order)
        for begin in range(random.randrange(width // 2), max(1, steps - width // 2), width // 2):
            if run.stop is not None:
                break
            _plan_anew(placed, placed.plan.window(begin, begin + width), random, run)
        passes += 1
        run.report(None, 0, f"windows of {width} steps with addresses")
        yield


def _plan_anew(placed: AddressedPlan, window: PlanWindow, random: Random, run: Run) -> None:
    pins = placed.pins_bytes(window)
    if pins is None:
        return
    orders = LayoutOrders(window.problem, pins, last=window.problem.operator_count - len(window.operators) - 1)
    own = replace(run, limits=replace(run.limits, seed=random.randrange(1 << 30)))
    answer = orders.find(LAYOUTS, own, window.cost + 1, random.choice(SOON))
    if answer is not None:
        placed.follow(window, *answer)
