"""Memory planning for ExecuTorch: proven offsets of tensors in the memories of an accelerator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import lcm
from pathlib import Path
from typing import Final, Protocol, Self, TypeAlias

from onchip.answer.packing import Buffer, StaticMemory, StaticPacking, StaticPackingProblem
from onchip.answer.result import SearchResult, Status
from onchip.answer.words import counted, exact_bytes
from onchip.api.pack import Limits, static_packing
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.errors import GraphError, InputError, UsageError


def not_installed(error: ModuleNotFoundError) -> UsageError:
    """Return the error for a missing ExecuTorch; raises the given error if another package is missing."""
    if (error.name or "").split(".")[0] not in ("executorch", "torch", "torchao"):
        raise error
    return UsageError("ExecuTorch is not installed", expected="pip install 'onchip[executorch]'")


class TensorSpec(Protocol):
    """The part of ExecuTorch's `TensorSpec` that memory planning reads and writes.

    `lifetime` has the first and the last node that uses the tensor. A tensor with a `storage_base` lies
    `storage_base_offset` bytes behind the start of that tensor.
    """

    lifetime: list[int]
    mem_id: int | None
    mem_obj_id: int | None
    mem_offset: int | None
    storage_base_offset: int

    @property
    def shape(self) -> list[int]:
        """Return the sizes of its dimensions."""

    @property
    def storage_base(self) -> TensorSpec | None:
        """Return the tensor that contains it, or None."""

    @property
    def allocated_memory(self) -> int:
        """Return its bytes, rounded up to its alignment."""

    def realign(self, new_alignment: int) -> int:
        """Set its alignment; return its bytes."""


@dataclass(frozen=True, slots=True)
class ModuleBuffers:
    """The tensors of a module: those with their own buffer, those within another tensor, and those without bytes.

    `buffers[i]` belongs to `specs[i]` and spans the lifetimes of all tensors within it.
    """

    specs: tuple[TensorSpec, ...]
    buffers: tuple[Buffer, ...]
    within: tuple[TensorSpec, ...]
    empty: tuple[TensorSpec, ...]

    @classmethod
    def of(cls, specs: Iterable[TensorSpec], alignment_bytes: int) -> Self:
        """Read them; raises GraphError for a tensor without a life, or within one that is not planned here."""
        asked = tuple(specs)
        own = [spec for spec in asked if spec.storage_base is None]
        within = tuple(spec for spec in asked if spec.storage_base is not None)
        lives = {id(spec): _life(spec) for spec in asked}
        for spec in within:
            root, (start, stop) = id(_root(spec)[0]), lives[id(spec)]
            if root not in lives:
                raise GraphError(
                    "it lies within a tensor that has no planned memory",
                    place=_name(spec),
                    expected="one that is planned, as for alloc_graph_input=True",
                )
            lives[root] = (min(start, lives[root][0]), max(stop, lives[root][1]))
        sizes = {id(spec): spec.realign(alignment_bytes) for spec in asked}
        sized = tuple(spec for spec in own if sizes[id(spec)])
        buffers = tuple(Buffer(*lives[id(spec)], sizes[id(spec)]) for spec in sized)
        return cls(sized, buffers, within, tuple(spec for spec in own if not sizes[id(spec)]))

    def place(self, places: Sequence[tuple[int, int]], default_memory: int) -> None:
        """Write the `mem_id` and offset of each buffer to its tensor and to the tensors within it.

        Tensors without bytes lie at the start of the default memory, or of the memory they are pinned to. Raises
        GraphError for a tensor that exceeds its storage.
        """
        for spec, (memory, offset) in zip(self.specs, places, strict=True):
            _write(spec, memory, offset)
        for spec in self.empty:
            _write(spec, default_memory if spec.mem_id is None else spec.mem_id, 0)
        for spec in self.within:
            root, offset = _root(spec)
            if root.mem_id is None or root.mem_offset is None or offset + spec.allocated_memory > root.allocated_memory:
                raise GraphError(
                    f"it ends {offset + spec.allocated_memory} bytes into a tensor of {root.allocated_memory}",
                    place=_name(spec),
                    expected="a tensor within its storage",
                )
            _write(spec, root.mem_id, root.mem_offset + offset)


def _write(spec: TensorSpec, memory: int, offset: int) -> None:
    spec.mem_id, spec.mem_offset, spec.mem_obj_id = memory, offset, None


def _life(spec: TensorSpec) -> tuple[int, int]:
    """Return the half-open range of nodes; raises GraphError if ExecuTorch computed no lifetime."""
    first, last = spec.lifetime
    if first is None or last is None:
        raise GraphError(
            "it has no lifetime", place=_name(spec), expected="lifetimes as ExecuTorch's pass computes them"
        )
    return first, last + 1


def _root(spec: TensorSpec) -> tuple[TensorSpec, int]:
    """Return the tensor that owns the storage, and the offset in it; raises GraphError for a circle."""
    seen, root, offset = {id(spec)}, spec, 0
    while root.storage_base is not None:
        offset, root = offset + root.storage_base_offset, root.storage_base
        if id(root) in seen:
            raise GraphError("it lies within itself", place=_name(spec), expected="a storage of its own in the end")
        seen.add(id(root))
    return root, offset


def _name(spec: TensorSpec) -> str:
    """Describe a tensor by its shape and lifetime, as it has no name."""
    return f"tensor of shape {list(spec.shape)} over nodes {list(spec.lifetime)}"


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """A memory of ExecuTorch: number and total size of its buffers, and its arena.

    `capacity_bytes` is None without a limit. `arena_bytes` includes the demands of submodules and delegates.
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
    """A planned module, or a submodule of its control flow: memories, objective value and lower bound."""

    memories: tuple[PlannedMemory, ...]
    objective: str
    status: Status
    value_bytes: int
    lower_bound_bytes: int
    seconds: float

    @property
    def buffers(self) -> int:
        """Number of buffers in all memories."""
        return sum(memory.buffers for memory in self.memories)

    def __str__(self) -> str:
        line = (
            f"{self.status}: {counted(self.buffers, 'buffer')}, {self.objective} {exact_bytes(self.value_bytes)}, "
            f"lower bound {exact_bytes(self.lower_bound_bytes)}, {self.seconds:.3f} seconds"
        )
        return "\n".join((line, *map(str, self.memories)))


