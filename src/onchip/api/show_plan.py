"""The report content of a plan: verified from a file, or just found."""

from __future__ import annotations

from onchip.api.time_plan import own_timeline, timeline_of
from onchip.arch.accelerator import Accelerator
from onchip.errors import AcceleratorError
from onchip.formats.foreign_files import load_any_accelerator
from onchip.model.capacity.bounds import greatest_need
from onchip.reports.program.outcome import BaselinePlan, Check, Findings, Outcome, outcome_rows


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


def page_of_plan(outcome: Outcome, accelerator: str | Accelerator | None, typed: str) -> str:
    """Return the HTML page of a plan just found; raises ValueError if there is none."""
    from onchip.reports.program.html import report_html

    return report_html(findings_of_outcome(outcome, accelerator, typed))


def findings_of_outcome(outcome: Outcome, accelerator: str | Accelerator | None, typed: str) -> Findings:
    """Return the report content of a plan just found; raises ValueError if there is none."""
    if outcome.document is None or outcome.figures is None:
        raise ValueError("there is no plan to report on")
    plan = outcome.document.answer
    timed = own_timeline(outcome.problem, plan)
    why = "the scratchpad was given alone, with neither array nor DRAM (`onchip report --accelerator`)"
    if timed is None and accelerator is not None:
        try:
            timed = timeline_of(outcome.problem, plan, load_any_accelerator(accelerator))
        except AcceleratorError as error:
            why = str(error)
    return Findings(
        outcome.problem,
        outcome.document,
        outcome.figures,
        outcome.required,
        typed,
        outcome_rows(outcome),
        timeline=timed,
        no_timeline=why,
    )
