"""A second exact method for packings too large to enumerate: one CP-SAT model with optional rectangles."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from oracles.packing import Buffer


def bounds_of_packing(
    buffers: Sequence[Buffer], capacity: int, alignment: int, question: str, seconds: float
) -> tuple[int | None, int | None]:
    """Return a lower bound (None: infeasible) and an upper bound (None: unknown) on the optimum.

    The `question` is `fits` (value 0), `minimize` (the capacity) or `overflow` (the bytes left out).
    """
    model = cp_model.CpModel()
    room = sum(-(-size // alignment) * alignment for _, _, size in buffers) if question == "minimize" else capacity
    top = model.new_int_var(0, room, "top")
    lives, places, outside = [], [], []
    for start, stop, size in buffers:
        is_inside = model.new_bool_var("")
        unit = model.new_int_var(0, room // alignment, "")
        model.add(alignment * unit + size <= top).only_enforce_if(is_inside)
        lives.append(model.new_optional_fixed_size_interval_var(start, stop - start, is_inside, ""))
        places.append(model.new_optional_fixed_size_interval_var(alignment * unit, size, is_inside, ""))
        outside.append(size * ~is_inside)
        if question != "overflow":
            model.add(is_inside == 1)
    model.add_no_overlap_2d(lives, places)
    if question != "fits":
        model.minimize(top if question == "minimize" else sum(outside))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, None
    is_found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    if question == "fits":
        return 0, 0 if is_found else None
    return max(0, round(solver.best_objective_bound)), round(solver.objective_value) if is_found else None
