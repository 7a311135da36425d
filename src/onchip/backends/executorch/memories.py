"""The memories that ExecuTorch's buffers may lie in, each with the `mem_id` by which the runtime knows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from pathlib import Path
from typing import Final

from onchip.answer.static_packing import StaticMemory, StaticPackingProblem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.backends.executorch.specs import ModuleBuffers
from onchip.errors import UsageError

FIRST_ID: Final = 1
"""ExecuTorch keeps 0 for constants."""


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """The scratchpads have the ids 1, 2, ... in their order; what lies in none of them has the next."""

    scratchpads: tuple[Memory, ...] = ()

    @property
    def rest(self) -> int:
        """The id of the memory without a limit."""
        return FIRST_ID + len(self.scratchpads)

    def name(self, mem_id: int) -> str:
        """What the accelerator calls it; a memory that a custom pool pass has chosen is a pool."""
        if mem_id < self.rest:
            return self.scratchpads[mem_id - FIRST_ID].name
        if mem_id > self.rest:
            return "pool"
        return DRAM if self.scratchpads else "memory"

    def capacity_bytes(self, mem_id: int) -> int | None:
        """What a scratchpad has room for; None for any other memory."""
        return self.scratchpads[mem_id - FIRST_ID].capacity_bytes if mem_id < self.rest else None


@dataclass(frozen=True, slots=True)
class Demands:
    """What each memory has to do beside holding buffers.

    `reserved_bytes[mem_id]` lie at its bottom for submodules, `padding_bytes` are wanted behind its last buffer.
    """

    alignment_bytes: int
    reserved_bytes: Sequence[int]
    padding_bytes: int

    def reserved(self, mem_id: int) -> int:
        """The bytes at its bottom that are taken."""
        return self.reserved_bytes[mem_id] if mem_id < len(self.reserved_bytes) else 0


@dataclass(frozen=True, slots=True)
class MappedProblem:
    """A static packing problem whose memory `i` has the id `mem_ids[i]`."""

    problem: StaticPackingProblem
    mem_ids: tuple[int, ...]


def mapped_problem(memory_map: MemoryMap, buffers: ModuleBuffers, demands: Demands) -> MappedProblem:
    """Ask for places; a tensor that has an id already is pinned to that memory."""
    pins = {spec.mem_id for spec in buffers.specs if spec.mem_id is not None}
    mem_ids = tuple(sorted({*range(FIRST_ID, memory_map.rest + 1), *pins}))
    index = {mem_id: number for number, mem_id in enumerate(mem_ids)}
    problem = StaticPackingProblem(
        buffers.buffers,
        tuple(_static_memory(memory_map, mem_id, demands) for mem_id in mem_ids),
        tuple(None if spec.mem_id is None else index[spec.mem_id] for spec in buffers.specs),
        index[memory_map.rest],
    )
    return MappedProblem(problem, mem_ids)


def _static_memory(memory_map: MemoryMap, mem_id: int, demands: Demands) -> StaticMemory:
    reserved = demands.reserved(mem_id)
    if not FIRST_ID <= mem_id < memory_map.rest:
        return StaticMemory(None, demands.alignment_bytes, reserved)
    memory = memory_map.scratchpads[mem_id - FIRST_ID]
    room = max(memory.capacity_bytes - demands.padding_bytes, 0)
    return StaticMemory(room, lcm(demands.alignment_bytes, memory.alignment_bytes), reserved)


def memory_map_of(accelerator: str | Path | None, capacity: int | str | None) -> MemoryMap:
    """What is asked for: an accelerator's scratchpads, one of a capacity (`256KiB`), or no limit at all.

    Raises UsageError where both are given, or a scratchpad does not hold what operators read and write; InputError for
    an accelerator that cannot be read.
    """
    if accelerator is not None and capacity is not None:
        raise UsageError("both are given", place="accelerator, capacity", expected="one of them")
    if capacity is not None:
        from onchip.formats.sizes import parse_size

        return MemoryMap((Memory("sram", parse_size(str(capacity))),))
    if accelerator is None:
        return MemoryMap()
    from onchip.formats.foreign_files import load_any_accelerator

    scratchpads = load_any_accelerator(str(accelerator)).scratchpads
    for memory in scratchpads:
        if not {Operand.INPUT, Operand.OUTPUT} <= set(memory.holds):
            raise UsageError(
                f"it holds {', '.join(memory.holds)} alone",
                file=str(accelerator),
                place=f"memory {memory.name!r}",
                expected="scratchpads that hold inputs and outputs: a buffer lies in one memory for its whole life",
            )
    return MemoryMap(scratchpads)
