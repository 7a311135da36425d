"""The report content of a verified plan."""

from __future__ import annotations

from onchip.api.time_plan import own_timeline, timeline_of
from onchip.arch.accelerator import Accelerator
from onchip.model.capacity.bounds import greatest_need
from onchip.reports.program.outcome import BaselinePlan, Check, Findings


def findings_of(
    check: Check, typed: str, chip: Accelerator | None = None, baselines: tuple[BaselinePlan, ...] = ()
) -> Findings:
    """Return the report content of a legal plan, timed on `chip`, otherwise by its own cycles if it states them.

    `typed` is the command that requested the report.
    """
    problem, document = check.problem, check.document
    plan = document.answer
    timed = own_timeline(problem, plan) if chip is None else timeline_of(problem, plan, chip)
    need = greatest_need(problem)
    return Findings(problem, document, check.verdict.figures, need, typed, baselines=baselines, timeline=timed)
