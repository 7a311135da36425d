"""Straight-line programs, and the residencies and transfers in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from onchip.arch.memory import DRAM, Memory
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role

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


class Began(StrEnum):
    """The origin of a residency's bytes; EMPTY if nothing was ever written."""

    COMPUTED = "computed"
    RECOMPUTED = "recomputed"
    LOADED = "loaded"
    RELOADED = "reloaded"
    MOVED = "moved"
    KEPT = "kept"
    EMPTY = "empty"


class TransferKind(StrEnum):
    """The kind of a transfer: first load, reload, write of a network output, spill, or on-chip move."""

    LOAD = "load"
    RELOAD = "reload"
    WRITE = "write"
    SPILL = "spill"
    MOVE = "move"


_BEGAN = {TransferKind.LOAD: Began.LOADED, TransferKind.RELOAD: Began.RELOADED, TransferKind.MOVE: Began.MOVED}


@dataclass(frozen=True, slots=True)
class Residency:
    """A tensor in bytes [offset, offset + size) of a scratchpad over instructions [start, stop), with its steps.

    `start_instruction` is its Allocate and `stop_instruction` its Free, or the plan's length if there is none.
    `start_step` and `stop_step` are the numbers of operators that ran before these.
    """

    tensor: str
    memory: str
    offset_bytes: int
    size_bytes: int
    start_instruction: int
    stop_instruction: int
    start_step: int
    stop_step: int
    began: Began = Began.EMPTY
    is_spilled: bool = False

    @property
    def end_bytes(self) -> int:
        """Return the first address after the residency."""
        return self.offset_bytes + self.size_bytes


@dataclass(frozen=True, slots=True)
class Transfer:
    """The Copy at index `instruction`, after `step` operators have run."""

    tensor: str
    source: str
    target: str
    size_bytes: int
    instruction: int
    step: int
    kind: TransferKind


def residencies_of(
    plan: Plan, graph: Graph, size_bytes_of: Callable[[str, str], int] | None = None
) -> tuple[Residency, ...]:
    """Return the residencies of a legal plan in the order of their beginnings.

    `size_bytes_of` gives the bytes of a tensor in a memory, for plans with workspaces that the graph lacks.
    """
    open_ones: dict[tuple[str, str], Residency] = {}
    ended: list[Residency] = []
    kinds = {transfer.instruction: transfer.kind for transfer in transfers_of(plan, graph)}
    step = 0
    run: set[str] = set()
    for index, instruction in enumerate(plan.instructions):
        match instruction:
            case Allocate(tensor, memory, offset_bytes, is_state):
                size_bytes = size_bytes_of(tensor, memory) if size_bytes_of else graph.tensor[tensor].size_bytes
                began = Began.KEPT if is_state else Began.EMPTY
                begun = Residency(tensor, memory, offset_bytes, size_bytes, index, index, step, step, began)
                open_ones[tensor, memory] = begun
            case Copy(tensor, source, target) if target != DRAM:
                _set_began(open_ones, (tensor, target), _BEGAN[kinds[index]])
            case Copy(tensor, source, _):
                spilled = replace(open_ones[tensor, source], is_spilled=kinds[index] is TransferKind.SPILL)
                open_ones[tensor, source] = spilled
            case Free(tensor, memory):
                ended.append(replace(open_ones.pop((tensor, memory)), stop_instruction=index, stop_step=step))
            case Compute(operator):
                step += 1
                began = Began.RECOMPUTED if operator in run else Began.COMPUTED
                run.add(operator)
                for tensor, memory in list(open_ones):
                    if tensor in graph.operator[operator].outputs:
                        _set_began(open_ones, (tensor, memory), began)
    length = len(plan.instructions)
    ended += (replace(one, stop_instruction=length, stop_step=step) for one in open_ones.values())
    return tuple(sorted(ended, key=lambda residency: residency.start_instruction))


def transfers_of(plan: Plan, graph: Graph) -> tuple[Transfer, ...]:
    """Return the transfers of a legal plan, in its order."""
    found: list[Transfer] = []
    step = 0
    been_on_chip: set[str] = set()
    for index, instruction in enumerate(plan.instructions):
        if isinstance(instruction, Compute):
            step += 1
            been_on_chip.update(graph.operator[instruction.operator].outputs)
        elif isinstance(instruction, Copy):
            tensor = graph.tensor[instruction.tensor]
            if DRAM not in (instruction.source, instruction.target):
                kind = TransferKind.MOVE
            elif instruction.target == DRAM:
                kind = TransferKind.WRITE if tensor.role is Role.OUTPUT else TransferKind.SPILL
            else:
                kind = TransferKind.RELOAD if tensor.name in been_on_chip else TransferKind.LOAD
                been_on_chip.add(tensor.name)
            ends = instruction.source, instruction.target
            found.append(Transfer(tensor.name, *ends, tensor.size_bytes, index, step, kind))
    return tuple(found)


def _set_began(open_ones: dict[tuple[str, str], Residency], place: tuple[str, str], began: Began) -> None:
    """Record the origin of a residency at its first write."""
    if open_ones[place].began is Began.EMPTY:
        open_ones[place] = replace(open_ones[place], began=began)
