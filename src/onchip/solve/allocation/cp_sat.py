"""Exact packing by CP-SAT: one rectangle per buffer, no two overlapping."""

from __future__ import annotations

from onchip.plan.packing import Packing, PackingProblem
from onchip.plan.result import Result, Status, Stop
from onchip.solve.limits import Run

METHOD = "cp-sat"


def pack_by_cp_sat(problem: PackingProblem, run: Run, time_limit_seconds: float) -> Result[Packing]:
    """Find offsets within the capacity, or prove that there are none (objective: the capacity)."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    alignment, capacity = problem.alignment_bytes, problem.capacity_bytes
    offsets, lives, ranges = [], [], []
    for i, buffer in enumerate(problem.buffers):
        if buffer.size_bytes > capacity:
            return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
        unit = model.new_int_var(0, (capacity - buffer.size_bytes) // alignment, f"offset_{i}")
        offsets.append(unit)
        lives.append(model.new_fixed_size_interval_var(buffer.start, buffer.stop - buffer.start, f"life_{i}"))
        units = -(-buffer.size_bytes // alignment)
        ranges.append(model.new_fixed_size_interval_var(unit, units, f"range_{i}"))
    model.add_no_overlap_2d(lives, ranges)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.01, min(time_limit_seconds, run.seconds_left))
    solver.parameters.num_workers = run.limits.workers
    solver.parameters.random_seed = run.limits.seed
    solver.parameters.use_timetabling_in_no_overlap_2d = True
    solver.parameters.use_energetic_reasoning_in_no_overlap_2d = True
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        packing = Packing(tuple(solver.value(offset) * alignment for offset in offsets))
        return Result(Status.OPTIMAL, packing, capacity, capacity, run.seconds, METHOD)
    if status == cp_model.INFEASIBLE:
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    return Result(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)
