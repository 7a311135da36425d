"""The scratchpads while a legal plan runs: residents of each step, transfers, and the causes of reloads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from math import gcd

from onchip.answer.problem import Problem
from onchip.answer.program import (
    Allocate,
    Compute,
    Free,
    Plan,
    Residency,
    Transfer,
    TransferKind,
    residencies_of,
    transfers_of,
)
from onchip.arch.memory import Memory
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.memory.spill.min_peak import peak_of_order
from onchip.model.lifetimes.indexed import IndexedProblem


@dataclass(frozen=True)
class History:
    """Facts of a legal plan, for drawing and explaining; the verifier computes its own.

    Step k is the slot of `operators[k]`. A residency that begins after operator k-1 and ends after operator l-1 spans
    the steps [k, l).
    """

    problem: Problem
    plan: Plan

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """Operators of the plan in execution order."""
        names = (one.operator for one in self.plan.instructions if isinstance(one, Compute))
        return tuple(self.problem.graph.operator[name] for name in names)

    @cached_property
    def residencies(self) -> tuple[Residency, ...]:
        """Return all residencies, in the order in which they begin."""
        return residencies_of(self.plan, self.problem.graph)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """Return all transfers, in the order of the plan's instructions."""
        return transfers_of(self.plan, self.problem.graph)

    @property
    def step_count(self) -> int:
        """Number of steps, one for each operator."""
        return len(self.operators)

    @cached_property
    def runs_again(self) -> tuple[tuple[int, Operator], ...]:
        """Repeated runs of operators, with their steps."""
        run: set[str] = set()
        found = []
        for step, operator in enumerate(self.operators):
            if operator.name in run:
                found.append((step, operator))
            run.add(operator.name)
        return tuple(found)

    def cost(self, transfer: Transfer) -> int:
        """Return the cost of a transfer, in units of `Problem.transfer_cost`."""
        tensor = self.problem.graph.tensor[transfer.tensor]
        return self.problem.transfer_cost(tensor, transfer.source, transfer.target)

    def residents(self, memory: str, step: int) -> tuple[Residency, ...]:
        """Return the residencies in a scratchpad during a step, the largest first."""
        present = (one for one in self.residencies if one.memory == memory and one.start_step <= step < one.stop_step)
        return tuple(sorted(present, key=lambda one: (-one.size_bytes, one.start_instruction)))

    def footprint(self, memory: str) -> tuple[int, ...]:
        """Return for each step the bytes that are resident in a scratchpad."""
        return bytes_per_step((one for one in self.residencies if one.memory == memory), self.step_count)

    def peak_bytes(self, memory: str) -> int:
        """Return the peak of resident bytes in a scratchpad, between steps as well."""
        tensors = self.problem.graph.tensor
        changes = (
            tensors[one.tensor].size_bytes * (1 if isinstance(one, Allocate) else -1)
            for one in self.plan.instructions
            if isinstance(one, Allocate | Free) and one.memory == memory
        )
        return max(accumulate(changes), default=0)

    @cached_property
    def without_place_for_life(self) -> tuple[Tensor, ...]:
        """Tensors with several residencies, in the graph's order."""
        return tuple(tensor for tensor in self.problem.counted_tensors if self._times[tensor.name] > 1)

    @cached_property
    def with_place_for_life(self) -> tuple[Tensor, ...]:
        """Tensors with a single residency, in the graph's order."""
        return tuple(tensor for tensor in self.problem.counted_tensors if self._times[tensor.name] == 1)

    @cached_property
    def _times(self) -> Counter[str]:
        return Counter(one.tensor for one in self.residencies)

    def footprint_of_operands(self, memory: str) -> tuple[int, ...]:
        """Return for each step the bytes of the running operator's operands that are resident in a scratchpad."""
        present: list[dict[str, int]] = [{} for _ in self.operators]
        for one in self.residencies:
            if one.memory == memory:
                for step in range(one.start_step, min(one.stop_step, self.step_count)):
                    present[step][one.tensor] = one.size_bytes
        operands = ({tensor.name for tensor in self.problem.operands(operator)} for operator in self.operators)
        return tuple(sum(sizes.get(name, 0) for name in names) for sizes, names in zip(present, operands, strict=True))

    @property
    def common_alignment_bytes(self) -> int:
        """Greatest common divisor of the alignments; in every scratchpad, tensors take at least a multiple of it."""
        return gcd(*(memory.alignment_bytes for memory in self.problem.memories))

    @cached_property
    def bytes_without_spills(self) -> int:
        """Peak of bytes in use if, in this order, every tensor stayed from its first use to its last.

        Tensors are rounded up to the common alignment; addresses may need more. No operator would run twice.
        """
        indices = {operator.name: index for index, operator in enumerate(self.problem.graph.operators)}
        once = dict.fromkeys(operator.name for operator in self.operators)
        whole = Problem(self.problem.graph, (Memory("all", 1, self.common_alignment_bytes),), count=self.problem.count)
        return peak_of_order(IndexedProblem.of(whole), [indices[name] for name in once])


