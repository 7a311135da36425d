"""Residencies of a long order, window by window: a lower bound on the cost in bytes, and a guide to a plan.

Each gap between two uses of a tensor belongs to the one window in which most of its idle steps lie, and takes capacity
only there; the windows of a tensor's gaps share its store cost. So a plan pays at least the minimum cost of each
window, and in total at least the sum. The tensors that stay in all windows together may exceed the capacity. The
minimum cost of a window is found by all choices, state by state, or by CP-SAT if the choices are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from math import inf
from typing import TYPE_CHECKING, Final

from onchip.answer.result import SearchResult
from onchip.memory.decisions import OperatorSchedule, PlannedResidency
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import StayGap, StaySearch, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, run_watched, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

STATES_OF_A_STEP: Final = 1_000
MOST_STATES: Final = 20_000_000

METHOD: Final = "gaps of a window"

WINDOW_STEPS: Final = 1_000
"""For each of several windows."""


class GapWindows:
    """Windows of one order, in one scratchpad without overwriting. `lower_bound` grows with each window solved."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int], window_steps: int = WINDOW_STEPS) -> None:
        self.lower_bound = 0
        self._indexed = indexed
        self._order = tuple(order)
        self._uses = indexed.uses(order)
        self._window_steps = window_steps
        self._windows: list[list[IdleGap]] = [[] for _ in range(-(-len(self._order) // window_steps))]
        self._share_out_gaps()
        self._dropped: set[tuple[int, int]] = set()

    @property
    def is_exact(self) -> bool:
        """True if the capacity left in a step is known to the unit: no tensor may end within the last, partial unit."""
        return not self._indexed.room.may_end_short

    def solve(self, run: Run) -> OperatorSchedule:
        """Solve every window, each with its share of the time, and return the schedule."""
        for done, gaps in enumerate(self._windows):
            self._solve_window(gaps, run.within(run.seconds_left / (len(self._windows) - done)))
            run.report(None, 0, f"what stays, {min((done + 1) * self._window_steps, len(self._order))} steps")
        return self._schedule()

    def solve_by_states(self, run: Run) -> OperatorSchedule | None:
        """Return residencies of minimum cost, if the choices in every window are few and time is left."""
        if all(self._has_few_choices(gaps, run) for gaps in self._windows):
            return self._schedule()
        return None

    def _share_out_gaps(self) -> None:
        for tensor, uses in enumerate(self._uses):
            idle = [(last + 1, following) for last, following in pairwise(uses) if following > last + 1]
            placed = [self._window_of(start, stop) for start, stop in idle]
            store_cost = 0 if self._indexed.backed >> tensor & 1 else self._indexed.store_costs[tensor]
            share = store_cost // max(1, len({window for window, _ in placed}))
            for (start, _), (window, steps) in zip(idle, placed, strict=True):
                units, load_cost = self._indexed.room.units[tensor], self._indexed.load_costs[tensor]
                self._windows[window].append(IdleGap(tensor, start, steps, units, load_cost, share))

    def _window_of(self, start: int, stop: int) -> tuple[int, range]:
        """Return the first window with most of the steps, and its steps among them."""
        size, best = self._window_steps, (0, range(0))
        for window in range(start // size, (stop - 1) // size + 1):
            steps = range(max(start, window * size), min(stop, (window + 1) * size))
            if len(steps) == size:
                return window, steps
            if len(steps) > len(best[1]):
                best = window, steps
        return best

    def _solve_window(self, gaps: list[IdleGap], run: Run) -> None:
        if self._has_few_choices(gaps, run):
            return
        if cp_sat_is_within_reach(run):
            found = leaving_by_model(gaps, self._left, run, STEP.short_work if len(self._windows) > 1 else inf)
            self.lower_bound += found.lower_bound
            self._leave(gaps if found.answer is None else found.answer)
        else:
            self._leave(gaps)

    def _has_few_choices(self, gaps: list[IdleGap], run: Run) -> bool:
        """See all choices of a window, if they are few enough for that."""
        least = what_leaves(gaps, self._left, run)
        if least is None:
            return False
        self.lower_bound += least.cost
        self._leave(least.gaps)
        return True

    def _leave(self, gaps: Iterable[IdleGap]) -> None:
        self._dropped.update((gap.tensor, gap.start) for gap in gaps)

    def _left(self, step: int) -> int:
        """Return the units left by the operands; one more if a tensor may end within the last, partial unit."""
        room = self._indexed.room
        most = room.capacity_units + (1 if room.may_end_short else 0)
        return most - room.units_of_all(self._indexed.operand_lists[self._order[step]])

    def _schedule(self) -> OperatorSchedule:
        residencies = []
        for tensor, uses in enumerate(self._uses):
            start = uses[0] if uses else 0
            for last, following in pairwise(uses):
                if (tensor, last + 1) in self._dropped:
                    residencies.append(PlannedResidency(tensor, start, last + 1))
                    start = following
            if uses:
                residencies.append(PlannedResidency(tensor, start, uses[-1] + 1))
        return OperatorSchedule(self._order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))


def leaving_by_model(
    gaps: Sequence[IdleGap], left_units: Callable[[int], int], run: Run, most_work: float
) -> SearchResult[tuple[IdleGap, ...]]:
    """Return the gaps that leave, and a lower bound on their cost, as far as the run allows.

    The tensors that stay take at most `left_units` in each step. Without a time limit the solver does at most
    `most_work`.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    kept = [model.new_bool_var("") for _ in gaps]
    _each_step_holds_what_stays(model, gaps, kept, left_units)
    model.minimize(sum(_costs(model, gaps, kept)))
    solver = cp_model.CpSolver()
    solver.parameters.linearization_level = 2
    work = float("inf") if run.deadline.is_set else most_work

    def leaving() -> tuple[IdleGap, ...]:
        return tuple(gap for gap, stays in zip(gaps, kept, strict=True) if not solver.boolean_value(stays))

    return solve_for_result(solver, model, run, METHOD, leaving, work)


def _each_step_holds_what_stays(
    model: cp_model.CpModel,
    gaps: Sequence[IdleGap],
    kept: Sequence[cp_model.IntVar],
    left_units: Callable[[int], int],
) -> None:
    """Add a capacity row for each step that is too full, unless the row of an adjacent step implies it."""
    from ortools.sat.python import cp_model

    first, stop = min(gap.steps.start for gap in gaps), max(gap.steps.stop for gap in gaps)
    opening: list[list[int]] = [[] for _ in range(first, stop + 1)]
    closing: list[list[int]] = [[] for _ in range(first, stop + 1)]
    for number, gap in enumerate(gaps):
        opening[gap.steps.start - first].append(number)
        closing[gap.steps.stop - first].append(number)
    left = [left_units(step) for step in range(first, stop)]
    staying: dict[int, cp_model.IntVar] = {}
    asked = 0
    for at, units_left in enumerate(left):
        for number in closing[at]:
            del staying[number]
            asked -= gaps[number].units
        for number in opening[at]:
            staying[number] = kept[number]
            asked += gaps[number].units
        is_in_the_next = not closing[at + 1] and left[at + 1] <= units_left
        is_in_the_last = not opening[at] and left[at - 1] < units_left
        if asked > units_left and not is_in_the_next and not is_in_the_last:
            units = [gaps[number].units for number in staying]
            model.add(cp_model.LinearExpr.weighted_sum(list(staying.values()), units) <= units_left)


def _costs(
    model: cp_model.CpModel, gaps: Sequence[IdleGap], kept: Sequence[cp_model.IntVar]
) -> list[cp_model.LinearExprT]:
    """The reload of each gap that is left, and one share of storing each tensor that leaves (COSMA, Eq. 12)."""
    costs: list[cp_model.LinearExprT] = [gap.load_cost * (1 - stays) for gap, stays in zip(gaps, kept, strict=True)]
    stored: dict[int, cp_model.IntVar] = {}
    for gap, stays in zip(gaps, kept, strict=True):
        if gap.store_cost:
            if gap.tensor not in stored:
                stored[gap.tensor] = model.new_bool_var("")
                costs.append(gap.store_cost * stored[gap.tensor])
            model.add_bool_or(stored[gap.tensor], stays)
    return costs


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A tensor of size `units` is idle from the step `start` to its next use; `steps` are those steps looked at.

    If it leaves, `load_cost` is paid, and `store_cost` once for all gaps of the tensor that are looked at together.
    """

    tensor: int
    start: int
    steps: range
    units: int
    load_cost: int
    store_cost: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """Gaps that leave, and their cost."""

    gaps: tuple[IdleGap, ...]
    cost: int


def what_leaves(gaps: Sequence[IdleGap], left_units: Callable[[int], int], run: Run) -> Leaving | None:
    """Return the cheapest gaps that leave, so that those that stay take at most `left_units` in each step.

    None if the choices are too many (`native/stays.hpp`) or the run has to stop.
    """
    if not gaps:
        return Leaving((), 0)
    if run.stop is not None:
        return None
    first, stop = min(gap.steps.start for gap in gaps), max(gap.steps.stop for gap in gaps)
    search = StaySearch(
        [
            StayGap(
                tensor=gap.tensor,
                start=gap.steps.start - first,
                stop=gap.steps.stop - first,
                units=gap.units,
                load_cost=gap.load_cost,
                store_cost=gap.store_cost,
            )
            for gap in gaps
        ],
        [left_units(step) for step in range(first, stop)],
    )
    token, most_states = StopToken(), min(MOST_STATES, STATES_OF_A_STEP * (stop - first))
    if not run_watched(lambda: search.run(most_states, token), token.ask, run):
        return None
    return Leaving(tuple(compress(gaps, (not stays for stays in search.stays))), search.cost)
