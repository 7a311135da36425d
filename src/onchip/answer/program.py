"""A plan: the straight-line program that answers a planning problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from onchip.arch.memory import Memory

if TYPE_CHECKING:
    from onchip.answer.problem import Problem


@dataclass(frozen=True, slots=True)
class Allocate:
    """The start of a residency of `tensor` in scratchpad `memory` at `offset_bytes`, with undefined bytes.

    With `is_state` the bytes are those left by the preceding inference: the tensor's value.
    """

    tensor: str
    memory: str
    offset_bytes: int
    is_state: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """A transfer of `tensor` from memory `source` to memory `target` (one of them may be DRAM)."""

    tensor: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Compute:
    """An execution of `operator`, which takes one step; its operands are resident during the step."""

    operator: str


@dataclass(frozen=True, slots=True)
class Free:
    """The end of the residency of `tensor` in scratchpad `memory`."""

    tensor: str
    memory: str


Instruction: TypeAlias = Allocate | Copy | Compute | Free


@dataclass(frozen=True, slots=True)
class Plan:
    """A sequence of instructions over scratchpads; the verifier defines which plans are legal.

    `problem` is the problem that the plan answers, if known; only pictures use it, for sizes.
    """

    memories: tuple[Memory, ...]
    instructions: tuple[Instruction, ...]
    problem: Problem | None = field(default=None, compare=False, repr=False)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        from onchip.reports.picture import html_of_plan

        return html_of_plan(self)
