"""`onchip explain`: the reasons for a plan's spills, or a schedule's cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onchip.api.phases import phase
from onchip.commands.answer_files import format_accepted_by
from onchip.commands.arguments import AsJson, CostOfPlan, Network, PlanOrScheduleFile, accelerator_option, seconds_of
from onchip.commands.check import check_of_legal_plan, outcome_of_legal_schedule
from onchip.commands.exit_code import ExitCode
from onchip.commands.show import show_tables
from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat

if TYPE_CHECKING:
    from onchip.answer.result import SearchResult
    from onchip.api.results import View
    from onchip.reports.execution import TimeExplanation
    from onchip.reports.explain.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Arguments and options of `onchip explain`."""

    file: PlanOrScheduleFile
    network: Network
    tensor: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Explain the placement and the moves of this tensor of a schedule."),
    ] = None
    accelerator: Annotated[
        str | None,
        accelerator_option("Accelerator on which a plan is timed; plans of minimum latency state their own times."),
    ] = None
    cost: CostOfPlan = None
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds to compute M_P of a plan that spills.")
    ] = None
    as_json: AsJson = False


def explain_command(options: ExplainOptions) -> int:
    """Explain the spills of a plan, or the costs of a schedule.

    For a plan: the operator that sets M_R, the full steps, the cost and the cause of each spill, and the capacity
    without this spill, and without any. For a schedule: the energy by memory, the most expensive operators, the tensors
    that are copied or streamed, with reasons, and the size at which they would stay. For a timed answer: the cycle
    breakdown, the reasons for stalls, and the hardware changes that would speed up the same program most.
    """
    if format_accepted_by("explain", options.file) is AnswerFormat.SCHEDULE:
        return _explain_schedule(options)
    from onchip.api.results import View
    from onchip.api.show_schedule import time_of_plan
    from onchip.formats.foreign_files import load_any_accelerator

    if options.tensor is not None:
        raise UsageError("only schedules are explained by tensor", place="--tensor", expected="a schedule")
    from onchip.reports.explain.history import History
    from onchip.reports.program.explanation import Explanation, explanation_lines, explanation_object

    chip = None if options.accelerator is None else load_any_accelerator(options.accelerator)
    check = check_of_legal_plan(options.file, options.network, as_json=options.as_json)
    if check is None:
        return ExitCode.WRONG
    with phase("explaining"):
        history = History(check.problem, check.document.answer)
        explanation = Explanation.of(history, _least_peak(history, seconds_of(options.time_limit)))
    time = time_of_plan(check, chip, options.cost)
    _show(View(explanation, explanation_object, explanation_lines), time, as_json=options.as_json)
    return ExitCode.ANSWER


def _explain_schedule(options: ExplainOptions) -> int:
    from onchip.api.results import View
    from onchip.api.show_schedule import time_of_schedule
    from onchip.reports.schedule.explanation import (
        ScheduleExplanation,
        schedule_explanation_object,
        schedule_explanation_tables,
    )

    outcome = outcome_of_legal_schedule(options.file, options.network, None, as_json=options.as_json)
    if outcome is None:
        return ExitCode.WRONG
    if options.accelerator is not None:
        raise UsageError("a schedule contains its accelerator", place="--accelerator", expected="a plan")
    with phase("explaining"):
        explanation = ScheduleExplanation.of(outcome, options.tensor)
    time = None if options.tensor is not None else time_of_schedule(outcome)
    shown = View(explanation, schedule_explanation_object, schedule_explanation_tables)
    _show(shown, time, as_json=options.as_json)
    return ExitCode.ANSWER


def _show(view: View[Any], time: TimeExplanation | None, *, as_json: bool) -> None:
    """Print an explanation, followed by the breakdown of the time if it is known."""
    from onchip.api.answers import with_time

    shown = with_time(view, time)
    show_tables(shown.details, shown.as_object, shown.as_tables, as_json=as_json)


def _least_peak(history: History, seconds: float | None) -> SearchResult[tuple[int, ...]] | None:
    """Return M_P; None if the plan's own order needs no spill, so that M_P is irrelevant."""
    from onchip.api.target import STATES_TO_ADVISE, budgets_of, roomy_problem
    from onchip.search.budget.limits import Limits

    problem = history.problem
    if history.bytes_without_spills <= sum(memory.capacity_bytes for memory in problem.memories):
        return None
    roomy = roomy_problem(problem.graph, problem.count, history.common_alignment_bytes)
    return budgets_of(roomy, Limits(seconds, STATES_TO_ADVISE)).least_peak
