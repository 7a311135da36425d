"""Files that a command reads and writes: answers (`-o`), their HTML pages (`--report`), and bundled networks."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from onchip.api.phases import phase
from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat, format_of_answer


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

        if self.report is not None:
            from onchip.reports.shared.page import ensure_report_can_be_made

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


_KINDS: Final = {
    AnswerFormat.PLAN: "plans",
    AnswerFormat.SCHEDULE: "schedules",
    AnswerFormat.STRATEGY: "fusion strategies",
    AnswerFormat.MAPPING: "mappings",
}
_OTHER_COMMANDS: Final = {
    AnswerFormat.STRATEGY: "`onchip check` recomputes the figures of a strategy, `onchip fuse --report` draws them",
    AnswerFormat.MAPPING: "`onchip check` recomputes the figures of mappings, `onchip map --report` draws them",
}
"""Commands that show what a verb does not."""


def format_accepted_by(verb: str, path: Path) -> AnswerFormat:
    """Return the format of a plan or a schedule; raises UsageError for other answers, with the command to use."""
    found = format_of_answer(path)
    if found in _OTHER_COMMANDS:
        what = f"`onchip {verb}` accepts plans and schedules, not {_KINDS[found]}"
        raise UsageError(what, file=str(path), expected=f"a plan or a schedule; {_OTHER_COMMANDS[found]}")
    return found


def command_line(context: typer.Context) -> str:
    """Return the command line as the user typed it."""
    arguments = context.find_root().obj or ()
    return shlex.join(("onchip", *arguments))


def bundled_network_of(answer: Path) -> str:
    """Return the bundled network that a plan or a schedule names; raises UsageError if it is not bundled."""
    from onchip.formats.own.graph_json import bundled_networks
    from onchip.formats.own.plan_json import read_plan
    from onchip.formats.own.schedule_json import read_schedule

    is_schedule = format_of_answer(answer) is AnswerFormat.SCHEDULE
    name = (read_schedule(answer) if is_schedule else read_plan(answer)).graph.name
    if name not in bundled_networks():
        raise UsageError(f"the network, {name!r}, is not bundled", file=str(answer), expected="NETWORK after the file")
    return name