def bytes_per_step(residencies: Iterable[Residency], steps: int, alignment_bytes: int = 1) -> tuple[int, ...]:
    """Return the bytes resident in each step, each residency rounded up to the alignment."""
    change = [0] * (steps + 1)
    for one in residencies:
        change[one.start_step] += aligned(one.size_bytes, alignment_bytes)
        change[one.stop_step] -= aligned(one.size_bytes, alignment_bytes)
    return tuple(accumulate(change))[:-1]


def aligned(size_bytes: int, alignment_bytes: int) -> int:
    """Return the bytes rounded up to a multiple of the alignment."""
    return -(-size_bytes // alignment_bytes) * alignment_bytes


class ReloadPurpose(StrEnum):
    """The purpose of a reload of a tensor.

    BACK: the tensor was away. DETOUR: no link leads from the scratchpads that could hold it before to one that may hold
    it for its next reader. COPY: another scratchpad still holds it.
    """

    BACK = "back"
    DETOUR = "detour"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class ReloadCause:
    """A tensor's absence in the steps [left, returned), and its paid return into scratchpad `target`.

    `spill_cost` is 0 if DRAM had a copy. `memory` is the scratchpad, of those its next reader takes it from, in which
    it could most easily have stayed. `tightest_step` is the fullest step of the absence there; None if the tensor
    leaves and returns between two steps, or never left. `bytes_to_stay` is the capacity of `memory` with which it could
    have stayed, with unchanged residents rounded up to the alignment. `way` is the purpose of the reload.
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
        """Return the cost of the spill and the reload together, in the unit of the objective."""
        return self.spill_cost + self.reload_cost

    @property
    def is_forced(self) -> bool:
        """True if the tensor does not fit in some step of its absence; otherwise addresses or a choice removed it."""
        return self.way is ReloadPurpose.BACK and self.bytes_to_stay > self.memory.capacity_bytes


@dataclass(frozen=True, slots=True)
class FullStep:
    """A step too full for all tensors needed later: `free_bytes` is 0, or less than an absent tensor takes."""

    step: int
    operator: Operator
    memory: Memory
    footprint_bytes: int

    @property
    def free_bytes(self) -> int:
        """Free bytes of the scratchpad."""
        return self.memory.capacity_bytes - self.footprint_bytes


def reload_causes(history: History) -> tuple[ReloadCause, ...]:
    """Return every reload of a plan with its cause, the most expensive first."""
    transfers: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in history.transfers:
        transfers[transfer.tensor].append(transfer)
    found = [cause for of_tensor in transfers.values() for cause in _causes_of(history, of_tensor)]
    return tuple(sorted(found, key=lambda cause: (-cause.cost, cause.left, cause.tensor.name)))


def full_steps(history: History, found: tuple[ReloadCause, ...]) -> tuple[FullStep, ...]:
    """Return the full steps in order; `found` are the plan's absences."""
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
    """Return the transfers between scratchpads, in the plan's order."""
    return tuple(transfer for transfer in history.transfers if transfer.kind is TransferKind.MOVE)


def _causes_of(history: History, transfers: list[Transfer]) -> Iterator[ReloadCause]:
    """Yield the causes for one tensor's transfers; the next reload pays for a spill."""
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
    """Return the purpose of the reload, and the step since which the tensor is away."""
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
    """Return True if no link leads from its scratchpads before step `left` to those of its next reader."""
    problem = history.problem
    last = next((one for one in history.operators[:left][::-1] if reload.tensor in (*one.reads, *one.outputs)), None)
    if last is None:
        return False
    operand = problem.operand(last, problem.graph.tensor[reload.tensor])
    reached = {memory.name for memory in problem.memories if operand in memory.holds}
    for _ in problem.memories:
        reached |= {target for source, target in problem.transfers.links if source in reached}
    return reached.isdisjoint(memory.name for memory in _next_scratchpads(history, reload))


def _next_scratchpads(history: History, reload: Transfer) -> tuple[Memory, ...]:
    """Return the scratchpads from which the next reader takes the tensor, or the reload's target without a reader."""
    problem = history.problem
    target = tuple(memory for memory in problem.memories if memory.name == reload.target)
    reader = next((one for one in history.operators[reload.step :] if reload.tensor in one.reads), None)
    if reader is None:
        return target
    operand = problem.operand(reader, problem.graph.tensor[reload.tensor])
    return tuple(memory for memory in problem.memories if operand in memory.holds) or target


def _stay(history: History, reload: Transfer, left: int, memory: Memory) -> tuple[Memory, int | None, int]:
    """Return the fullest step of an absence in a scratchpad, and the bytes there with the tensor."""
    there = (one for one in history.residencies if one.memory == memory.name)
    padded = bytes_per_step(there, history.step_count, memory.alignment_bytes)
    tightest = max(range(left, reload.step), key=lambda step: padded[step], default=None)
    present = 0 if tightest is None else padded[tightest]
    return memory, tightest, present + aligned(reload.size_bytes, memory.alignment_bytes)
