"""The timeline of a plan's operators and transfers, and the content of a plan's report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.api.check_plan import check_plan
from onchip.api.networks import Network
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.errors import AcceleratorError
from onchip.formats.foreign_files import load_any_accelerator
from onchip.ir.operator import Operator
from onchip.model.capacity.bounds import greatest_need
from onchip.reports.execution import Timing
from onchip.reports.program.outcome import BaselinePlan, Check, Findings, Outcome, outcome_rows

if TYPE_CHECKING:
    from onchip.model.timeline.plan_timeline import Timeline


@phase("timing")
def time_network(plan_file: Path, network: Network, accelerator: str | Accelerator, cost: str | None = None) -> Timing:
    """Verify a plan and, if it is legal, time each operator and transfer; `cost` is as for `timeline_of`."""
    from onchip.formats.foreign_files import load_any_accelerator

    chip = load_any_accelerator(accelerator)
    check = check_plan(plan_file, network, Target(), {})
    if not check.is_legal:
        return Timing(check, chip)
    with Target(accelerator=accelerator).named_in_errors():
        return Timing(check, chip, timeline_of(check.problem, check.document.answer, chip, cost))


@phase("timing")
def timeline_of(problem: Problem, plan: Plan, chip: Accelerator, cost: str | None = None) -> Timeline:
    """Time a legal plan by the named cost model; without a name, by the plan's own cycles, or by its MACs.

    Raises AcceleratorError if the accelerator, and UsageError if `cost`, lacks information.
    """
    from onchip.model.timeline.mac_count import MacCount, cycles_of_plan
    from onchip.model.timeline.plan_timeline import time_plan

    cycles = cycles_of_plan(problem, chip, cost)
    macs = MacCount(problem.graph).macs if chip.array else _no_macs
    return time_plan(problem, plan, chip, cycles, macs)


@phase("timing")
def own_timeline(problem: Problem, plan: Plan) -> Timeline | None:
    """Time a legal plan by its own durations; None if it has none."""
    from onchip.model.timeline.plan_timeline import stated_timeline

    return None if problem.durations is None else stated_timeline(problem, plan)


def _no_macs(_: Operator) -> int:
    """Return 0, for an accelerator without an array and operators with stated cycles."""
    return 0


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
