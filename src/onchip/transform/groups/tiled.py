"""The transform from a network and the stacks of a schedule to their tile graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onchip.answer.schedule import MOST_TILE_OPERATORS, ScheduledStack, ScheduleError
from onchip.ir.graph import Graph
from onchip.ops.derive.layers_of import Precision
from onchip.ops.derive.nests import NestsOfNetwork
from onchip.ops.derive.precise import with_elements_of
from onchip.transform.groups.legality import check_stacks
from onchip.transform.groups.program_emission import emitted
from onchip.transform.groups.stacks_in_tiles import stacks_in_tiles
from onchip.transform.groups.tile_graph import TileGraph


@dataclass(frozen=True, slots=True)
class Tiled:
    """The transform from a network to its tile graph.

    It needs stacks of all the network's operators, each once, in an order in which they can run, and tilings only
    where all are layers over feature maps. It ensures that every element of every tensor that somebody reads, or that
    leaves, is computed before it is read, and that loop nests have the extents of what their operators compute.
    """

    stacks: tuple[ScheduledStack, ...]
    precision: Precision = field(default_factory=Precision)

    def __call__(self, graph: Graph) -> TileGraph:
        """Raises ScheduleError where the stacks are not the network's, cannot run in tiles, or are too many tiles."""
        network = with_elements_of(graph, self.precision.bits)
        check_stacks(network, self.stacks)
        tiled = stacks_in_tiles(network, self.stacks)
        whole = sum(len(stack.operators) for stack in self.stacks if stack.tiling is None)
        _check_number(network, whole + sum(one.layer_tiles for one in tiled.values()))
        made = emitted(NestsOfNetwork(network, self.precision), self.stacks, tiled)
        _check_number(network, len(made.operators))
        return made


def tile_graph(graph: Graph, stacks: Sequence[ScheduledStack], precision: Precision) -> TileGraph:
    """The network as these stacks run it, with elements of `precision`; docs/schedule.md says what is in it.

    Raises ScheduleError where the stacks are not the network's, cannot run in tiles, or are too many tiles.
    """
    return Tiled(tuple(stacks), precision)(graph)


def _check_number(graph: Graph, count: int) -> None:
    if count > MOST_TILE_OPERATORS:
        expected = f"at most {MOST_TILE_OPERATORS:,}: larger tiles"
        raise ScheduleError(f"it has {count:,} tile operators", file=graph.name, place="stacks", expected=expected)
