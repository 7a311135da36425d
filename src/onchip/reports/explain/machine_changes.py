"""What a program would gain from another machine: the same instructions, timed again on each of a few machines.

Nothing is planned anew, so each figure is what the change brings at once, and no more than a better plan would bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from onchip.answer.problem import Problem, Rate, Transfers
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Dma, Port
from onchip.model.timeline.activity import Activity, PlaceUse, most_bytes_at_once

FACTOR: Final = 2
"""How much more of everything there is."""
MOST_CHANGES: Final = 5


class ChangeKind(StrEnum):
    """What there is more of: bits a cycle of DRAM or of a memory, room, DMA queues, or the array's work a cycle."""

    BANDWIDTH = "bandwidth"
    CAPACITY = "capacity"
    QUEUES = "queues"
    ARRAY = "array"
    PORTS = "ports"


@dataclass(frozen=True, slots=True)
class MachineChange:
    """Twice as much of something, or room for all in a memory; `memory` is whose room or ports, if any."""

    kind: ChangeKind
    memory: str | None = None

    @property
    def words(self) -> str:
        """What there is more of."""
        return {
            ChangeKind.BANDWIDTH: "twice the bits a cycle of DRAM",
            ChangeKind.CAPACITY: f"room in {self.memory} for all that waits for room",
            ChangeKind.QUEUES: "twice the DMA queues",
            ChangeKind.ARRAY: "every operator in half the cycles",
            ChangeKind.PORTS: f"twice the bits a cycle of {self.memory}",
        }[self.kind]

    @property
    def roomy(self) -> frozenset[str]:
        """The memories in which nobody waits for a place."""
        return frozenset() if self.memory is None or self.kind is not ChangeKind.CAPACITY else frozenset((self.memory,))

    def cycles(self, cycles: int) -> int:
        """What an operator takes that takes so many cycles, but for its memories."""
        return -(-cycles // FACTOR) if self.kind is ChangeKind.ARRAY else cycles

    def machine(self, accelerator: Accelerator) -> Accelerator:
        """The machine with more of that."""
        if self.kind is ChangeKind.BANDWIDTH and accelerator.dram is not None:
            return replace(accelerator, dram=replace(accelerator.dram, ports=_faster(accelerator.dram.ports)))
        if self.kind is ChangeKind.QUEUES:
            dma = accelerator.dma or Dma()
            return replace(accelerator, dma=replace(dma, queues=FACTOR * dma.queues))
        if self.kind is ChangeKind.PORTS:
            levels = (
                replace(level, ports=_faster(level.ports)) if level.memory.name == self.memory else level
                for level in accelerator.levels
            )
            return replace(accelerator, levels=tuple(levels))
        return accelerator

    def problem(self, problem: Problem) -> Problem:
        """A problem that states how long everything lasts, on such a machine."""
        durations, rates = problem.known_durations, problem.transfers.rates
        if self.kind is ChangeKind.BANDWIDTH:
            faster = {way: _faster_rate(rate) if DRAM in way else rate for way, rate in rates.items()}
            return replace(problem, transfers=Transfers(problem.transfers.links, faster))
        if self.kind is ChangeKind.QUEUES:
            return replace(problem, durations=replace(durations, queues=FACTOR * durations.queues))
        return problem


Timed: TypeAlias = tuple[Sequence[Activity], Sequence[PlaceUse]]
"""A timeline: who runs when, and who lies where."""


@dataclass(frozen=True, slots=True)
class RetimedChange:
    """A change, the latency with it in cycles, and of more room the bytes that are in use at once then."""

    change: MachineChange
    latency_cycles: int
    need_bytes: int | None = None


def changes_on(memories: Iterable[str], ported: Iterable[str]) -> Iterator[MachineChange]:
    """Yield what there may be more of: room of these memories, and bits a cycle of those that have ports."""
    yield MachineChange(ChangeKind.BANDWIDTH)
    yield MachineChange(ChangeKind.QUEUES)
    yield MachineChange(ChangeKind.ARRAY)
    for memory in memories:
        yield MachineChange(ChangeKind.CAPACITY, memory)
    for memory in ported:
        yield MachineChange(ChangeKind.PORTS, memory)


def most_helpful(
    changes: Iterable[MachineChange], latency_cycles: int, timed: Callable[[MachineChange], Timed]
) -> tuple[RetimedChange, ...]:
    """The changes that make a program end sooner, those that help most first."""
    found = []
    for change in changes:
        activities, places = timed(change)
        latency = max((one.end for one in activities), default=0)
        if latency < latency_cycles:
            own = [one for one in places if one.memory == change.memory]
            need_bytes = most_bytes_at_once(own) if change.kind is ChangeKind.CAPACITY else None
            found.append(RetimedChange(change, latency, need_bytes))
    return tuple(sorted(found, key=lambda one: one.latency_cycles)[:MOST_CHANGES])


def _faster(ports: tuple[Port, ...]) -> tuple[Port, ...]:
    return tuple(replace(port, bits_per_cycle=FACTOR * port.bits_per_cycle) for port in ports)


def _faster_rate(rate: Rate) -> Rate:
    return Rate(rate.setup, tuple((FACTOR * unit_bits, cost) for unit_bits, cost in rate.terms))