FIRST_ID: Final = 1
"""ExecuTorch keeps 0 for constants."""

SECONDS: Final = 10.0
CPU: Final = "CPU"

OwnPlanner: TypeAlias = Callable[[int, Iterable[TensorSpec], object, object, int], list[int]]


class PlannerObjective(StrEnum):
    """The minimised quantity: bytes of the one memory, or bytes outside all scratchpads."""

    ARENA = "arena"
    OUTSIDE = "outside"


class FallbackWarning(UserWarning):
    """ExecuTorch's own planner has planned a module, as was asked for where onchip cannot."""


def memory_planner(
    *,
    accelerator: str | Path | None = None,
    capacity: int | str | None = None,
    objective: str | None = None,
    limits: Limits = Limits(time_limit_seconds=SECONDS),  # noqa: B008 (frozen)
    fallback: bool = False,
) -> ExecutorchPlanner:
    """Make an algorithm for ExecuTorch: `MemoryPlanningPass(memory_planning_algo=...)`.

    Without an accelerator (a bundled name or a file) or a capacity (bytes, `256KiB`), everything lies in memory 1, in
    the least arena. With one, the scratchpads are memories 1, 2, ..., and what lies in none of them is in the next:
    the fewest bytes, `outside`. With `arena` everything has to lie in the one scratchpad. `limits` count for each
    module. With `fallback`, ExecuTorch's own planner plans what onchip cannot, with a FallbackWarning. Raises
    UsageError for what contradicts itself and for a fallback without ExecuTorch, InputError for an accelerator that
    cannot be read.
    """
    memory_map = memory_map_of(accelerator, capacity)
    default = PlannerObjective.OUTSIDE if memory_map.scratchpads else PlannerObjective.ARENA
    try:
        wanted = default if objective is None else PlannerObjective(objective)
    except ValueError:
        expected = f"one of {', '.join(PlannerObjective)}"
        raise UsageError(f"it is {objective!r}", place="objective", expected=expected) from None
    if wanted is PlannerObjective.OUTSIDE and not memory_map.scratchpads:
        raise UsageError("there is no scratchpad", place="objective", expected="a capacity, or an accelerator")
    if wanted is PlannerObjective.ARENA and len(memory_map.scratchpads) > 1:
        count = len(memory_map.scratchpads)
        raise UsageError(f"there are {count} scratchpads", place="objective", expected="one, or the objective outside")
    if not fallback:
        return ExecutorchPlanner(memory_map, wanted, limits)
    try:
        from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    return ExecutorchPlanner(memory_map, wanted, limits, MemoryPlanningAlgorithmSuite())


