"""Windows of a plan that has addresses are planned anew with addresses: order, what stays, and where it lies.

What crosses an end of a window stays where it lies, so nothing changes outside. What is no worse takes the place of
what there was, as equal layouts leave other gaps; the cost never rises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from onchip.facts.bit_masks import mask_of
from onchip.facts.indexed import IndexedProblem
from onchip.solve.allocation.layouts import LayoutPlacer
from onchip.solve.joint.search import BestFirstSearch
from onchip.solve.ordering.movable_plan import MovablePlan, PlanWindow
from onchip.solve.run.compose import OperatorSchedule, schedule_of_moves
from onchip.solve.run.limits import Run
from onchip.solve.run.stage import without_figures

WIDTHS: Final = (12, 16, 20, 24, 28)
SHARES_OF_THE_ROOM: Final = (1.0, 1.0, 0.98, 0.96, 0.94)
"""Of the scratchpad, in which a window's order is searched: with less there is some way to place what is found."""
STATES: Final = 5_000
LAYOUTS: Final = 256
MOST_PASSES: Final = 12
"""Without a time limit."""
SHARE_OF_A_WINDOW: Final = 0.1


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
        width, share = random.choice(WIDTHS), random.choice(SHARES_OF_THE_ROOM)
        steps = len(placed.plan.order)
        for begin in range(random.randrange(width // 2), max(1, steps - width // 2), width // 2):
            if run.stop is not None:
                break
            _plan_anew(placed, placed.plan.window(begin, begin + width), share, random.randrange(1 << 30), run)
        passes += 1
        run.report(None, 0, f"windows of {width} steps with addresses")
        yield


def _plan_anew(placed: AddressedPlan, window: PlanWindow, share: float, seed: int, run: Run) -> None:
    problem, pins = _with_less_room(window.problem, share), placed.pins_bytes(window)
    if problem is None or pins is None:
        return
    own = without_figures(run).within(SHARE_OF_A_WINDOW * run.seconds_left)
    found = BestFirstSearch(problem, own, STATES, upper_bound=window.cost + 1).solve()
    if found.moves is None:
        return
    placer = LayoutPlacer(window.problem, schedule_of_moves(problem, found.moves), pins)
    answer = placer.place(LAYOUTS, replace(own, limits=replace(own.limits, seed=seed)))
    if answer is not None and placer.cost <= window.cost:
        placed.follow(window, *answer)


def _with_less_room(problem: IndexedProblem, share: float) -> IndexedProblem | None:
    """Return the problem in a share of its scratchpad; None where an operator does not fit there."""
    if share == 1:
        return problem
    (memory,) = problem.problem.memories
    smaller = replace(memory, capacity_bytes=int(share * memory.capacity_bytes))
    found = replace(problem, problem=replace(problem.problem, memories=(smaller,)))
    fits = all(found.room.units_of(mask_of(operands)) <= found.room.capacity_units for operands in found.operand_lists)
    return found if fits else None
