"""From decisions (order, residencies, offsets) to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onchip.analysis.indexed import IndexedProblem, bits
from onchip.arch.memory import DRAM
from onchip.ir.tensor import Role
from onchip.plan.plan import Allocate, Compute, Copy, Free, Instruction, Plan


@dataclass(frozen=True, slots=True)
class Residency:
    """One tensor in the scratchpad over the half-open range of steps [start, stop).

    It begins with the tensor's Compute if `start` is that step, else with a load.
    """

    tensor: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of the operators and the residencies, by tensor and time; no addresses yet."""

    order: tuple[int, ...]
    residencies: tuple[Residency, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a search: these tensors leave, then the operator runs."""

    operator: int
    evicted: int


def schedule_of_moves(indexed: IndexedProblem, moves: Iterable[Move]) -> Schedule:
    """Turn steps with evictions into residencies as short as their uses allow.

    A tensor that is evicted has been useless since its last use, so its residency ends there.
    """
    order: list[int] = []
    residencies: list[Residency] = []
    began: dict[int, int] = {}
    last_use: dict[int, int] = {}
    for step, move in enumerate(moves):
        residencies.extend(Residency(t, began.pop(t), last_use[t] + 1) for t in bits(move.evicted))
        for tensor in indexed.operand_lists[move.operator]:
            began.setdefault(tensor, step)
            last_use[tensor] = step
        order.append(move.operator)
    residencies.extend(Residency(tensor, start, last_use[tensor] + 1) for tensor, start in began.items())
    return Schedule(tuple(order), tuple(sorted(residencies, key=lambda r: (r.start, r.tensor, r.stop))))


def non_compulsory_cost(indexed: IndexedProblem, schedule: Schedule) -> int:
    """Return what the reloads and spills of a schedule cost (COSMA, Eq. 12)."""
    times_resident: dict[int, int] = {}
    for residency in schedule.residencies:
        times_resident[residency.tensor] = times_resident.get(residency.tensor, 0) + 1
    cost = 0
    for tensor, times in times_resident.items():
        cost += (times - 1) * indexed.load_costs[tensor]
        if times > 1 and not indexed.backed >> tensor & 1:
            cost += indexed.store_costs[tensor]
    return cost


def compose(indexed: IndexedProblem, schedule: Schedule, offsets_bytes: Sequence[int]) -> Plan:
    """Write the straight-line program; `offsets_bytes[i]` belongs to `schedule.residencies[i]`.

    In a step: what ends is freed at the end of the step before, loads, allocations of outputs,
    Compute, compulsory writes, the one spill of a tensor that returns, Free.
    """
    last_start = {residency.tensor: residency.start for residency in schedule.residencies}
    starting: list[list[int]] = [[] for _ in schedule.order]
    ending: list[list[Residency]] = [[] for _ in schedule.order]
    for index, residency in enumerate(schedule.residencies):
        starting[residency.start].append(index)
        ending[residency.stop - 1].append(residency)
    scratchpad = indexed.memory.name
    names = [tensor.name for tensor in indexed.tensors]
    instructions: list[Instruction] = []
    for step, operator in enumerate(schedule.order):
        for index in starting[step]:
            tensor = schedule.residencies[index].tensor
            instructions.append(Allocate(names[tensor], scratchpad, offsets_bytes[index]))
            if indexed.producer[tensor] != operator:
                instructions.append(Copy(names[tensor], DRAM, scratchpad))
        instructions.append(Compute(indexed.problem.graph.operators[operator].name))
        written = indexed.write_lists[operator]
        instructions.extend(Copy(names[t], scratchpad, DRAM) for t in written if indexed.tensors[t].role is Role.OUTPUT)
        for residency in ending[step]:
            if _is_spilled(indexed, schedule, residency, last_start[residency.tensor]):
                instructions.append(Copy(names[residency.tensor], scratchpad, DRAM))
            instructions.append(Free(names[residency.tensor], scratchpad))
    return Plan((indexed.memory,), tuple(instructions))


def _is_spilled(indexed: IndexedProblem, schedule: Schedule, residency: Residency, last_start: int) -> bool:
    """Whether the tensor returns later and DRAM has no copy: the end of its first residency."""
    if indexed.backed >> residency.tensor & 1 or residency.start == last_start:
        return False
    return indexed.producer[residency.tensor] == schedule.order[residency.start]
