"""The cost of a network whose layers run as consecutive stacks, and the homes of the feature maps between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.model.accounting.conventions import OURS, Conventions
from onchip.model.group.cost import StackCost, stack_cost
from onchip.model.group.machine import FusedMachine, Mapper
from onchip.model.group.sums import FusedSums, total
from onchip.ops.fusable import FeatureMap, Stack


@dataclass(frozen=True, slots=True)
class NetworkCost:
    """Stacks in execution order; `homes` are the memories of feature maps between them that stay on the chip."""

    sums: FusedSums
    stacks: tuple[StackCost, ...]
    homes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Between:
    """A feature map that stack `writer` writes and `last_reader` is the last to read."""

    map: FeatureMap
    writer: int
    last_reader: int


def network_cost(
    stacks: Sequence[tuple[Stack, Tiling]],
    accelerator: Accelerator,
    mapper: Mapper,
    conventions: Conventions = OURS,
    homes: Mapping[str, str] | None = None,
) -> NetworkCost:
    """Return the cost; `homes` maps a feature map between stacks to its memory (DRAM if missing).

    None as `homes` chooses the lowest memory with capacity. Raises what `stack_cost` raises.
    """
    chosen = homes_between([stack for stack, _ in stacks], accelerator, conventions) if homes is None else homes
    between = _maps_between([stack for stack, _ in stacks])
    costs = []
    for number, (stack, tiling) in enumerate(stacks):
        read = {one.name for one in stack.inputs}
        resident: dict[str, int] = {}
        for one in between:
            memory = chosen.get(one.map.name, DRAM)
            if one.writer < number < one.last_reader and one.map.name not in read:
                resident[memory] = resident.get(memory, 0) + one.map.size_bits
        inputs = {name: memory for name, memory in chosen.items() if name in read}
        output = chosen.get(stack.output.name, DRAM)
        costs.append(stack_cost(stack, accelerator, tiling, mapper, conventions, inputs, output, resident))
    return NetworkCost(total(cost.sums for cost in costs), tuple(costs), chosen)


def homes_between(
    stacks: Sequence[Stack], accelerator: Accelerator, conventions: Conventions = OURS
) -> Mapping[str, str]:
    """Return each map's lowest memory with capacity next to the maps before it, by name; maps in DRAM are omitted.

    An output of the network is in DRAM, whoever reads it.
    """
    if conventions.maps_between_stacks_are_in_dram:
        return {}
    machine = FusedMachine(accelerator, conventions.levels_are_skipped)
    placed: list[tuple[_Between, str]] = []
    for one in _maps_between(stacks):
        if stacks[one.writer].ends_in_output:
            continue
        for memory in machine.places_of_caches:
            beside = [other for other, place in placed if place == memory and other.last_reader >= one.writer]
            if sum(other.map.size_bits for other in beside) + one.map.size_bits <= machine.room_bits(memory):
                placed.append((one, memory))
                break
    return {one.map.name: memory for one, memory in placed if memory != DRAM}


def _maps_between(stacks: Sequence[Stack]) -> list[_Between]:
    """Return the maps between stacks in the order in which they are written."""
    last_readers = {one.name: number for number, stack in enumerate(stacks) for one in stack.inputs}
    return [
        _Between(stack.output, number, last_readers[stack.output.name])
        for number, stack in enumerate(stacks)
        if last_readers.get(stack.output.name, -1) > number
    ]
