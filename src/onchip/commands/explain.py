"""`onchip explain`: why a plan spills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from onchip.commands.arguments import AsJson, Network, PlanFile
from onchip.commands.check import show_check
from onchip.commands.exit_code import ExitCode
from onchip.reports.shared.output import write, write_json

if TYPE_CHECKING:
    from onchip.answer.result import Result
    from onchip.explanations.history import History


def explain_command(
    plan: PlanFile,
    network: Network,
    time_limit: Annotated[
        float, typer.Option(min=0.001, max=1e9, metavar="S", help="Seconds to look for M_P, where it matters.")
    ] = 10.0,
    as_json: AsJson = False,
) -> int:
    """Explain PLAN.json in words: what sets M_R, which steps are full, what each spill costs and what caused it.

    Also what capacity would make each spill vanish, and all of them.
    """
    from onchip.app.plan import check_plan
    from onchip.app.target import Target
    from onchip.explanations.history import History
    from onchip.reports.program.explanation import Explanation, explanation_lines, explanation_object
    from onchip.reports.program.terminal import show

    check = check_plan(plan, network, Target(), {})
    if not check.is_legal:
        show_check(check, as_json=as_json)
        return ExitCode.WRONG
    history = History(check.problem, check.document.answer)
    explanation = Explanation.of(history, _least_peak(history, time_limit))
    if as_json:
        write_json(explanation_object(explanation))
    else:
        write(show(*explanation_lines(explanation)))
    return ExitCode.ANSWER


def _least_peak(history: History, seconds: float) -> Result[tuple[int, ...]] | None:
    """M_P; None where the plan's own order needs no spill, so that it does not matter."""
    from onchip.solve.run.budgets import budgets_of, roomy_problem
    from onchip.solve.run.limits import Limits
    from onchip.solve.run.start import silent_run

    problem = history.problem
    if history.bytes_without_spills <= sum(memory.capacity_bytes for memory in problem.memories):
        return None
    roomy = roomy_problem(problem.graph, problem.count, history.common_alignment_bytes)
    return budgets_of(roomy, Limits(seconds), silent_run).least_peak
