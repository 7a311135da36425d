"""A second exact method for one scratchpad and a given order, too large to enumerate: one CP-SAT model with addresses.

A tensor has an address at each use. Between two uses it either keeps its address, and its bytes are taken, or it is
evicted. Nothing is shared with the solver.
"""

from __future__ import annotations

from itertools import pairwise

from ortools.sat.python import cp_model

from oracles.one_scratchpad import Question


def bounds_of_traffic(question: Question, capacity: int, seconds: float) -> tuple[int, int | None]:
    """Return a lower and an upper bound (None: unknown) on the least non-compulsory bytes of the given order."""
    model, costs = cp_model.CpModel(), []
    times: list[cp_model.IntervalVar] = []
    places: list[cp_model.IntervalVar] = []
    for tensor, steps in question.uses(tuple(range(len(question.reads)))).items():
        size = question.sizes[tensor]
        if size > capacity:
            return 0, None
        slots = (capacity - size) // question.alignment
        units = [model.new_int_var(0, slots, "") for _ in steps]
        for step, unit in zip(steps, units, strict=True):
            times.append(model.new_fixed_size_interval_var(step, 1, ""))
            places.append(model.new_fixed_size_interval_var(question.alignment * unit, size, ""))
        away = []
        for (before, after), (earlier, later) in zip(pairwise(steps), pairwise(units), strict=True):
            kept = model.new_bool_var("")
            model.add(earlier == later).only_enforce_if(kept)
            away.append(~kept)
            if after > before + 1:
                gap = after - before - 1
                times.append(model.new_optional_fixed_size_interval_var(before + 1, gap, kept, ""))
                places.append(model.new_optional_fixed_size_interval_var(question.alignment * later, size, kept, ""))
        costs += [size * one for one in away]
        if away and question.roles[tensor] == "activation":
            stored = model.new_bool_var("")
            model.add_bool_or(away).only_enforce_if(stored)
            model.add_bool_and([~one for one in away]).only_enforce_if(~stored)
            costs.append(size * stored)
    model.add_no_overlap_2d(times, places)
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    low = max(0, round(solver.best_objective_bound)) if status != cp_model.INFEASIBLE else 0
    return low, round(solver.objective_value) if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
