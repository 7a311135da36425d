"""A composer of the network with a skip connection, whose mapper finds the best mapping of each nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.schedule import ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.mapping.methods.cache import map_layer_at
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.mapped import KnownMappings, MappedNest, Room
from onchip.scheduling.program.composition import Composer
from onchip.scheduling.program.runs import NestPlace, TiledNetwork
from onchip.search.budget.limits import Run
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from support.skip_network import PRECISION, skip_network


@dataclass(slots=True)
class ProvenMapper:
    """Finds the best mapping of each nest."""

    accelerator: Accelerator
    is_quick: bool = False

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping]) -> MappedNest | None:
        return _best(LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input))

    def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
        """It shares out no time."""


def composer(stacks: tuple[ScheduledStack, ...], accelerator: Accelerator) -> tuple[TileGraph, Composer]:
    tiles = tile_graph(skip_network(), stacks, PRECISION)
    return tiles, Composer(stacks, TiledNetwork.of(tiles), accelerator, KnownMappings(ProvenMapper(accelerator)))


@cache
def _best(problem: LayerProblem) -> MappedNest | None:
    found = map_layer_at(problem, MappingObjective.ENERGY, Run()).answer
    return None if found is None else MappedNest(found, nest_cost(problem, found))
