"""The files a verb writes beside what it prints: the answer (`-o`) and a page that shows it (`--report`)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer

from onchip.api.phases import phase


@dataclass(frozen=True, slots=True)
class AnswerFiles:
    """Where the answer and its page go, None where they are not asked for; `inputs` is what the verb reads."""

    inputs: tuple[str, ...]
    output: Path | None
    report: Path | None = None

    def ensure_they_can_be_written(self, *, is_folder: bool = False) -> None:
        """Raise InputError for a file that cannot be written or is read, UsageError where no page can be drawn.

        The answer `is_folder` where it is several files.
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
        """Write the answer, if it is asked for; raises OutputError."""
        if self.output is not None:
            with phase("writing"):
                write_to(self.output)

    def write_report(self, page: Callable[[], str]) -> None:
        """Draw the page and write it, if it is asked for; raises OutputError."""
        from onchip.formats.files import write_file

        if self.report is not None:
            with phase("drawing"):
                write_file(self.report, page().encode())


def command_line(context: typer.Context) -> str:
    """Return what the user typed."""
    arguments = context.find_root().obj or ()
    return shlex.join(("onchip", *arguments))
