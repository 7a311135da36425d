"""Which idle stretches leave at least cost in bytes, where all choices are too many to be seen: a model for CP-SAT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from onchip.answer.result import Result
from onchip.memory.retention.idle_gaps import IdleGap
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD: Final = "gaps of a window"


def leaving_by_model(
    gaps: Sequence[IdleGap], left_units: Callable[[int], int], run: Run, most_work: float
) -> Result[tuple[IdleGap, ...]]:
    """Return what leaves, and a bound on what that costs at least, as far as the run allows.

    In no step what stays takes more than `left_units` says of it. Without a time limit it takes so much work at most,
    in what CP-SAT counts as about a second.
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
    """One row for each step in which not all fits, but where a step beside it asks for as much and more."""
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
