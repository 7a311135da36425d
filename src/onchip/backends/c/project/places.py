"""Where a plan has each tensor when an operator runs, and where in DRAM what leaves the chip lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM
from onchip.ir.tensor import Role

DRAM_ALIGNMENT_BYTES: Final = 16


@dataclass(slots=True)
class OpenPlace:
    """A residency as it goes on; `is_written` once something was copied to it or computed there."""

    memory: str
    offset_bytes: int
    is_written: bool = False


@dataclass(slots=True)
class OpenPlaces:
    """The open residencies of each tensor while a legal plan's instructions are walked through."""

    open: dict[str, list[OpenPlace]] = field(default_factory=dict)

    def follow(self, instruction: Instruction, outputs: Iterable[str]) -> None:
        """Do what an instruction does to places; of a Compute these are the outputs."""
        match instruction:
            case Allocate(tensor, memory, offset_bytes, is_state):
                self.open.setdefault(tensor, []).append(OpenPlace(memory, offset_bytes, is_state))
            case Free(tensor, memory):
                self.open[tensor] = [one for one in self.open[tensor] if one.memory != memory]
            case Copy(tensor, _, target) if target != DRAM:
                self.in_memory(tensor, target).is_written = True
            case Compute():
                for name in outputs:
                    for place in self.open[name]:
                        place.is_written = True

    def in_memory(self, tensor: str, memory: str) -> OpenPlace:
        """Return where a tensor lies in that memory."""
        return next(one for one in self.open[tensor] if one.memory == memory)

    def of(self, tensor: str) -> OpenPlace:
        """Return where a tensor is read, or written if it has not been."""
        places = self.open[tensor]
        return next((one for one in places if one.is_written), places[0])


def dram_offsets(problem: Problem, plan: Plan) -> tuple[dict[str, int], int]:
    """Return where in DRAM each tensor that is ever there lies, side by side, and how many bytes that takes."""
    offsets: dict[str, int] = {}
    end = 0
    for name in dict.fromkeys(_ever_in_dram(problem, plan)):
        offsets[name] = end
        size_bytes = problem.graph.tensor[name].size_bytes
        end = -(-(end + size_bytes) // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES
    return offsets, end


def _ever_in_dram(problem: Problem, plan: Plan) -> Iterator[str]:
    """Network inputs and outputs first, then what is spilled."""
    for role in (Role.INPUT, Role.OUTPUT):
        yield from (tensor.name for tensor in problem.graph.with_role(role))
    yield from (line.tensor for line in plan.instructions if isinstance(line, Copy) and line.target == DRAM)
