"""What onchip refuses, always in one line: where, what is wrong, what was expected."""

from __future__ import annotations

from typing import Self


class OnchipError(Exception):
    """One line for the reader: `file: place: what is wrong; expected ...`.

    `place` is a line, node, tensor or field; `file` is added by whoever opened it.
    """

    def __init__(
        self,
        what: str,
        *,
        file: str | None = None,
        place: str | None = None,
        expected: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.file = file
        self.place = place
        self.expected = expected

    def in_file(self, file: str) -> Self:
        """The same error, with the file it was found in."""
        self.file = file
        return self

    def __str__(self) -> str:
        where = "".join(f"{part}: " for part in (self.file, self.place) if part)
        expected = f"; expected {self.expected}" if self.expected else ""
        return " ".join(f"{where}{self.what}{expected}".split())


class InputError(OnchipError):
    """Bad input: the user can mend it."""


class GraphError(InputError):
    """A network that is not a graph onchip can plan."""


class AcceleratorError(InputError):
    """An accelerator that cannot be."""


class PlanError(InputError):
    """A plan file that cannot be read (an illegal plan that can be read has violations instead)."""


class UsageError(InputError):
    """Arguments that contradict each other or ask for what a method does not support.

    `try_next` are options that would do, to be written behind what was asked.
    """

    try_next: tuple[str, ...] = ()


class OutputError(OnchipError):
    """What was found could not be handed out: a file, or a standard stream, that cannot be written."""


class InternalError(OnchipError):
    """A defect of onchip itself, such as a plan of its own that failed verification."""


class CacheWarning(UserWarning):
    """The folder of kept mappings cannot be used as it should be, which costs time alone."""
