"""Stacks of a schedule that run in tiles, as depth-first execution sees them: each alone, its inputs from outside."""

from __future__ import annotations

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import Tiling
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ops.derive.fusable import FusableNetwork, Stack
from onchip.ops.derive.fusable_of import fusable_of
from onchip.transform.groups.legality import place_of_stack
from onchip.transform.groups.part_of_network import part_of_network
from onchip.transform.groups.stack_in_tiles import StackInTiles


def stacks_in_tiles(graph: Graph, stacks: tuple[ScheduledStack, ...]) -> dict[int, StackInTiles]:
    """By number, the stacks that have a tiling: their layers, and what each tile computes and sees of them.

    Raises ScheduleError, with the operator and the reason, for one that cannot run in tiles, or not in these.
    """
    found = {}
    for number, stack in enumerate(stacks):
        if stack.tiling is not None:
            try:
                found[number] = _tiled(part_of_network(graph, stack.operators), stack, stack.tiling)
            except InputError as error:
                raise cannot_run_in_tiles(graph, number, stack, error) from None
    return found


def cannot_run_in_tiles(graph: Graph, number: int, stack: ScheduledStack, why: InputError) -> ScheduleError:
    """The error of a stack whose layers, or tiles, another room has refused."""
    reason = why.what.removeprefix("it cannot be fused: ")
    of_what = f"{why.place}: " if why.place else ""
    what = f"it cannot run in tiles: {of_what}{reason}"
    return ScheduleError(what, file=graph.name, place=place_of_stack(number, stack), expected=why.expected)


def _tiled(alone: Graph, stack: ScheduledStack, tiling: Tiling) -> StackInTiles:
    network: FusableNetwork = fusable_of(alone)
    last, output = stack.operators[-1], network.layers[-1].output
    if network.layers[-1].name != last:
        place, expected = f"operator {last!r}", "a stack of its own, or one with its readers"
        raise ScheduleError("a view leaves the stack", place=place, expected=expected)
    if tiling.columns > output.columns or tiling.rows > output.rows:
        what, expected = f"{tiling.columns}x{tiling.rows} is no tile of it", f"at most {output.columns}x{output.rows}"
        raise ScheduleError(what, place=f"feature map {output.name!r}", expected=expected)
    return StackInTiles.of(Stack(network.inputs, network.layers), tiling)
