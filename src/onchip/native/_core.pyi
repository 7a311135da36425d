"""The compiled searches; the header of each says what it does.

Every search releases the interpreter lock, looks at its stop token in the innermost loop, and raises TypeError for
numbers of more than 64 bits (32, for what is counted), ValueError for what its header rules out.
"""

from collections.abc import Sequence
from enum import Enum

class StopToken:
    """How a search that runs in another thread is asked to end."""

    def __init__(self) -> None: ...
    def ask(self) -> None: ...
    def forget(self) -> None: ...
    @property
    def is_asked(self) -> bool: ...

class PackingOutcome(Enum):
    """Why a run of the packing search ended."""

    FOUND = ...
    EXHAUSTED = ...
    STOPPED = ...

class PackingBuffer:
    """A buffer in units, alive in the sections `first` to `stop - 1`.

    `last` is its highest legal offset, `twin` one with the same life and size that is placed before it, or -1. Its
    neighbours live in one of its sections at least.
    """

    def __init__(
        self, *, first: int, stop: int, size: int, last: int, twin: int, neighbours: Sequence[int]
    ) -> None: ...
    @property
    def first(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def last(self) -> int: ...

class PackingSearch:
    """Packs buffers, or proves that no section's limit is kept by any packing; keeps what it learns between runs."""

    def __init__(self, buffers: Sequence[PackingBuffer], limits: Sequence[int]) -> None: ...
    def run(self, rank: Sequence[int], most_nodes: int, stop: StopToken) -> PackingOutcome:
        """Begin anew, trying buffers of low rank first."""

    @property
    def nodes(self) -> int:
        """Decisions of the last run."""

    @property
    def offsets(self) -> list[int]:
        """By buffer, in units; of a packing if the last run found one."""

    @property
    def hardest_section(self) -> int:
        """The section that was most to blame in all runs, the first of equals."""
