"""`onchip report`: draw a plan or a schedule as one HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.api.phases import phase
from onchip.commands.answer_files import AnswerFiles, bundled_network_of, command_line, format_accepted_by
from onchip.commands.arguments import AsJson, accelerator_option, network_names, output_option
from onchip.commands.check import check_of_legal_plan, outcome_of_legal_schedule
from onchip.commands.exit_code import ExitCode
from onchip.commands.show import show_words
from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat

if TYPE_CHECKING:
    from onchip.answer.problem import Problem
    from onchip.reports.program.outcome import BaselinePlan

BASELINES = (("belady", "given"), ("belady", "min-peak"), ("greedy", "given"), ("greedy", "min-peak"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Arguments and options of `onchip report`."""

    context: typer.Context
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A plan or schedule file, from any tool, or the store of a sweep."),
    ]
    network: Annotated[
        str | None,
        typer.Argument(
            metavar="[NETWORK]",
            help="Network of a plan or a schedule; may be omitted if bundled.",
            autocompletion=network_names,
        ),
    ] = None
    output: Annotated[Path, output_option("FILE.html", "Output file.")]
    accelerator: Annotated[
        str | None, accelerator_option("Add a timeline of a plan on this accelerator; schedules contain theirs.")
    ] = None
    compare: Annotated[bool, typer.Option("--compare", help="Compare a plan with those of the baseline methods.")] = (
        False
    )
    time_limit: Annotated[
        float, typer.Option(min=0.001, max=1e9, metavar="S", help="Seconds for each baseline method.")
    ] = 10.0
    as_json: AsJson = False


def report_command(options: ReportOptions) -> int:
    """Draw a plan, a schedule or a sweep as one HTML page.

    The page works offline. A plan's has the memory map, footprint, traffic, timeline and summary; a schedule's also the
    fused groups, energy and mappings. The page of a sweep's store has curves, heat maps, the Pareto front, parallel
    coordinates and a table. Nothing is searched. `onchip map --report` and `onchip fuse --report` draw their answers.
    """
    from onchip.sweeps.store import is_store

    if is_store(options.file):
        return _report_store(options)
    form = format_accepted_by("report", options.file)
    network = options.network or bundled_network_of(options.file)
    files = AnswerFiles((str(options.file), network), None, options.output)
    files.ensure_they_can_be_written()
    if form is AnswerFormat.SCHEDULE:
        return _report_schedule(options, network, files)
    from onchip.api.time_plan import findings_of
    from onchip.formats.foreign_files import load_any_accelerator
    from onchip.reports.program.html import report_html

    chip = None if options.accelerator is None else load_any_accelerator(options.accelerator)
    check = check_of_legal_plan(options.file, network, as_json=options.as_json)
    if check is None:
        return ExitCode.WRONG
    baselines = _baselines(check.problem, options.time_limit) if options.compare else ()
    with phase("drawing"):
        page = report_html(findings_of(check, command_line(options.context), chip, baselines))
    return _written(options, files, check.problem.graph.name, page)


def _report_store(options: ReportOptions) -> int:
    """Draw the rows of a store."""
    from onchip.sweeps.store import shown_store
    from onchip.sweeps.stored_row import sweep_html

    if options.network is not None or options.compare or options.accelerator is not None:
        what = "a store has no network, accelerator or baselines"
        raise UsageError(what, place="NETWORK, --accelerator, --compare", expected="only FILE and -o")
    files = AnswerFiles((str(options.file),), None, options.output)
    files.ensure_they_can_be_written()
    with phase("drawing"):
        page = sweep_html(shown_store(options.file), command_line(options.context))
    return _written(options, files, options.file.name, page)


def _report_schedule(options: ReportOptions, network: str, files: AnswerFiles) -> int:
    if options.compare:
        raise UsageError("only plans are compared with baselines", place="--compare", expected="a plan")
    from onchip.reports.schedule.html import schedule_html

    outcome = outcome_of_legal_schedule(options.file, network, options.accelerator, as_json=options.as_json)
    if outcome is None:
        return ExitCode.WRONG
    with phase("drawing"):
        page = schedule_html(outcome, command_line(options.context))
    return _written(options, files, outcome.network.name, page)


def _written(options: ReportOptions, files: AnswerFiles, network: str, page: str) -> int:
    files.write_report(lambda: page)
    written = {"network": network, "report": str(options.output), "bytes": len(page.encode())}
    show_words(written, str(options.output), as_json=options.as_json)
    return ExitCode.ANSWER


def _baselines(problem: Problem, seconds: float) -> tuple[BaselinePlan, ...]:
    """Run the registered baseline methods; each plan is verified before its figures count."""
    from dataclasses import replace

    from onchip.answer.problem import Objective, Order
    from onchip.api.plan import plan_problem
    from onchip.memory.methods import METHODS
    from onchip.reports.program.outcome import BaselinePlan
    from onchip.search.budget.limits import Limits
    from onchip.verify.verifier import verify

    baselines = []
    is_traffic = problem.objective in (Objective.PEAK, Objective.LATENCY, Objective.RECOMPUTATION)
    objective = Objective.TRAFFIC if is_traffic else problem.objective
    for name, order in BASELINES:
        method = METHODS[name]
        asked = replace(problem, order=Order(order), objective=objective, recomputation=None)
        if method.supports(asked):
            with phase(f"{name}, {order} order"):
                result = plan_problem(asked, name, Limits(seconds))
                figures = None if result.answer is None else verify(asked, result.answer).figures
            baselines.append(BaselinePlan(f"{name}, {order} order", result.status, figures))
    return tuple(baselines)
