"""Memory planning for ExecuTorch: where each tensor lies, proven, in as many memories as the accelerator has."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import lcm
from pathlib import Path
from typing import Final, TypeAlias

from onchip.answer.result import Result, Status
from onchip.answer.static_packing import StaticMemory, StaticPacking, StaticPackingProblem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.backends.executorch.installed import not_installed
from onchip.backends.executorch.planned import PlannedMemory, PlannedModule
from onchip.backends.executorch.specs import ModuleBuffers, TensorSpec
from onchip.errors import InputError, InternalError, UsageError
from onchip.memory.allocate.overflow import least_outside, least_static_arena
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.verify.static_packing import verify_static_packing

FIRST_ID: Final = 1
"""ExecuTorch keeps 0 for constants."""

SECONDS: Final = 10.0
CPU: Final = "CPU"

OwnPlanner: TypeAlias = Callable[[int, Iterable[TensorSpec], object, object, int], list[int]]


class PlannerObjective(StrEnum):
    """What is least: the memory that everything lies in, or the bytes that lie in no scratchpad."""

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
    UsageError for what contradicts itself, InputError for an accelerator that cannot be read.
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
    return ExecutorchPlanner(memory_map, wanted, limits, _own_planner() if fallback else None)


class ExecutorchPlanner:
    """What ExecuTorch calls for each module, those that control flow calls before the one that calls them.

    `planned` has what was decided, in the order in which it was asked for; printing the planner shows it.
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

        Raises InputError where a tensor cannot be given a place, and InternalError if what was found is not legal.
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
        self._all_are_on_the_cpu(specs)
        run = Run(self._limits, deadline=Deadline.after(self._limits.time_limit_seconds))
        buffers = ModuleBuffers.of(specs, demands.alignment_bytes)
        is_arena = self._objective is PlannerObjective.ARENA
        mapped = mapped_problem(self._memory_map, buffers, demands)
        result = (least_static_arena if is_arena else least_outside)(mapped.problem, run)
        if result.answer is None:
            raise self._no_place(result, demands)
        violations = verify_static_packing(mapped.problem, result.answer)
        if violations:
            what = f"its places have {len(violations)} violations, the first: {violations[0]}"
            raise InternalError(what, place=f"method {result.method}")
        places = [(mapped.mem_ids[place.memory], place.offset_bytes) for place in result.answer.places]
        buffers.place(places, default_memory=mapped.mem_ids[0])
        memories = self._memories(mapped, result.answer, demands)
        self.planned.append(self._module(memories, result))
        return _sizes(memories)

    def _all_are_on_the_cpu(self, specs: list[TensorSpec]) -> None:
        """The scratchpads are those of one device; raises UsageError for tensors of another."""
        for spec in specs if self._memory_map.scratchpads else ():
            device = getattr(getattr(spec, "device", None), "name", CPU)
            if device != CPU:
                raise UsageError(
                    f"a tensor of shape {list(spec.shape)} is on {device}",
                    place="memory planning",
                    expected="tensors of the CPU alone, where a capacity or an accelerator is given",
                )

    def _memories(self, mapped: MappedProblem, packing: StaticPacking, demands: Demands) -> tuple[PlannedMemory, ...]:
        buffers, memories = mapped.problem.buffers, []
        for index, mem_id in enumerate(mapped.mem_ids):
            inside = packing.within(index)
            highest = max((packing.places[one].offset_bytes + buffers[one].size_bytes for one in inside), default=0)
            arena = highest + demands.padding_bytes if inside else demands.reserved(mem_id)
            size = sum(buffers[one].size_bytes for one in inside)
            name, capacity = self._memory_map.name(mem_id), self._memory_map.capacity_bytes(mem_id)
            memories.append(PlannedMemory(mem_id, name, capacity, arena, len(inside), size))
        return tuple(memories)

    def _module(self, memories: tuple[PlannedMemory, ...], result: Result[StaticPacking]) -> PlannedModule:
        value = result.objective_value or 0
        return PlannedModule(memories, self._objective, result.status, value, result.lower_bound, result.seconds)

    def _no_place(self, result: Result[StaticPacking], demands: Demands) -> InputError:
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


def _sizes(memories: tuple[PlannedMemory, ...]) -> list[int]:
    """The bytes of each memory by its id, as ExecuTorch wants them: 0 for constants, then at least memory 1."""
    arenas = {memory.mem_id: memory.arena_bytes for memory in memories}
    most = max((mem_id for mem_id, arena in arenas.items() if arena), default=FIRST_ID)
    return [arenas.get(mem_id, 0) for mem_id in range(max(most, FIRST_ID) + 1)]


def _own_planner() -> OwnPlanner:
    """What ExecuTorch plans with where nothing is said; raises UsageError without ExecuTorch."""
    try:
        from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    planner: OwnPlanner = MemoryPlanningAlgorithmSuite()
    return planner


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
