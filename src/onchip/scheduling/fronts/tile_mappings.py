"""The mappings of a strategy's layers: one for each different loop nest, homes and room of each stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.strategy import TileMapping
from onchip.model.group.cost import StackCost


def tile_mappings(costs: Sequence[StackCost]) -> tuple[TileMapping, ...]:
    """Return how the layers of stacks run, by the mappings that their costs are of; alike layers of a stack share one.

    Mappings stand in the order in which they are first run by.
    """
    return tuple(one for number, cost in enumerate(costs) for one in _of_stack(number, cost))


def _of_stack(number: int, cost: StackCost) -> Iterator[TileMapping]:
    names: dict[int, dict[str, None]] = {}
    found: list[tuple[LayerProblem, LayerMapping]] = []
    numbers: dict[LayerProblem, int] = {}
    for tile in cost.placed:
        for layer in tile.layers:
            if layer.problem not in numbers:
                numbers[layer.problem] = len(found)
                found.append((layer.problem, layer.mapping))
            names.setdefault(numbers[layer.problem], {})[layer.name] = None
    for at, (problem, mapping) in enumerate(found):
        yield TileMapping(number, tuple(names[at]), problem.layer, problem.homes, mapping, problem.room_bytes)
