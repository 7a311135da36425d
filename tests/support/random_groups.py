"""Random groups of a network's operators, whose tiles are held against the verifier, the values and the bound."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.bounds.network.relaxation import relaxation
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.fusable import pixels_in_tiles
from onchip.ops.layers_of import Precision
from onchip.simulate.arithmetic_kernels import ArithmeticKernels, values_in_given_order
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from oracles.every_schedule import EverySchedule
from oracles.packing import TooLargeError
from oracles.schedule import Work
from support.random_schedules import Case
from support.scheduled_stacks import all_whole
from transform.test_tile_graph_verified import assert_both_agree


def random_groups(network: Graph, chance: Random) -> tuple[ScheduledStack, ...]:
    """Return runs of operators in their order, each in tiles or whole."""
    names, stacks = [one.name for one in network.operators], list[ScheduledStack]()
    while names:
        count = chance.randint(1, len(names))
        group, names = names[:count], names[count:]
        rows, columns = pixels_in_tiles(network, group)
        if count == 1 and chance.random() < 0.5:
            stacks.append(ScheduledStack(tuple(group)))
        else:
            tiling = Tiling(chance.randint(1, columns), chance.randint(1, rows), chance.choice(list(OverlapMode)))
            stacks.append(ScheduledStack(tuple(group), tiling.within(columns, rows)))
    return tuple(stacks)


def tiles_that_agree(network: Graph, seed: int, times: int) -> Iterator[TileGraph]:
    """Yield tile graphs of random groups, after the verifier has derived the same; illegal groups are left out."""
    chance = Random(seed)
    for _ in range(times):
        stacks = random_groups(network, chance)
        try:
            tiles = tile_graph(network, stacks, Precision(8))
        except ScheduleError:
            continue
        assert_both_agree(network, stacks, tiles, 24)
        yield tiles


def assert_values_are_equal(network: Graph, tiles: Graph) -> None:
    """Run a network and its tiles in integer arithmetic."""
    kernels = ArithmeticKernels(tiles, 3, network)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiles.with_role(Role.INPUT)}
    leaving = frozenset(tensor.name for tensor in tiles.with_role(Role.OUTPUT))
    outputs = values_in_given_order(tiles, kernels, inputs, leaving)
    assert kernels.difference_from_whole_model(inputs, outputs) == 0


def assert_bound_holds(case: Case, objective: str) -> None:
    """Hold the bound of a network's schedules against the best of all; a network that is too large is skipped."""
    precision = Precision(8, None).on(case.machine)
    try:
        best = EverySchedule(case.network, case.machine, precision).best(objective, Work(5_000))
    except TooLargeError:
        pytest.skip("too large for the oracle")
    whole = tile_graph(case.network, all_whole(case.network), precision)
    found = relaxation(whole.graph, whole.nests, case.machine, every_memory_keeps=True, operands=whole.nest_operands)
    assert (found.traffic_bytes if objective == "traffic" else found.energy_fj) <= best.cost
