"""`onchip report`, and the pictures that `onchip plan` makes on the way."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.commands.arguments import AsJson, Network, PlanFile
from onchip.commands.check import show_check
from onchip.commands.exit_code import ExitCode
from onchip.errors import AcceleratorError, UsageError
from onchip.formats.writable import ensure_writable
from onchip.reports.shared.output import write, write_json

if TYPE_CHECKING:
    from onchip.answer.problem import Problem
    from onchip.arch.accelerator import Accelerator
    from onchip.reports.program.findings import Findings, Rival
    from onchip.reports.program.outcome import Check, Outcome

BASELINES = (("belady", "given"), ("belady", "min-peak"), ("greedy", "given"), ("greedy", "min-peak"))


def report_command(
    context: typer.Context,
    plan: PlanFile,
    network: Network,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="Write this.")],
    accelerator: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Adds a timeline: cycles of this accelerator.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Beside the plans of the baseline methods.")] = False,
    time_limit: Annotated[
        float, typer.Option(min=0.001, max=1e9, metavar="S", help="Seconds for each baseline method.")
    ] = 10.0,
    as_json: AsJson = False,
) -> int:
    """Draw PLAN.json as one HTML file that opens offline: memory map, footprint, traffic, timeline, summary."""
    from onchip.app.plan import check_plan
    from onchip.app.target import Target
    from onchip.formats.own.accelerator_yaml import load_accelerator
    from onchip.reports.program.html import ensure_report_can_be_made

    ensure_report_can_be_made()
    ensure_writable(output, inputs=(str(plan), network))
    chip = None if accelerator is None else load_accelerator(accelerator)
    check = check_plan(plan, network, Target(), {})
    if not check.is_legal:
        show_check(check, as_json=as_json)
        return ExitCode.WRONG
    rivals = _rivals(check.problem, time_limit) if compare else ()
    size_bytes = _write_report(_findings_of_check(check, chip, rivals, command_line(context)), output)
    if as_json:
        write_json({"network": check.problem.graph.name, "report": str(output), "bytes": size_bytes})
    else:
        write(str(output))
    return ExitCode.ANSWER


@dataclass(frozen=True, slots=True)
class Pictures:
    """What `plan` draws beside its answer."""

    report: Path | None
    figure: Path | None
    accelerator: str | None
    network: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """What was read, so that no picture is written over it."""
        return (self.network, self.accelerator or self.network)

    def ensure_they_can_be_made(self) -> None:
        """Raise UsageError for what cannot be drawn or written."""
        if self.report is not None:
            from onchip.reports.program.html import ensure_report_can_be_made

            ensure_report_can_be_made()
        if self.figure is not None and self.figure.suffix != ".svg":
            raise UsageError(
                f"{self.figure.suffix or 'no suffix'} is not drawn", place="--figure", expected="a name in .svg"
            )
        for path in filter(None, (self.report, self.figure)):
            ensure_writable(path, inputs=self.inputs)

    def draw(self, context: typer.Context, outcome: Outcome) -> None:
        """Write the files, if there is a plan."""
        from onchip.formats.files import write_file

        if outcome.document is None or outcome.figures is None:
            return
        if self.figure is not None:
            from onchip.answer.picture import svg_of_plan

            write_file(self.figure, svg_of_plan(outcome.document.answer, outcome.problem, "white").encode())
        if self.report is not None:
            _write_report(_findings_of(outcome, self.accelerator, command_line(context)), self.report)


def command_line(context: typer.Context) -> str:
    """What the user typed."""
    arguments = context.find_root().obj or ()
    return shlex.join(("onchip", *arguments))


def _findings_of_check(check: Check, chip: Accelerator | None, rivals: tuple[Rival, ...], typed: str) -> Findings:
    from onchip.app.plan import timeline_of
    from onchip.facts.bounds import greatest_need
    from onchip.reports.program.findings import Findings

    problem, document = check.problem, check.document
    timed = None if chip is None else timeline_of(problem, document.answer, chip)
    need = greatest_need(problem)
    return Findings(problem, document, check.verdict.figures, need, typed, rivals=rivals, timeline=timed)


def _findings_of(outcome: Outcome, accelerator: str | None, typed: str) -> Findings:
    from onchip.app.plan import timeline_of
    from onchip.formats.own.accelerator_yaml import load_accelerator
    from onchip.reports.program.findings import Findings

    if outcome.document is None or outcome.figures is None:
        raise ValueError("there is no plan to report on")
    timed, why = None, "the scratchpad was given alone, with neither array nor DRAM (`onchip report --accelerator`)"
    if accelerator is not None:
        try:
            timed = timeline_of(outcome.problem, outcome.document.answer, load_accelerator(accelerator))
        except AcceleratorError as error:
            why = str(error)
    seconds = outcome.seconds
    spent = f"read {seconds.read:.3f}, M_P {seconds.budget:.3f}, solve {seconds.solve:.3f}, verify {seconds.verify:.3f}"
    facts = (
        ("stopped by", str(outcome.result.stopped_by)),
        ("order, seed", f"{outcome.problem.order}, {outcome.seed}"),
        ("seconds", spent),
    )
    return Findings(
        outcome.problem,
        outcome.document,
        outcome.figures,
        outcome.required,
        typed,
        facts,
        timeline=timed,
        no_timeline=why,
    )


def _write_report(findings: Findings, path: Path) -> int:
    from onchip.formats.files import write_file
    from onchip.reports.program.html import report_html

    page = report_html(findings).encode()
    write_file(path, page)
    return len(page)


def _rivals(problem: Problem, seconds: float) -> tuple[Rival, ...]:
    """Run the baselines that are registered; each plan is verified before its figures count."""
    from dataclasses import replace

    from onchip.answer.problem import Objective, Order
    from onchip.app.plan import plan_problem
    from onchip.reports.program.findings import Rival
    from onchip.solve.run.limits import Limits
    from onchip.solve.run.registry import METHODS
    from onchip.verify.verifier import verify

    rivals = []
    objective = Objective.TRAFFIC if problem.objective is Objective.PEAK else problem.objective
    for name, order in BASELINES:
        method, asked = METHODS[name], replace(problem, order=Order(order), objective=objective)
        if method.supports(asked):
            result = plan_problem(asked, name, Limits(seconds))
            figures = None if result.answer is None else verify(asked, result.answer).figures
            rivals.append(Rival(f"{name}, {order} order", result.status, figures))
    return tuple(rivals)
