"""Output of a command's result: as one JSON object, or as text and tables."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from onchip.answer.options.choices import option
from onchip.answer.result import SearchResult, Status, Stop
from onchip.api.phases import phase
from onchip.commands.arguments import AsJson
from onchip.commands.verb import with_flags
from onchip.errors import InputError, OnchipError, OutputError, UntiledError, UsageError
from onchip.plugins import PluginError
from onchip.reports.shared.output import write, write_json
from onchip.search.strategy.start import NoAnswerError, StoppedError

if TYPE_CHECKING:
    from onchip.api.results import Result, View


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOptions:
    """Options for the output of a verb that solves."""

    exact: bool = option(False, "Print all digits of every figure.")
    explain_bound: bool = option(False, "Print all that the lower bound covers, and what is not verified.")
    as_json: AsJson = False


def show_solved(view: View[Any], shown: ShownOptions) -> None:
    """Print the result of a verb that solves."""
    from onchip.answer.words import exact_figures
    from onchip.reports.shared.facts import explained_bounds

    with exact_figures(shown.exact), explained_bounds(shown.explain_bound):
        show_view(view, as_json=shown.as_json)


def show_view(view: View[Any], *, as_json: bool) -> None:
    """Print a result as JSON or tables; modules for tables are imported only for tables."""
    with phase("writing"):
        found = view.to_dict() if as_json else view.text()
    if isinstance(found, str):
        write(with_flags(found))
        return
    messages = ("error", "expected", "why_not")  # they name options instead of arguments
    named = {name: with_flags(one) for name, one in found.items() if name in messages and isinstance(one, str)}
    write_json({**found, **named})


def show_words(as_object: Mapping[str, object], words: str, *, as_json: bool) -> None:
    """Print a result as JSON, or as a few lines of text."""
    if as_json:
        write_json(as_object)
    else:
        write(words)


@dataclass(frozen=True, slots=True)
class AnswerFiles:
    """The paths of the answer and its page, None if not requested; `inputs` are the files that the command reads."""

    inputs: tuple[str, ...]
    output: Path | None
    report: Path | None = None

    def ensure_they_can_be_written(self, *, is_folder: bool = False) -> None:
        """Raise InputError for a file that is unwritable or an input, UsageError if pages cannot be drawn.

        Set `is_folder` if the answer consists of several files.
        """
        from onchip.formats.files import ensure_folder, ensure_writable
        from onchip.reports.shared.page import ensure_report_can_be_made

        if self.report is not None:
            ensure_report_can_be_made()
        if is_folder and self.output is not None:
            ensure_folder(self.output)
        if self.report is not None and self.report == self.output:
            raise UsageError("--output and --report name the same file", place="--report", expected="another file")
        for path in filter(None, (None if is_folder else self.output, self.report)):
            ensure_writable(path, inputs=self.inputs)

    def write_answer(self, write_to: Callable[[Path], None]) -> None:
        """Write the answer if it is requested; raises OutputError if that fails."""
        if self.output is not None:
            with phase("writing"):
                write_to(self.output)

    def write_report(self, page: Callable[[], str]) -> None:
        """Draw and write the page if it is requested; raises OutputError if that fails."""
        from onchip.formats.files import write_file

        if self.report is not None:
            with phase("drawing"):
                write_file(self.report, page().encode())


def command_line(context: typer.Context) -> str:
    """Return the command line as the user typed it."""
    arguments = context.find_root().obj or ()
    return shlex.join(("onchip", *arguments))


class ExitCode(IntEnum):
    """The exit codes, explained in `docs/formats.md`."""

    ANSWER = 0
    WRONG = 1
    BAD_INPUT = 2
    INFEASIBLE = 3
    NO_ANSWER = 4
    INTERNAL = 70
    OUTPUT = 74
    INTERRUPTED = 130


def code_of_check(is_right: bool) -> ExitCode:
    """Return the exit code of a command that checks an answer."""
    return ExitCode.ANSWER if is_right else ExitCode.WRONG


def code_of_result(result: SearchResult[Any] | Result[Any]) -> ExitCode:
    """Return the exit code of a search: an answer, no answer, or a proof that there is none."""
    if result.answer is not None:
        return ExitCode.ANSWER
    if result.status is Status.INFEASIBLE:
        return ExitCode.INFEASIBLE
    return ExitCode.INTERRUPTED if result.stopped_by is Stop.INTERRUPTED else ExitCode.NO_ANSWER


def code_of_refusal(error: OnchipError) -> ExitCode:
    """Return the exit code for an error."""
    if isinstance(error, UntiledError):
        return ExitCode.INFEASIBLE if error.is_proven else ExitCode.NO_ANSWER
    by_kind = {
        InputError: ExitCode.BAD_INPUT,
        PluginError: ExitCode.BAD_INPUT,
        OutputError: ExitCode.OUTPUT,
        NoAnswerError: ExitCode.NO_ANSWER,
        StoppedError: ExitCode.INTERRUPTED,
    }
    return next((code for kind, code in by_kind.items() if isinstance(error, kind)), ExitCode.INTERNAL)
