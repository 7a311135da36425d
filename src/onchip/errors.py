"""The errors and warnings of onchip. An error message is one line: location, problem, expectation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, Self


class OnchipError(Exception):
    """An error with a message of one line: `file: place: what; expected ...`, or `file: place is ...`.

    `place` is a line, node, tensor or field. The code that opened the file adds `file`. `where` joins both, and `hint`
    is the expectation.
    """

    def __init__(
        self, what: str, place: str | None = None, expected: str | None = None, *, file: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.file = file
        self.place = place
        self.expected = expected

    @property
    def where(self) -> str | None:
        """Return the file and the place of the error; None if neither is known."""
        return ": ".join(part for part in (self.file, self.place) if part) or None

    @property
    def hint(self) -> str | None:
        """Return the input that was expected; None if it is not known."""
        return self.expected

    def in_file(self, file: str) -> Self:
        """Set the file of this error, and return the error."""
        self.file = file
        return self

    def __str__(self) -> str:
        if self.where and self.what.startswith("it "):  # the place is the subject
            said = f"{self.where} {self.what.removeprefix('it ')}"
        else:
            said = ": ".join(filter(None, (self.where, self.what)))
        expected = f"; expected {self.expected}" if self.expected else ""
        return " ".join(f"{said}{expected}".split())


class InputError(OnchipError):
    """An error in the input, which the user can correct."""


def nearest_first(name: str, names: Iterable[str]) -> str:
    """Return the name most like a misspelt `name`, and `, or another`; empty if none is like it."""
    from difflib import get_close_matches

    return "".join(f"{found}, or another " for found in get_close_matches(name, list(names), 1))


@contextmanager
def errors_in_file(file: str) -> Iterator[None]:
    """Raise each InputError of the block with the name of the file."""
    try:
        yield
    except InputError as error:
        raise error.in_file(file) from None


class GraphError(InputError):
    """A network that is no graph that onchip can plan."""


class DifferentShapeError(GraphError):
    """A tensor whose shape in the network's runtime differs from its shape in the graph."""


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """A dimension of a network input without a size. `axis` is None if the input has no shape."""

    input: str
    axis: int | None
    symbol: str | None

    def __str__(self) -> str:
        if self.symbol is not None:
            return f"symbol {self.symbol!r} (axis {self.axis} of {self.input!r})"
        return f"the shape of {self.input!r}" if self.axis is None else f"axis {self.axis} of {self.input!r}"


class SuggestedBindings(Protocol):
    """Bindings that set open dimensions; `words` states them as arguments."""

    @property
    def dims(self) -> Mapping[str, int]:
        """Map from symbol to size."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Map from network input to shape."""

    @property
    def values(self) -> Mapping[str, tuple[float, ...]]:
        """Map from network input to values."""

    @property
    def words(self) -> str:
        """The bindings as arguments of the API."""


class OpenDimensionsError(GraphError):
    """A network whose inputs have open dimensions. Lists all of them, and bindings that set them."""

    def __init__(self, open_dimensions: tuple[OpenDimension, ...], suggested: SuggestedBindings) -> None:
        count, listed = len(open_dimensions), ", ".join(str(each) for each in open_dimensions)
        what = f"the network's inputs have {count} open dimension{'s' if count > 1 else ''}: {listed}"
        super().__init__(what, expected=f"sizes, such as {suggested.words}")
        self.open_dimensions = open_dimensions
        self.suggested = suggested


class UntiledError(GraphError):
    """A network with an operator that does not fit in memory in any tiling (proven), or for which none was found.

    `smallest_part_bytes` is the size of its smallest tile, or None if it is unknown.
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
        """Number of additional bytes that the smallest tile requires, or 0 if it fits alone."""
        least = self.need_bytes if self.smallest_part_bytes is None else self.smallest_part_bytes
        return max(least - self.capacity_bytes, 0)


class AcceleratorError(InputError):
    """An accelerator description that is invalid."""


class PlanError(InputError):
    """A plan file that cannot be read. A readable but illegal plan has violations instead."""


class UsageError(InputError):
    """Arguments that contradict each other or request an unsupported feature of a method.

    `try_next` are targets that resolve the error.
    """

    try_next: tuple[str, ...] = ()


class OutputError(OnchipError):
    """A failure to write a result to a file or a standard stream."""


class InternalError(OnchipError):
    """A defect of onchip, such as an onchip plan that failed verification."""


class NetworkWarning(UserWarning):
    """A warning that the network as read omits information of its file, or has more than it needs."""


class CacheWarning(UserWarning):
    """A warning that the cache of mappings is unusable, which costs only time."""
