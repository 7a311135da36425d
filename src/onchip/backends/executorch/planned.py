"""What was decided for a module, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.result import Status
from onchip.reports.shared.words import counted, exact_bytes


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """A memory of ExecuTorch's, by its `mem_id`: how many buffers lie in it, and how high the highest reaches.

    `capacity_bytes` is None where there is no limit. `arena_bytes` is what the runtime has to give, what submodules and
    delegates ask for included.
    """

    mem_id: int
    name: str
    capacity_bytes: int | None
    arena_bytes: int
    buffers: int
    buffer_bytes: int

    def __str__(self) -> str:
        limit = "" if self.capacity_bytes is None else f" of {self.capacity_bytes:,}"
        inside = f"{counted(self.buffers, 'buffer')} of {exact_bytes(self.buffer_bytes)}"
        return f"  {self.mem_id} {self.name}: {self.arena_bytes:,}{limit} bytes, {inside}"


@dataclass(frozen=True, slots=True)
class PlannedModule:
    """A module, or one that its control flow calls: memories, and what is proven of the objective's value."""

    memories: tuple[PlannedMemory, ...]
    objective: str
    status: Status
    value_bytes: int
    lower_bound_bytes: int
    seconds: float

    @property
    def buffers(self) -> int:
        """How many buffers have a place."""
        return sum(memory.buffers for memory in self.memories)

    def __str__(self) -> str:
        line = (
            f"{self.status}: {counted(self.buffers, 'buffer')}, {self.objective} {exact_bytes(self.value_bytes)}, "
            f"lower bound {exact_bytes(self.lower_bound_bytes)}, {self.seconds:.3f} seconds"
        )
        return "\n".join((line, *map(str, self.memories)))
