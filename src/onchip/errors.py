"""What onchip refuses, always in one line: where, what is wrong, what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@contextmanager
def errors_in_file(file: str) -> Iterator[None]:
    """Raise any InputError of the block with the name of the file."""
    try:
        yield
    except InputError as error:
        raise error.in_file(file) from None


class GraphError(InputError):
    """A network that is not a graph onchip can plan."""


class DifferentShapeError(GraphError):
    """A tensor to which the network's runtime gives another shape than the graph has."""


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """A dimension of a network input that has no size; without an axis the input has no shape at all."""

    input: str
    axis: int | None
    symbol: str | None

    def __str__(self) -> str:
        if self.symbol is not None:
            return f"symbol {self.symbol!r} (axis {self.axis} of {self.input!r})"
        return f"the shape of {self.input!r}" if self.axis is None else f"axis {self.axis} of {self.input!r}"


class OpenDimensionsError(GraphError):
    """A network whose inputs have open dimensions: all of them, and options with which it can be read."""

    def __init__(self, open_dimensions: tuple[OpenDimension, ...], options: str) -> None:
        count, listed = len(open_dimensions), ", ".join(str(each) for each in open_dimensions)
        what = f"its inputs have {count} open dimension{'s' if count > 1 else ''}: {listed}"
        super().__init__(what, expected=f"sizes, such as {options}")
        self.open_dimensions = open_dimensions
        self.options = options


class UnsplitError(GraphError):
    """A network with an operator that fits in no split: none does (proven), or none was found with so much work.

    `smallest_part_bytes` are those of its smallest part; None where they are not known.
    """

    def __init__(
        self,
        what: str,
        *,
        operator: str,
        need_bytes: int,
        smallest_part_bytes: int | None,
        capacity_bytes: int,
        is_proven: bool,
        expected: str,
    ) -> None:
        super().__init__(what, place=f"operator {operator!r}", expected=expected)
        self.operator = operator
        self.need_bytes = need_bytes
        self.smallest_part_bytes = smallest_part_bytes
        self.capacity_bytes = capacity_bytes
        self.is_proven = is_proven

    @property
    def excess_bytes(self) -> int:
        """How many bytes more there would have to be for the smallest part; 0 where it has room alone."""
        least = self.need_bytes if self.smallest_part_bytes is None else self.smallest_part_bytes
        return max(least - self.capacity_bytes, 0)


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


class NetworkWarning(UserWarning):
    """What was read of a network is not all that its file says, or is more than it needs."""


class CacheWarning(UserWarning):
    """The folder of kept mappings cannot be used as it should be, which costs time alone."""
