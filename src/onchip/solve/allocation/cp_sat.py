"""Exact packing by CP-SAT: one rectangle per buffer, no two overlapping."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from onchip.plan.packing import Packing, PackingProblem
from onchip.plan.result import Result, Status, Stop
from onchip.solve.interruptible import solve_interruptibly
from onchip.solve.limits import Run

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD = "cp-sat"


def pack_by_cp_sat(problem: PackingProblem, run: Run, time_limit_seconds: float) -> Result[Packing]:
    """Find offsets within the capacity, or prove that there are none (objective: the capacity).

    One worker with quick restarts packs in 0.1 s what eight workers take seconds for, and one worker by default never.
    """
    from ortools.sat.python import cp_model

    capacity = problem.capacity_bytes
    if any(buffer.size_bytes > capacity for buffer in problem.buffers):
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    unit_bytes = _unit_bytes(problem)
    model, offsets = _model(problem, unit_bytes)
    solver = cp_model.CpSolver()
    solver.parameters.search_branching = cp_model.PORTFOLIO_WITH_QUICK_RESTART_SEARCH
    solver.parameters.use_timetabling_in_no_overlap_2d = True
    solver.parameters.use_energetic_reasoning_in_no_overlap_2d = True
    status = solve_interruptibly(solver, model, run, time_limit_seconds)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        packing = Packing(tuple(solver.value(offset) * unit_bytes for offset in offsets))
        return Result(Status.OPTIMAL, packing, capacity, capacity, run.seconds, METHOD)
    if status == cp_model.INFEASIBLE:
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    return Result(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)


def _unit_bytes(problem: PackingProblem) -> int:
    """Return the alignment, or without one the greatest common divisor of the sizes: offsets may be multiples of it."""
    if problem.alignment_bytes > 1:
        return problem.alignment_bytes
    return gcd(*(buffer.size_bytes for buffer in problem.buffers))


def _model(problem: PackingProblem, unit_bytes: int) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    offsets, lives, ranges, sizes = [], [], [], []
    for i, buffer in enumerate(problem.buffers):
        offset = model.new_int_var(0, (problem.capacity_bytes - buffer.size_bytes) // unit_bytes, f"offset_{i}")
        size = -(-buffer.size_bytes // unit_bytes)
        offsets.append(offset)
        sizes.append(size)
        lives.append(model.new_fixed_size_interval_var(buffer.start, buffer.stop - buffer.start, f"life_{i}"))
        ranges.append(model.new_fixed_size_interval_var(offset, size, f"range_{i}"))
    model.add_no_overlap_2d(lives, ranges)
    model.add_cumulative(lives, sizes, -(-problem.capacity_bytes // unit_bytes))
    return model, offsets