class ExecutorchPlanner:
    """The algorithm that ExecuTorch calls for each module, submodules of control flow first.

    `planned` lists the planned modules in the order of the calls; `str` shows them.
    """

    def __init__(
        self, memory_map: MemoryMap, objective: PlannerObjective, limits: Limits, own_planner: OwnPlanner | None = None
    ) -> None:
        self._memory_map = memory_map
        self._objective = objective
        self._limits = limits
        self._own_planner = own_planner
        self.planned: list[PlannedModule] = []

    def __str__(self) -> str:
        return "\n".join(map(str, self.planned))

    def __call__(
        self,
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: object,
        graph_signature: object = None,
        extra_padding: int = 0,
    ) -> list[int]:
        """Give each tensor a memory and an offset; return the bytes of each memory, by its `mem_id`.

        Raises InputError for a tensor without a place, and InternalError if the packing is not legal.
        """
        asked = list(specs)
        reserved = getattr(graph_module, "input_mem_buffer_sizes", None) or ()
        try:
            return self._plan(asked, Demands(alignment, reserved, extra_padding))
        except InputError as error:
            if self._own_planner is None:
                raise
            message = f"ExecuTorch's own planner has planned this module, without any capacity: {error}"
            warnings.warn(FallbackWarning(message), stacklevel=2)
            return self._own_planner(alignment, asked, graph_module, graph_signature, extra_padding)

    def _plan(self, specs: list[TensorSpec], demands: Demands) -> list[int]:
        for spec in specs if self._memory_map.scratchpads else ():
            device = getattr(getattr(spec, "device", None), "name", CPU)
            if device != CPU:
                what = f"a tensor of shape {list(spec.shape)} is on {device}"
                expected = "tensors of the CPU alone, where a capacity or an accelerator is given"
                raise UsageError(what, place="memory planning", expected=expected)
        buffers = ModuleBuffers.of(specs, demands.alignment_bytes)
        is_arena = self._objective is PlannerObjective.ARENA
        problem, mem_ids = mapped_problem(self._memory_map, buffers, demands)
        result = static_packing(problem, self._limits, is_arena=is_arena)
        if result.answer is None:
            raise self._no_place(result, demands)
        places = [(mem_ids[place.memory], place.offset_bytes) for place in result.answer.places]
        buffers.place(places, default_memory=mem_ids[0])
        memories = self._memories(problem, mem_ids, result.answer, demands)
        value = result.objective_value or 0
        bound, seconds = result.lower_bound, result.seconds
        self.planned.append(PlannedModule(memories, self._objective, result.status, value, bound, seconds))
        arenas = {memory.mem_id: memory.arena_bytes for memory in memories}
        most = max((mem_id for mem_id, arena in arenas.items() if arena), default=FIRST_ID)
        return [arenas.get(mem_id, 0) for mem_id in range(max(most, FIRST_ID) + 1)]

    def _memories(
        self, problem: StaticPackingProblem, mem_ids: tuple[int, ...], packing: StaticPacking, demands: Demands
    ) -> tuple[PlannedMemory, ...]:
        buffers, memories = problem.buffers, []
        for index, mem_id in enumerate(mem_ids):
            inside = packing.within(index)
            highest = max((packing.places[one].offset_bytes + buffers[one].size_bytes for one in inside), default=0)
            arena = highest + demands.padding_bytes if inside else demands.reserved(mem_id)
            size = sum(buffers[one].size_bytes for one in inside)
            name, capacity = self._memory_map.name(mem_id), self._memory_map.capacity_bytes(mem_id)
            memories.append(PlannedMemory(mem_id, name, capacity, arena, len(inside), size))
        return tuple(memories)

    def _no_place(self, result: SearchResult[StaticPacking], demands: Demands) -> InputError:
        capacity = self._memory_map.capacity_bytes(FIRST_ID)
        asked = result.lower_bound + demands.padding_bytes
        if result.status is Status.UNKNOWN:
            return InputError(
                f"whether the tensors fit in {capacity:,} bytes stays open ({result.stopped_by})",
                place="memory planning",
                expected="more time, or more capacity",
            )
        if self._objective is PlannerObjective.ARENA:
            what = f"the tensors do not fit in {capacity:,} bytes: they need at least {asked:,}"
            return InputError(what, place="memory planning", expected="more capacity, or the objective outside")
        what = "what a pass has pinned to a scratchpad does not fit there"
        return InputError(what, place="memory planning", expected="fewer pins, or more capacity")


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """The scratchpads have the ids 1, 2, ... in their order; what lies in none of them has the next."""

    scratchpads: tuple[Memory, ...] = ()

    @property
    def rest(self) -> int:
        """Return the id of the memory without a limit."""
        return FIRST_ID + len(self.scratchpads)

    def name(self, mem_id: int) -> str:
        """Return the accelerator's name of a memory, or `pool` for a memory of a custom pool pass."""
        if mem_id < self.rest:
            return self.scratchpads[mem_id - FIRST_ID].name
        if mem_id > self.rest:
            return "pool"
        return DRAM if self.scratchpads else "memory"

    def capacity_bytes(self, mem_id: int) -> int | None:
        """Return the capacity of a scratchpad in bytes, or None for another memory."""
        return self.scratchpads[mem_id - FIRST_ID].capacity_bytes if mem_id < self.rest else None


