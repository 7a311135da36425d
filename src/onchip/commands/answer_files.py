"""Files that a command writes in addition to its output: the answer (`-o`) and its HTML page (`--report`)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer

from onchip.api.phases import phase


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
