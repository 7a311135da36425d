"""Why a plan spills: which tensors leave before their last use, and who is there instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from onchip.analysis.bounds import OperatorNeed, operator_need
from onchip.analysis.history import History, aligned
from onchip.analysis.residencies import Residency, Transfer, TransferKind
from onchip.arch.memory import Memory
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.plan.problem import Problem


@dataclass(frozen=True, slots=True)
class Absence:
    """A tensor is away in the steps [left, returned), and its way back is paid.

    `spill_cost` is 0 where DRAM had a copy. `tightest_step` is the step of the absence in which most is resident;
    None where the tensor leaves and returns between two steps, that is, only moves to another address.
    `bytes_to_stay` is the capacity with which it could have stayed, all else as it is: every resident
    rounded up to the alignment.
    """

    tensor: Tensor
    memory: Memory
    left: int
    returned: int
    spill_cost: int
    reload_cost: int
    tightest_step: int | None
    bytes_to_stay: int
    pushed_out_by: tuple[Residency, ...]

    @property
    def cost(self) -> int:
        """Of the spill and the reload."""
        return self.spill_cost + self.reload_cost

    @property
    def is_forced(self) -> bool:
        """Whether there is a step in which its bytes do not fit beside those there; else it is addresses or choice."""
        return self.bytes_to_stay > self.memory.capacity_bytes


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


def absences(history: History) -> tuple[Absence, ...]:
    """Every reload of a plan with what led to it, the most expensive first."""
    found = [absence for by_tensor in _by_tensor(history).values() for absence in _absences_of(history, by_tensor)]
    return tuple(sorted(found, key=lambda absence: (-absence.cost, absence.left, absence.tensor.name)))


def full_steps(history: History, found: tuple[Absence, ...]) -> tuple[FullStep, ...]:
    """The full steps, in order; `found` are the plan's absences."""
    steps = []
    for memory in history.problem.memories:
        largest_absent = [1] * history.step_count
        for absence in found:
            if absence.memory == memory:
                for step in range(absence.left, absence.returned):
                    largest_absent[step] = max(largest_absent[step], absence.tensor.size_bytes)
        for step, footprint_bytes in enumerate(history.footprint(memory.name)):
            if memory.capacity_bytes - footprint_bytes < largest_absent[step]:
                steps.append(FullStep(step, history.operators[step], memory, footprint_bytes))
    return tuple(sorted(steps, key=lambda full: full.step))


def operators_that_need_most(problem: Problem) -> tuple[OperatorNeed, ...]:
    """The operators that set M_R: all of the greatest need, in the given order."""
    needs = [operator_need(problem, operator) for operator in problem.graph.operators]
    most = max(need.need_bytes for need in needs)
    return tuple(need for need in needs if need.need_bytes == most)


def _by_tensor(history: History) -> dict[str, list[Transfer]]:
    transfers: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in history.transfers:
        transfers[transfer.tensor].append(transfer)
    return transfers


def _absences_of(history: History, transfers: list[Transfer]) -> Iterator[Absence]:
    """Of one tensor, given its transfers; a spill is paid for by the next reload."""
    spill_cost = 0
    for transfer in transfers:
        if transfer.kind is TransferKind.SPILL:
            spill_cost += history.cost(transfer)
        elif transfer.kind is TransferKind.RELOAD:
            yield _absence(history, transfer, spill_cost)
            spill_cost = 0


def _absence(history: History, reload: Transfer, spill_cost: int) -> Absence:
    tensor = history.problem.graph.tensor[reload.tensor]
    memory = next(memory for memory in history.problem.memories if memory.name == reload.target)
    earlier = (
        min(one.stop_step, reload.step)
        for one in history.residencies
        if one.tensor == tensor.name and one.start_instruction < reload.instruction and one.start_step < reload.step
    )
    left = max((stop for stop in earlier), default=reload.step)
    padded = history.padded_footprint[memory.name]
    tightest = max(range(left, reload.step), key=lambda step: padded[step], default=None)
    present = 0 if tightest is None else padded[tightest]
    return Absence(
        tensor=tensor,
        memory=memory,
        left=left,
        returned=reload.step,
        spill_cost=spill_cost,
        reload_cost=history.cost(reload),
        tightest_step=tightest,
        bytes_to_stay=present + aligned(tensor.size_bytes, memory.alignment_bytes),
        pushed_out_by=() if tightest is None else history.residents(memory.name, tightest),
    )