@dataclass(frozen=True, slots=True)
class Demands:
    """Demands on each memory besides buffers.

    `reserved_bytes[mem_id]` lie at its bottom for submodules, `padding_bytes` follow its last buffer.
    """

    alignment_bytes: int
    reserved_bytes: Sequence[int]
    padding_bytes: int

    def reserved(self, mem_id: int) -> int:
        """Return the reserved bytes at its bottom."""
        return self.reserved_bytes[mem_id] if mem_id < len(self.reserved_bytes) else 0


def mapped_problem(
    memory_map: MemoryMap, buffers: ModuleBuffers, demands: Demands
) -> tuple[StaticPackingProblem, tuple[int, ...]]:
    """Return the packing problem and the id of each of its memories; a tensor with an id is pinned to its memory.

    A byte costs 1 in each memory beyond the scratchpads.
    """
    pins = {spec.mem_id for spec in buffers.specs if spec.mem_id is not None}
    anywhere = range(FIRST_ID, memory_map.rest + 1)
    mem_ids = tuple(sorted({*anywhere, *pins}))
    memories = tuple(_static_memory(memory_map, mem_id, demands) for mem_id in mem_ids)
    outside = {mem_id: (at, int(mem_id >= memory_map.rest)) for at, mem_id in enumerate(mem_ids)}
    allowed = (anywhere if spec.mem_id is None else (spec.mem_id,) for spec in buffers.specs)
    costs = tuple(dict(outside[mem_id] for mem_id in some) for some in allowed)
    return StaticPackingProblem(buffers.buffers, memories, costs), mem_ids


def _static_memory(memory_map: MemoryMap, mem_id: int, demands: Demands) -> StaticMemory:
    reserved = demands.reserved(mem_id)
    if not FIRST_ID <= mem_id < memory_map.rest:
        return StaticMemory(None, demands.alignment_bytes, reserved)
    memory = memory_map.scratchpads[mem_id - FIRST_ID]
    room = max(memory.capacity_bytes - demands.padding_bytes, 0)
    return StaticMemory(room, lcm(demands.alignment_bytes, memory.alignment_bytes), reserved)


def memory_map_of(accelerator: str | Path | None, capacity: int | str | None) -> MemoryMap:
    """Return the requested memories: an accelerator's scratchpads, one of a capacity (`256KiB`), or one without limit.

    Raises UsageError if both are given, or if a scratchpad does not hold inputs and outputs; InputError for an
    accelerator that cannot be read.
    """
    if accelerator is not None and capacity is not None:
        raise UsageError(
            "accelerator and capacity are both given", place="accelerator, capacity", expected="one of them"
        )
    if capacity is not None:
        from onchip.arch.sizes import parse_size

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
