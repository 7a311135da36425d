from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.document import PlanDocument, Reading, Source
from onchip.reports.execution import Execution, execution_object
from onchip.reports.program.outcome import Check
from onchip.simulate.machine import MachineRun
from onchip.verify.verifier import verify
from support.programs import HELD


@pytest.fixture
def execution() -> Execution:
    """Return a legal plan with a move of three bytes, and a run with the transfers that the verifier computes."""
    source = Source(HELD.problem.graph.name)
    verdict = verify(HELD.problem, HELD.plan)
    check = Check(PlanDocument(source, source, Reading(), HELD.plan), HELD.problem, "", verdict)
    figures = verdict.figures
    run = MachineRun(figures.loads, figures.write_backs, figures.moved, 4, None, {})
    return Execution(check, "made up", (run,))


def test_a_run_that_moved_what_was_planned_is_right(execution: Execution) -> None:
    assert execution.is_right
    assert execution_object(execution)["right"] is True


@pytest.mark.parametrize("what", ["loads", "write_backs", "moved"])
def test_a_run_that_moved_anything_else_is_not(execution: Execution, what: str) -> None:
    assert execution.run is not None
    other = replace(execution.run, **{what: getattr(execution.run, what) + 1})

    assert not replace(execution, runs=(execution.run, other)).bytes_agree
    assert not replace(execution, runs=(execution.run, other)).is_right
