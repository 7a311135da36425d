"""Cost of a fused group that runs in slices of channels.

Each slice costs as much as a group of narrower layers in one tile. The first slice may be smaller than the others. A
map that every slice reads whole stays in the memory in which the first slice reads it, if the others then fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.model.group.cost import StackCost, stack_cost
from onchip.model.group.machine import Mapper
from onchip.model.group.sums import times, total
from onchip.ops.channel_slices import GroupInSlices
from onchip.ops.fusable import FusableNetwork, Stack


def cost_in_slices(
    graph: Graph,
    network: FusableNetwork,
    accelerator: Accelerator,
    tiling: Tiling,
    group: GroupInSlices,
    mapper: Mapper,
    input_homes: Mapping[str, str],
    output_home: str,
    resident_bits: Mapping[str, int],
    read_last: frozenset[str] = frozenset(),
) -> StackCost:
    """Return the cost of all operators of `graph`, whose layers are `network`, in slices of channels.

    `group` has them in these slices. The other arguments are those of `stack_cost`; slices of inputs that are
    `read_last` leave behind the slice that reads them. Raises InputError if slices are no loop nests, AcceleratorError
    if nothing fits.
    """
    whole = replace(tiling, channels=None)
    leaving = read_last - group.whole_reads

    def cost(number: int, kept: Mapping[str, str]) -> StackCost:
        homes = {**kept, **input_homes}
        stack = group.sliced(graph, network, number)
        others = dict(resident_bits)
        for memory, bits in _rest_of_maps(network, stack, homes, output_home, leaving):
            others[memory] = others.get(memory, 0) + bits
        return stack_cost(
            stack,
            accelerator,
            whole,
            mapper,
            input_homes=homes,
            output_home=output_home,
            resident_bits={memory: bits for memory, bits in others.items() if memory != DRAM},
            kept=frozenset(kept),
        )

    first = cost(0, {})
    if group.count == 1:
        return first
    try:
        common = cost(1, {name: home for name, home in _kept(group, network, first).items() if name not in input_homes})
    except AcceleratorError:
        common = cost(1, {})
    later = tuple(replace(one, times=one.times * (group.count - 1)) for one in common.placed)
    return StackCost(
        total(times(one.sums, one.times) for one in (*first.placed, *later)),
        first.tile_types + common.tile_types,
        (*first.placed, *later),
        common.column_cache_bits,
        common.row_cache_bits,
    )


def _rest_of_maps(
    network: FusableNetwork, stack: Stack, homes: Mapping[str, str], output_home: str, leaving: frozenset[str]
) -> list[tuple[str, int]]:
    """Return the bits by memory of the inputs and the output that are in other slices than `stack`, a slice.

    The output grows by as many channels as inputs that are `leaving` shrink, so most bits are there in the first slice
    or in the last one.
    """
    pairs = zip(network.inputs, stack.inputs, strict=True)
    rest = [(one.name, homes.get(one.name, DRAM), all_of.size_bits - one.size_bits) for all_of, one in pairs]
    of_output = network.layers[-1].output.size_bits - stack.output.size_bits
    shrinking = sum(bits for name, home, bits in rest if name in leaving and home == output_home)
    stays = [(home, bits) for name, home, bits in rest if name not in leaving or home != output_home]
    return [*stays, (output_home, max(of_output, shrinking))]


def _kept(group: GroupInSlices, network: FusableNetwork, first: StackCost) -> Mapping[str, str]:
    """Return the memories of the inputs that every slice reads whole, where the first slice reads them."""
    levels = {one.name: one.levels.input for placed in first.placed for one in placed.layers}
    whole = {one.name for one in network.inputs} & group.whole_reads
    return {
        read.source: levels[layer.name]
        for layer in network.layers
        for read in layer.reads
        if read.source in whole and levels[layer.name] != DRAM
    }
