"""The answer to a planning problem: a straight-line program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from onchip.arch.memory import Memory

if TYPE_CHECKING:
    from onchip.answer.problem import Problem


@dataclass(frozen=True, slots=True)
class Allocate:
    """A residency of `tensor` begins in scratchpad `memory` at `offset_bytes`; its bytes are undefined.

    With `is_state` they are what the inference before has left there: the tensor's value.
    """

    tensor: str
    memory: str
    offset_bytes: int
    is_state: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """The bytes of `tensor` move from memory `source` to memory `target` (one of them may be DRAM)."""

    tensor: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Compute:
    """`operator` runs and takes one step; what it reads and writes is resident then."""

    operator: str


@dataclass(frozen=True, slots=True)
class Free:
    """The residency of `tensor` in scratchpad `memory` ends."""

    tensor: str
    memory: str


Instruction: TypeAlias = Allocate | Copy | Compute | Free


@dataclass(frozen=True, slots=True)
class Plan:
    """Instructions over scratchpads. What makes it legal is the verifier's to say.

    `problem` is the one it answers, where that is known: pictures take sizes from it, nothing else does.
    """

    memories: tuple[Memory, ...]
    instructions: tuple[Instruction, ...]
    problem: Problem | None = field(default=None, compare=False, repr=False)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from onchip.reports.picture import html_of_plan

        return html_of_plan(self)
