"""The pictures that `onchip plan` makes on the way: its memory map, and the page that `onchip report` draws."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onchip.api.phases import phase
from onchip.errors import AcceleratorError, UsageError

if TYPE_CHECKING:
    from onchip.reports.program.findings import Findings
    from onchip.reports.program.outcome import Outcome


def ensure_figure_can_be_written(figure: Path | None, inputs: tuple[str, ...]) -> None:
    """Raise UsageError for a picture that is not SVG, InputError for a file that cannot be written or is read."""
    from onchip.formats.files import ensure_writable

    if figure is None:
        return
    if figure.suffix != ".svg":
        raise UsageError(f"{figure.suffix or 'no suffix'} is not drawn", place="--figure", expected="a name in .svg")
    ensure_writable(figure, inputs=inputs)


def draw_figure(figure: Path | None, outcome: Outcome) -> None:
    """Draw the memory map of a plan, if it is asked for; raises OutputError where it cannot be written."""
    from onchip.formats.files import write_file
    from onchip.reports.picture import svg_of_plan

    if figure is not None and outcome.document is not None:
        with phase("drawing"):
            write_file(figure, svg_of_plan(outcome.document.answer, outcome.problem, "white").encode())


def page_of_plan(outcome: Outcome, accelerator: str | None, typed: str) -> str:
    """Return the page of a plan just found; raises ValueError where there is none."""
    from onchip.reports.program.html import report_html

    return report_html(_findings(outcome, accelerator, typed))


def _findings(outcome: Outcome, accelerator: str | None, typed: str) -> Findings:
    from onchip.api.time_plan import own_timeline, timeline_of
    from onchip.formats.foreign_files import load_any_accelerator
    from onchip.reports.program.findings import Findings

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
