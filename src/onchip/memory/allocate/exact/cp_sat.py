"""Exact packing by CP-SAT: one rectangle per buffer, no two overlapping."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import Result, Status, Stop
from onchip.memory.allocate.exact.sections import NOT_FIXED, packing_in_units
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD = "cp-sat"


def pack_by_cp_sat(problem: PackingProblem, run: Run, most_work: float = float("inf")) -> Result[Packing]:
    """Find offsets within the capacity, or prove that there are none (objective: the capacity).

    UNKNOWN where no time is left to load the solver, or after so much work, as `solve_interruptibly` counts it.
    """
    if not cp_sat_is_within_reach(run):
        return Result(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)
    from ortools.sat.python import cp_model

    counted = packing_in_units(problem)
    if any(one.last < max(one.fixed, 0) for one in counted.buffers):
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    model = cp_model.CpModel()
    offsets = [
        model.new_constant(one.fixed) if one.fixed != NOT_FIXED else model.new_int_var(0, one.last, f"offset_{i}")
        for i, one in enumerate(counted.buffers)
    ]
    _buffers_do_not_overlap(model, problem, offsets, [one.size for one in counted.buffers])
    solver = cp_model.CpSolver()
    solver.parameters.use_timetabling_in_no_overlap_2d = True
    solver.parameters.use_energetic_reasoning_in_no_overlap_2d = True

    def packing() -> Packing:
        return Packing(tuple(solver.value(offset) * counted.unit_bytes for offset in offsets))

    result = solve_for_result(solver, model, run, METHOD, packing, most_work)
    if result.answer is None:
        return result
    return replace(result, objective_value=problem.capacity_bytes, lower_bound=problem.capacity_bytes)


def _buffers_do_not_overlap(
    model: cp_model.CpModel, problem: PackingProblem, offsets: list[cp_model.IntVar], sizes: list[int]
) -> None:
    """Rectangles of time and memory, in units of which every size is a multiple."""
    lives, ranges = [], []
    for index, (buffer, offset, size) in enumerate(zip(problem.buffers, offsets, sizes, strict=True)):
        life = buffer.stop - buffer.start
        lives.append(model.new_fixed_size_interval_var(buffer.start, life, f"life_{index}"))
        ranges.append(model.new_fixed_size_interval_var(offset, size, f"range_{index}"))
    model.add_no_overlap_2d(lives, ranges)
