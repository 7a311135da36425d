"""The time of an answer, and the machine changes that would shorten it most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.problem import Problem, Rate, Transfers
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Dma, Port
from onchip.model.timeline.activity import Activity, PlaceUse, array_waits, latency_parts, most_bytes_at_once
from onchip.reports.shared.words import exact_bytes, latency_words, percent, printable, wait_lines, wait_objects

if TYPE_CHECKING:
    from rich.console import RenderableType


FACTOR: Final = 2
"""Factor by which a change multiplies a resource."""
MOST_CHANGES: Final = 5


class ChangeKind(StrEnum):
    """The enlarged resource: bandwidth of DRAM or of a memory's ports, capacity, DMA queues, or array throughput."""

    BANDWIDTH = "bandwidth"
    CAPACITY = "capacity"
    QUEUES = "queues"
    ARRAY = "array"
    PORTS = "ports"


@dataclass(frozen=True, slots=True)
class MachineChange:
    """A machine with twice a resource, or with enough capacity in `memory`, the enlarged memory if any."""

    kind: ChangeKind
    memory: str | None = None

    @property
    def words(self) -> str:
        """Description of the change in words."""
        return {
            ChangeKind.BANDWIDTH: "twice the bits a cycle of DRAM",
            ChangeKind.CAPACITY: f"room in {self.memory} for all that waits for room",
            ChangeKind.QUEUES: "twice the DMA queues",
            ChangeKind.ARRAY: "every operator in half the cycles",
            ChangeKind.PORTS: f"twice the bits a cycle of {self.memory}",
        }[self.kind]

    @property
    def roomy(self) -> frozenset[str]:
        """Memories in which no residency waits for a free place."""
        return frozenset() if self.memory is None or self.kind is not ChangeKind.CAPACITY else frozenset((self.memory,))

    def cycles(self, cycles: int) -> int:
        """Return the cycles of an operator on the changed array, apart from its memories."""
        return -(-cycles // FACTOR) if self.kind is ChangeKind.ARRAY else cycles

    def machine(self, accelerator: Accelerator) -> Accelerator:
        """Return the accelerator with this change."""
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
        """Return a problem with stated durations on the changed machine."""
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
    """Return the changes that shorten a program, the most helpful first."""
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


LONGEST: Final = 3
"""Number of waits in the text."""


@dataclass(frozen=True, slots=True)
class TimeExplanation:
    """A timeline's activities, and the changes of the machine that help most, each timed."""

    activities: Sequence[Activity]
    changes: tuple[RetimedChange, ...]

    @property
    def latency_cycles(self) -> int:
        """Cycle in which the last activity ends."""
        return max((one.end for one in self.activities), default=0)


def time_object(explanation: TimeExplanation) -> dict[str, object]:
    """Return the latency, its parts, every wait of the array, and the changes."""
    return {
        "latency_cycles": explanation.latency_cycles,
        "latency_parts": latency_parts(explanation.activities).by_name,
        "waits": wait_objects(explanation.activities),
        "changes": [
            {
                "change": one.change.kind,
                "memory": one.change.memory,
                "words": one.change.words,
                "latency_cycles": one.latency_cycles,
                "saved_cycles": explanation.latency_cycles - one.latency_cycles,
                "need_bytes": one.need_bytes,
            }
            for one in explanation.changes
        ],
    }


def time_tables(explanation: TimeExplanation) -> Iterator[RenderableType]:
    """Yield the same in words, the longest waits alone."""
    from rich.table import Table
    from rich.text import Text

    latency = explanation.latency_cycles
    yield Text(f"\nlatency {latency:,} cycles: {latency_words(latency_parts(explanation.activities))}")
    waits = sorted(array_waits(explanation.activities), key=lambda one: -one.cycles)
    if waits:
        yield Text("the array waits longest in")
    for wait in waits[:LONGEST]:
        lines = [printable(line) for line in wait_lines(wait, explanation.activities)]
        yield Text("\n    ".join(("  " + lines[0], *lines[1:])))
    if not explanation.changes:
        yield Text("more of no part of the machine makes this program end sooner")
        return
    table = Table(box=None, title="what would help most, with the same program", title_justify="left")
    for name, side in (("change", "left"), ("cycles", "right"), ("less", "right"), ("", "left")):
        table.add_column(name, justify="right" if side == "right" else "left")
    for one in explanation.changes:
        saved = percent((latency - one.latency_cycles) / latency)
        need = "" if one.need_bytes is None else f"{exact_bytes(one.need_bytes)} in use at once"
        table.add_row(printable(one.change.words), f"{one.latency_cycles:,}", saved, need)
    yield table
