"""Windows of a plan that has addresses are planned anew with addresses: order, what stays, and where it lies.

What crosses an end of a window stays where it lies, so nothing changes outside. What is no worse takes the place of
what there was, as equal layouts leave other gaps; the cost never rises. The plan is `native/placed_plan.hpp`.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from onchip.memory.allocate.construct.layouts import layout_tensors
from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import LayoutOperator, LayoutStay, PlacedPlan, StopToken, WindowChoice
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

WIDTHS: Final = (8, 12, 16, 20, 24, 28, 40)
LAYOUTS: Final = (16, 32, 64, 128)
"""A narrow beam goes over the plan more often, a wide one finds more: where one finds nothing more another may."""
SOON: Final = (4, 6, 8, 12, 16, 24)
"""What is read again so many operators later counts as leaving before: different views, different plans."""
MOST_PASSES: Final = 12
"""Without a time limit."""


class AddressedPlan:
    """An order, what stays, and where it lies; in one scratchpad that `has_countable_layouts`."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...]) -> None:
        self.indexed = indexed
        self._plan = PlacedPlan(
            layout_tensors(indexed),
            layout_operators(indexed),
            schedule.order,
            [
                LayoutStay(tensor=one.tensor, start=one.start, stop=one.stop, offset_bytes=offset)
                for one, offset in zip(schedule.residencies, offsets_bytes, strict=True)
            ],
            capacity_bytes=indexed.memory.capacity_bytes,
            alignment_bytes=indexed.memory.alignment_bytes,
        )

    @property
    def cost(self) -> int:
        """What the transfers cost beyond the compulsory ones."""
        return self._plan.cost

    @property
    def answer(self) -> tuple[OperatorSchedule, tuple[int, ...]]:
        """The schedule as it is now, with its offsets in bytes."""
        stays = self._plan.stays
        residencies = tuple(PlannedResidency(stay.tensor, stay.start, stay.stop) for stay in stays)
        return OperatorSchedule(tuple(self._plan.order), residencies), tuple(stay.offset_bytes for stay in stays)

    def plan_anew(self, windows: list[WindowChoice], layouts: int, run: Run) -> None:
        """Plan windows anew, one after the other, among so many layouts; less of them if the run has to stop."""
        token = StopToken()
        run_watched(lambda: self._plan.plan_anew(windows, layouts, token), token.ask, run)


def layout_operators(indexed: IndexedProblem) -> list[LayoutOperator]:
    """Return the operators as beams take them."""
    lists = zip(indexed.read_lists, indexed.write_lists, indexed.predecessor_lists, strict=True)
    return [LayoutOperator(reads=read, writes=written, predecessors=before) for read, written, before in lists]


def improve_in_placed_windows(placed: AddressedPlan, run: Run) -> Iterator[None]:
    """Go over the plan again and again, yielding after each pass, until the run has to stop or enough is done."""
    random, passes, steps = Random(run.limits.seed), 0, placed.indexed.operator_count
    while run.stop is None and (run.deadline.is_set or passes < MOST_PASSES):
        width = random.choice(WIDTHS)
        begins = range(random.randrange(width // 2), max(1, steps - width // 2), width // 2)
        windows = [
            WindowChoice(begin=begin, stop=begin + width, seed=random.randrange(1 << 30), soon=random.choice(SOON))
            for begin in begins
        ]
        placed.plan_anew(windows, random.choice(LAYOUTS), run)
        passes += 1
        run.report(None, 0, f"windows of {width} steps with addresses")
        yield
