from __future__ import annotations

import threading

import pytest

from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.interruptible import run_watched, solve_interruptibly


def test_the_result_comes_back() -> None:
    assert run_watched(lambda: 42, lambda: None, Run()) == 42


def test_an_error_comes_back() -> None:
    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_watched(fail, lambda: None, Run())


def test_the_work_is_told_to_stop_at_the_time_limit() -> None:
    told = threading.Event()

    stopped = run_watched(lambda: told.wait(20), told.set, Run(Limits(time_limit_seconds=0.1)))

    assert stopped


@pytest.mark.slow
def test_cp_sat_ends_soon_after_an_interruption() -> None:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    pigeons = [[model.new_bool_var(f"{pigeon}_{hole}") for hole in range(15)] for pigeon in range(16)]
    for holes in pigeons:
        model.add(sum(holes) == 1)
    for first in range(16):
        for second in range(first):
            for hole in range(15):
                model.add_bool_or(pigeons[first][hole].negated(), pigeons[second][hole].negated())
    solver = cp_model.CpSolver()
    solver.parameters.cp_model_presolve = False
    solver.parameters.symmetry_level = 0
    run = Run()
    threading.Timer(0.5, run.interrupt.set).start()

    status = solve_interruptibly(solver, model, run)

    assert status in (cp_model.UNKNOWN, cp_model.INFEASIBLE)
