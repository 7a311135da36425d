"""Lower bounds over all tilings, held against every tiling and every order of the tiles of small networks."""

from __future__ import annotations

import random
from itertools import product
from math import prod
from pathlib import Path

import pytest

from adversary.frame import Program
from adversary.levels.tiles_networks import chain_of_windows, random_network
from onchip.answer.problem import Count, Problem
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share, SharedKinds
from onchip.formats.own.graph_json import read_graph
from onchip.scheduling.tiles.bounds import least_peak_of_tilings, smallest_need
from onchip.transform.rewrite.shared_bytes import SharedBytes
from oracles.tilings import every_tiling, in_tiles, least_peak
from support.series import series
from support.tiled import Network, convolution, problem_of

MOST_TILINGS, MOST_TILES, SAMPLES = 300, 13, 40


def problem_of_seed(seed: int, folder: Path) -> Problem:
    chance = random.Random(seed)
    network = Program(folder).write("network.json", (chain_of_windows, random_network)[seed % 4 == 3](chance))
    return Problem(read_graph(network), (Memory("sram", 1 << 30),), count=chance.choice(list(Count)))


@pytest.mark.parametrize("seed", series(range(60), 12))
def test_the_least_peak_of_all_tilings_is_not_below_the_bound(seed: int, tmp_path: Path) -> None:
    problem, chance = problem_of_seed(seed, tmp_path), random.Random(seed)
    bound = least_peak_of_tilings(problem, is_model=False)
    need = smallest_need(problem, is_model=False)
    ways = every_tiling(problem)
    are_few = prod(map(len, ways)) <= MOST_TILINGS
    chosen = product(*ways) if are_few else (tuple(map(chance.choice, ways)) for _ in range(SAMPLES))
    for graph in (in_tiles(problem, one) for one in chosen):
        tiled = Problem(graph, problem.memories, count=problem.count)
        assert need.need_bytes <= max(sum(one.size_bytes for one in tiled.operands(each)) for each in graph.operators)
        if len(graph.operators) <= MOST_TILES:
            assert bound <= least_peak(problem, graph)


def test_the_borders_of_a_chain_are_counted() -> None:
    """Three convolutions over three rows each: between them lie two rows of every map, or all of one."""
    network = Network(8)
    source = network.input(1, 1, 64, 1)
    for _ in range(3):
        source = convolution(network, source, 1, (3, 1), pads=(1, 0, 1, 0)) or source
    problem = problem_of(network.graph(), 1 << 30, count=Count.ACTIVATIONS)
    assert smallest_need(problem, is_model=False).need_bytes == 3 + 1
    assert least_peak_of_tilings(problem, is_model=False) == 2 + 1 + 2 + 2


def test_no_bound_is_claimed_where_bytes_are_shared() -> None:
    network = Network(8)
    source = network.input(1, 1, 8, 1)
    network.add("Relu", [source], (1, 1, 8, 1))
    whole = network.graph()
    shared = SharedBytes(SharedKinds.of(Share.ALL))(whole)
    assert shared.shares_bytes
    bounds = [least_peak_of_tilings(problem_of(graph, 64), is_model=False) for graph in (whole, shared)]
    assert bounds == [2, 0]
