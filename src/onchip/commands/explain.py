"""`onchip explain`: why a plan spills, or a schedule costs what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.app.phases import phase
from onchip.commands.arguments import AsJson, Network, PlanOrScheduleFile, seconds_of
from onchip.commands.check import check_of_legal_plan, outcome_of_legal_schedule
from onchip.commands.exit_code import ExitCode
from onchip.commands.show import show_tables
from onchip.errors import UsageError
from onchip.formats.own.answer_format import AnswerFormat, format_of_answer

if TYPE_CHECKING:
    from onchip.answer.result import Result
    from onchip.explanations.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """What `onchip explain` is asked."""

    file: PlanOrScheduleFile
    network: Network
    tensor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a schedule: where this tensor lies, and why it moves.")
    ] = None
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Of a plan: seconds to look for M_P, if it matters.")
    ] = None
    as_json: AsJson = False


def explain_command(options: ExplainOptions) -> int:
    """Explain a plan in words: what sets M_R, which steps are full, what each spill costs and what caused it.

    Also what capacity would make each spill vanish, and all of them. Of a schedule: where the energy goes, the most
    expensive operators, what is copied or streamed and why, and what would have to be smaller for it to stay.
    """
    if format_of_answer(options.file) is AnswerFormat.SCHEDULE:
        return _explain_schedule(options)
    if options.tensor is not None:
        raise UsageError("a plan is explained as a whole", place="--tensor", expected="a schedule")
    from onchip.explanations.history import History
    from onchip.reports.program.explanation import Explanation, explanation_lines, explanation_object

    check = check_of_legal_plan(options.file, options.network, as_json=options.as_json)
    if check is None:
        return ExitCode.WRONG
    with phase("explaining"):
        history = History(check.problem, check.document.answer)
        explanation = Explanation.of(history, _least_peak(history, seconds_of(options.time_limit)))
    show_tables(explanation, explanation_object, explanation_lines, as_json=options.as_json)
    return ExitCode.ANSWER


def _explain_schedule(options: ExplainOptions) -> int:
    from onchip.reports.schedule.explanation import ScheduleExplanation
    from onchip.reports.schedule.explanation_object import schedule_explanation_object
    from onchip.reports.schedule.explanation_text import schedule_explanation_tables

    outcome = outcome_of_legal_schedule(options.file, options.network, None, as_json=options.as_json)
    if outcome is None:
        return ExitCode.WRONG
    with phase("explaining"):
        explanation = ScheduleExplanation.of(outcome, options.tensor)
    show_tables(explanation, schedule_explanation_object, schedule_explanation_tables, as_json=options.as_json)
    return ExitCode.ANSWER


def _least_peak(history: History, seconds: float | None) -> Result[tuple[int, ...]] | None:
    """M_P; None where the plan's own order needs no spill, so that it does not matter."""
    from onchip.solve.run.budgets import STATES_TO_ADVISE, budgets_of, roomy_problem
    from onchip.solve.run.limits import Limits

    problem = history.problem
    if history.bytes_without_spills <= sum(memory.capacity_bytes for memory in problem.memories):
        return None
    roomy = roomy_problem(problem.graph, problem.count, history.common_alignment_bytes)
    return budgets_of(roomy, Limits(seconds, STATES_TO_ADVISE)).least_peak
