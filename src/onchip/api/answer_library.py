"""Functions of `import onchip` that check, run, explain or draw an answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, overload

from onchip.errors import UsageError
from onchip.reports.schedule.outcome import ScheduleOutcome

if TYPE_CHECKING:
    from onchip.api.check import Checked
    from onchip.api.library import File
    from onchip.reports.execution import Execution, ScheduleExecution
    from onchip.reports.program.explanation import Explanation
    from onchip.reports.program.outcome import Check, Outcome
    from onchip.reports.schedule.explanation import ScheduleExplanation


def check(answer: ScheduleOutcome | File, network: File | None = None, accelerator: File | None = None) -> Checked:
    """Verify an answer file for a network, or a schedule returned by `schedule`, without any search.

    A mapping or a strategy file needs an accelerator unless it names a bundled one. Raises InputError for unreadable
    files, UsageError if there is no answer, or no network is named for a file.
    """
    from onchip.api.check import CheckRequest, check_file
    from onchip.api.check_schedule import check_schedule_document
    from onchip.api.target import Target

    if isinstance(answer, ScheduleOutcome):
        if answer.document is None:
            raise UsageError("there is no schedule to check", place="answer", expected="one that was found")
        return check_schedule_document(answer.document, str(network or answer.source))
    chip = None if accelerator is None else str(accelerator)
    return check_file(CheckRequest(Path(answer), _named(network), Target(accelerator=chip)))


def run(
    answer: ScheduleOutcome | File, network: File | None = None, *, seed: int = 0, steps: int = 1
) -> ScheduleExecution | Execution:
    """Execute a schedule, or a plan or schedule file, on real data and compare with an unscheduled run.

    A plan is run for `steps` inferences, each with the state left by the preceding one. Raises InputError for
    unreadable files, UsageError if there is no answer, or no network is named.
    """
    from onchip.api.check_schedule import ScheduleFile, check_schedule_document
    from onchip.api.kernels import RunValues
    from onchip.api.run_plan import run_plan
    from onchip.api.run_schedule import execution_of, run_schedule

    values = RunValues(seed)
    if isinstance(answer, ScheduleOutcome):
        if answer.document is None:
            raise UsageError("there is no schedule to run", place="answer", expected="one that was found")
        source = str(network or answer.source)
        return execution_of(check_schedule_document(answer.document, source), source, values)
    if _is_schedule(answer):
        return run_schedule(ScheduleFile(Path(answer), _named(network)), values)
    return run_plan(Path(answer), _named(network), values, steps)


@overload
def explain(answer: Outcome) -> Explanation: ...


@overload
def explain(answer: ScheduleOutcome) -> ScheduleExplanation: ...


@overload
def explain(answer: File, network: File | None = None) -> Explanation | ScheduleExplanation: ...


def explain(answer: Outcome | ScheduleOutcome | File, network: File | None = None) -> Explanation | ScheduleExplanation:
    """Explain the transfers of a plan, or the energy of a schedule, given as outcome or file.

    Raises InputError for unreadable files, UsageError if there is no answer, or no network is named.
    """
    from onchip.reports.explain.history import History
    from onchip.reports.program.explanation import Explanation
    from onchip.reports.schedule.explanation import ScheduleExplanation

    if isinstance(answer, ScheduleOutcome) or (isinstance(answer, (str, Path)) and _is_schedule(answer)):
        return ScheduleExplanation.of(_shown(answer, network))
    if isinstance(answer, (str, Path)):
        check = _legal_plan(answer, network)
        return Explanation.of(History(check.problem, check.document.answer))
    if answer.history is None:
        raise UsageError("there is no plan to explain", place="outcome", expected="one that was found")
    return Explanation.of(answer.history)


def report(answer: ScheduleOutcome | File, output: File, network: File | None = None) -> None:
    """Draw a schedule, or a plan or schedule file, as one HTML file for offline use.

    Raises InputError for unreadable files, OutputError for an unwritable one, UsageError if there is no answer, or no
    network is named for a file.
    """
    from onchip.api.show_plan import findings_of
    from onchip.formats.files import write_file
    from onchip.reports.program.html import report_html
    from onchip.reports.schedule.html import schedule_html

    typed = f"onchip.report(..., {str(output)!r})"
    if isinstance(answer, ScheduleOutcome) or _is_schedule(answer):
        page = schedule_html(_shown(answer, network), typed)
    else:
        page = report_html(findings_of(_legal_plan(answer, network), typed))
    write_file(Path(output), page.encode())


def _is_schedule(answer: File) -> bool:
    from onchip.formats.files import AnswerFormat, format_of_answer

    return format_of_answer(Path(answer)) is AnswerFormat.SCHEDULE


def _legal_plan(answer: File, network: File | None) -> Check:
    """Return the check of a plan file against its network; raises UsageError if the plan is illegal."""
    from onchip.api.check_plan import check_plan
    from onchip.api.target import Target

    check = check_plan(Path(answer), _named(network), Target(), {})
    if not check.is_legal:
        first = check.verdict.violations[0]
        raise UsageError(f"it is not legal: {first}", file=str(answer), expected="a legal plan")
    return check


def _shown(answer: ScheduleOutcome | File, network: File | None) -> ScheduleOutcome:
    """Return the schedule of an outcome or a file; raises UsageError if there is none or it is illegal."""
    if isinstance(answer, ScheduleOutcome):
        if answer.document is None:
            raise UsageError("there is no schedule to show", place="answer", expected="one that was found")
        return answer
    from onchip.api.check_schedule import ScheduleFile
    from onchip.api.show_schedule import schedule_to_show

    shown = schedule_to_show(ScheduleFile(Path(answer), _named(network)))
    if shown.outcome is None:
        first = shown.check.verdict.violations[0]
        raise UsageError(f"it is not legal: {first}", file=str(answer), expected="a legal schedule")
    return shown.outcome


def _named(network: File | None) -> str:
    if network is None:
        raise UsageError("it does not say where its network is", place="network", expected="a bundled name or a file")
    return str(network)
