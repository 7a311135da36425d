"""Why a plan spills: which tensors leave before their last use, and who is there instead.

A tensor that has left one scratchpad and is in another is not away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from onchip.answer.residencies import Residency, Transfer, TransferKind
from onchip.arch.memory import Memory
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.reports.explain.history import History, aligned


class ReloadPurpose(StrEnum):
    """What a reload is for.

    BACK: the tensor was away. DETOUR: no scratchpad in which it could lie before, and none to which a link leads
    from there, holds what it is to its next reader. COPY: it still is in another scratchpad.
    """

    BACK = "back"
    DETOUR = "detour"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class ReloadCause:
    """A tensor is away in the steps [left, returned), and its way back, into scratchpad `target`, is paid.

    `spill_cost` is 0 where DRAM had a copy. `memory` is the scratchpad, of those that its next reader takes it from,
    in which it could most easily have stayed. `tightest_step` is the step of the absence in which most is resident
    there; None where the tensor leaves and returns between two steps, or did not leave at all.
    `bytes_to_stay` is the capacity of `memory` with which it could have stayed, all else as it is: every resident
    rounded up to the alignment. `way` says what else DRAM was needed for.
    """

    tensor: Tensor
    target: str
    memory: Memory
    way: ReloadPurpose
    left: int
    returned: int
    spill_cost: int
    reload_cost: int
    tightest_step: int | None
    bytes_to_stay: int
    pushed_out_by: tuple[Residency, ...]

    @property
    def cost(self) -> int:
        """Return what the spill and the reload cost together, in the unit of the objective."""
        return self.spill_cost + self.reload_cost

    @property
    def is_forced(self) -> bool:
        """Whether there is a step in which its bytes do not fit beside those there; else it is addresses or choice."""
        return self.way is ReloadPurpose.BACK and self.bytes_to_stay > self.memory.capacity_bytes


@dataclass(frozen=True, slots=True)
class FullStep:
    """A step in which not all fits that is needed later: `free_bytes` is 0, or less than an absent tensor takes."""

    step: int
    operator: Operator
    memory: Memory
    footprint_bytes: int

    @property
    def free_bytes(self) -> int:
        """What is not used of the scratchpad."""
        return self.memory.capacity_bytes - self.footprint_bytes


def reload_causes(history: History) -> tuple[ReloadCause, ...]:
    """Every reload of a plan with what led to it, the most expensive first."""
    found = [cause for by_tensor in _by_tensor(history).values() for cause in _causes_of(history, by_tensor)]
    return tuple(sorted(found, key=lambda cause: (-cause.cost, cause.left, cause.tensor.name)))


def full_steps(history: History, found: tuple[ReloadCause, ...]) -> tuple[FullStep, ...]:
    """The full steps, in order; `found` are the plan's absences."""
    steps = []
    for memory in history.problem.memories:
        largest_absent = [1] * history.step_count
        for cause in found:
            if cause.memory == memory and cause.way is ReloadPurpose.BACK:
                for step in range(cause.left, cause.returned):
                    largest_absent[step] = max(largest_absent[step], cause.tensor.size_bytes)
        for step, footprint_bytes in enumerate(history.footprint(memory.name)):
            if memory.capacity_bytes - footprint_bytes < largest_absent[step]:
                steps.append(FullStep(step, history.operators[step], memory, footprint_bytes))
    return tuple(sorted(steps, key=lambda full: full.step))


def moves(history: History) -> tuple[Transfer, ...]:
    """What goes from scratchpad to scratchpad, in the plan's order."""
    return tuple(transfer for transfer in history.transfers if transfer.kind is TransferKind.MOVE)


def _by_tensor(history: History) -> dict[str, list[Transfer]]:
    transfers: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in history.transfers:
        transfers[transfer.tensor].append(transfer)
    return transfers


def _causes_of(history: History, transfers: list[Transfer]) -> Iterator[ReloadCause]:
    """Of one tensor, given its transfers; a spill is paid for by the next reload."""
    spill_cost = 0
    for transfer in transfers:
        if transfer.kind is TransferKind.SPILL:
            spill_cost += history.cost(transfer)
        elif transfer.kind is TransferKind.RELOAD:
            yield _cause(history, transfer, spill_cost)
            spill_cost = 0


def _cause(history: History, reload: Transfer, spill_cost: int) -> ReloadCause:
    tensor = history.problem.graph.tensor[reload.tensor]
    way, left = _way(history, reload)
    stays = [_stay(history, reload, left, memory) for memory in _next_scratchpads(history, reload)]
    memory, tightest, bytes_to_stay = min(stays, key=lambda stay: stay[2] - stay[0].capacity_bytes)
    return ReloadCause(
        tensor=tensor,
        target=reload.target,
        memory=memory,
        way=way,
        left=left,
        returned=reload.step,
        spill_cost=spill_cost,
        reload_cost=history.cost(reload),
        tightest_step=tightest,
        bytes_to_stay=bytes_to_stay,
        pushed_out_by=() if tightest is None else history.residents(memory.name, tightest),
    )


def _way(history: History, reload: Transfer) -> tuple[ReloadPurpose, int]:
    """What the reload is for, and since which step the tensor is away."""
    others = [
        one
        for one in history.residencies
        if one.tensor == reload.tensor
        and one.start_instruction < reload.instruction
        and not (one.memory == reload.target and one.stop_instruction > reload.instruction)
    ]
    if any(one.stop_instruction > reload.instruction for one in others):
        return ReloadPurpose.COPY, reload.step
    left = max((one.stop_step for one in others if one.start_step < reload.step), default=reload.step)
    return (ReloadPurpose.DETOUR if _has_to_go_through_dram(history, reload, left) else ReloadPurpose.BACK), left


def _has_to_go_through_dram(history: History, reload: Transfer, left: int) -> bool:
    """Whether nothing leads from where the last operator before step `left` left it to where the next one takes it."""
    problem = history.problem
    last = next((one for one in history.operators[:left][::-1] if _uses(one, reload.tensor)), None)
    if last is None:
        return False
    operand = problem.operand(last, problem.graph.tensor[reload.tensor])
    reached = {memory.name for memory in problem.memories if operand in memory.holds}
    for _ in problem.memories:
        reached |= {target for source, target in problem.transfers.links if source in reached}
    return reached.isdisjoint(memory.name for memory in _next_scratchpads(history, reload))


def _next_scratchpads(history: History, reload: Transfer) -> tuple[Memory, ...]:
    """Those from which its next reader takes the tensor; where nobody reads it again, or from elsewhere, its target."""
    problem = history.problem
    target = tuple(memory for memory in problem.memories if memory.name == reload.target)
    reader = next((one for one in history.operators[reload.step :] if reload.tensor in one.reads), None)
    if reader is None:
        return target
    operand = problem.operand(reader, problem.graph.tensor[reload.tensor])
    return tuple(memory for memory in problem.memories if operand in memory.holds) or target


def _stay(history: History, reload: Transfer, left: int, memory: Memory) -> tuple[Memory, int | None, int]:
    """The fullest step of an absence in a scratchpad, and the bytes there with the tensor."""
    padded = history.padded_footprint[memory.name]
    tightest = max(range(left, reload.step), key=lambda step: padded[step], default=None)
    present = 0 if tightest is None else padded[tightest]
    return memory, tightest, present + aligned(reload.size_bytes, memory.alignment_bytes)


def _uses(operator: Operator, tensor: str) -> bool:
    return tensor in operator.reads or tensor in operator.outputs
