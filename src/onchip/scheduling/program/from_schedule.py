"""A start for schedules: the decisions of an earlier schedule, also of one on another machine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.program import Allocate, Compute, Free
from onchip.answer.schedule import Homes, Schedule, ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.layer import Layer
from onchip.model.program.figures import homes_of_computes
from onchip.scheduling.program.places import Places, StackMap
from onchip.scheduling.program.runs import TiledNetwork, base_of
from onchip.transform.groups.tile_graph import TileGraph

_STAYS = ""
"""Stands for a memory: the bands stay in their present memories."""


@dataclass(frozen=True, slots=True)
class ScheduleDecisions:
    """The decisions of a schedule: stacks in order, places of tensors, and mappings of loop nests at their homes."""

    stacks: tuple[ScheduledStack, ...]
    places: Places
    mappings: Mapping[tuple[Layer, Homes], LayerMapping]


def decisions_of_schedule(schedule: Schedule, tiles: TileGraph, accelerator: Accelerator) -> ScheduleDecisions:
    """Return the decisions that compose a legal schedule again, for a search on `accelerator`.

    `tiles` is the tile graph of the schedule's stacks. What lies in a memory that the accelerator does not address is
    streamed. A tensor of a stack is read, or written, in the memory nearest the MACs that any tile has it in: where
    that is full, the composition takes one farther away. Bands of a tensor wait where most of its bytes do.
    """
    addressed = {level.memory.name for level in accelerator.addressed}
    network = TiledNetwork.of(tiles)
    read, written = _homes(schedule, network)
    waiting = {key: memory for key, memory in _waiting(schedule, network) if memory is None or memory in addressed}
    places = Places(
        {key: memory for key, memory in read.items() if memory in addressed},
        {key: memory for key, memory in written.items() if memory in addressed},
        waiting,
    )
    mappings = {(one.layer, one.homes): one.mapping for one in schedule.mappings}
    return ScheduleDecisions(schedule.stacks, places, mappings)


def _homes(schedule: Schedule, network: TiledNetwork) -> tuple[Mapping[StackMap, str], Mapping[StackMap, str]]:
    """Return where tensors are read and where they are written, in the memory nearest the MACs of all tiles."""
    steps = {step.operator: step for step in network.steps}
    levels = [MemoryLevel(memory) for memory in schedule.program.memories]
    rank = {level.memory.name: at for at, level in enumerate(levels)}
    read: dict[StackMap, str] = {}
    written: dict[StackMap, str] = {}
    operands = {name: step.operands for name, step in steps.items()}
    for name, homes in homes_of_computes(levels, schedule.program, operands):
        step = steps[name]
        for operand, home in zip(step.operands, homes, strict=True):
            if home is not None:
                found = written if operand.operand is Operand.OUTPUT else read
                key = step.stack, operand.tensor
                found[key] = min(found.get(key, home), home, key=lambda memory: rank[memory])
    return read, written


@dataclass(slots=True)
class _Interval:
    """A band between two steps that use it, behind the step of `stack`.

    `first` are the memories that have it then, `kept` those of them that have not freed it. `has_left` is True once
    no memory has it.
    """

    stack: int
    first: frozenset[str]
    kept: set[str] = field(default_factory=set)
    has_left: bool = False

    def place(self, held: list[str]) -> str | None:
        """Return the memory in which the band waits, `_STAYS`, or None for DRAM; `held` have it at the end."""
        if self.has_left:
            return None
        if self.kept == self.first:
            return _STAYS
        return next((memory for memory in held if memory in self.kept), held[0])


def _waiting(schedule: Schedule, network: TiledNetwork) -> Iterator[tuple[StackMap, str | None]]:
    """Yield where the bands of a tensor of a stack wait that no step reads soon, unless most stay where they are."""
    number_of = {step.operator: at for at, step in enumerate(network.steps)}
    tensors = network.graph.tensor
    held: defaultdict[str, list[str]] = defaultdict(list)
    open_: dict[str, _Interval] = {}
    votes: defaultdict[StackMap, Counter[str | None]] = defaultdict(Counter)
    for instruction in schedule.program.instructions:
        match instruction:
            case Allocate(tensor, memory) if tensor in tensors:
                held[tensor].append(memory)
            case Free(tensor, memory) if tensor in tensors:
                held[tensor].remove(memory)
                if tensor in open_:
                    open_[tensor].kept.discard(memory)
                    open_[tensor].has_left |= not held[tensor]
            case Compute(operator):
                at = number_of[operator]
                for band, next_read in network.in_use[at]:
                    on_chip, interval = held[band.name], open_.pop(band.name, None)
                    if interval is not None:
                        votes[interval.stack, base_of(band)][interval.place(on_chip)] += band.size_bytes
                    if next_read is not None and on_chip and not network.is_soon(at, next_read):
                        open_[band.name] = _Interval(network.steps[at].stack, frozenset(on_chip), set(on_chip))
    for key, found in votes.items():
        ((place, _),) = found.most_common(1)
        if place != _STAYS:
            yield key, place
