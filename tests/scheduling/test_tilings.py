"""Fused groups in tiles and bounds over all tilings, against every tiling and order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from math import inf, prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary.frame import Program
from adversary.levels.tiles import chain_of_windows, least_traffic_in_tiles, random_network
from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Count, Objective, Problem
from onchip.answer.result import Status
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share, SharedKinds
from onchip.errors import GraphError
from onchip.formats.own.graph_json import read_graph
from onchip.ir.graph import Graph
from onchip.memory.spill.min_peak import peak_of_order
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.timeline.mac_count import recomputed_macs
from onchip.scheduling.tiles.bounds import Barriers, least_peak_of_tilings, least_spills_of_tilings, smallest_need
from onchip.scheduling.tiles.group_tiles import FINEST, FusedGroup, FusedGroups
from onchip.scheduling.tiles.search import RecomputingGroups, groups_of_few_tiles, groups_of_least_peak, tile_sizes
from onchip.scheduling.tiles.tilings import NetworkTiling, tiling_of, tilings
from onchip.transform.rewrite.shared_bytes import SharedBytes
from onchip.transform.slices.emission import counted_geometries, with_tiles
from oracles.tilings import every_tiling, graphs_in_tiles, least_peak
from support.series import series
from support.tiled import Network, convolution, gemm, networks, pool, problem_of, whole_tensor_differences

ROOMY = 1 << 30


@st.composite
def problems(draw: st.DrawFn, most_operators: int = 4) -> Problem:
    return problem_of(draw(networks(most_operators)), ROOMY, count=draw(st.sampled_from(Count)))


def groups_of(problem: Problem) -> FusedGroups:
    return FusedGroups(problem, counted_geometries(problem, is_model=False))


def in_order(problem: Problem, tiling: NetworkTiling) -> Problem:
    """Return the problem of a tiling, with the tiles in the tiling's order."""
    graph = with_tiles(problem, tiling.tiles, is_model=False)
    assert sorted(tiling.order) == sorted(graph.operator)
    assert (recomputed_macs(graph) or 0) == tiling.macs_again
    return replace(problem, graph=replace(graph, operators=tuple(map(graph.operator.__getitem__, tiling.order))))


def peak_in_order(problem: Problem) -> int:
    return peak_of_order(IndexedProblem.of(problem), range(len(problem.graph.operators)))


def partitions(groups: FusedGroups, sizes: tuple[int, ...] | None = None) -> Iterator[tuple[FusedGroup, ...]]:
    """Yield all partitions of the operators into groups, in tiles of these sizes or of those that the search tries."""
    count = len(groups.operators)
    ending: dict[int, list[FusedGroup]] = {stop: [groups.whole(stop - 1)] for stop in range(1, count + 1)}
    for stop in range(1, count + 1):
        for axis in groups.axes(stop - 1):
            for tile in sizes or tile_sizes(groups, stop - 1, axis):
                ending[stop] += groups.ending_at(stop, axis, tile, lambda _, __: True)

    def until(stop: int) -> Iterator[tuple[FusedGroup, ...]]:
        if stop == 0:
            yield ()
        for last in ending.get(stop, ()):
            for before in until(last.first):
                yield (*before, last)

    return until(count)


def inverted_bottleneck(size: int = 8) -> Graph:
    network = Network(8)
    image = network.input(1, 2, size, size)
    wide = convolution(network, image, 12, (1, 1)) or ""
    deep = convolution(network, wide, 12, (3, 3), groups=12) or ""
    narrow = convolution(network, deep, 2, (1, 1)) or ""
    network.add("Add", [image, narrow], network.shape(image))
    return network.graph()


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(problems(), st.data())
def test_the_tiles_of_groups_in_order_need_no_more_than_the_groups(problem: Problem, data: st.DataObject) -> None:
    groups = groups_of(problem)
    chosen: list[FusedGroup] = []
    stop = len(groups.operators)
    again = data.draw(st.frozensets(st.integers(0, stop - 1)))
    while stop:
        options = [groups.whole(stop - 1)]
        for axis in groups.axes(stop - 1):
            tile = data.draw(st.sampled_from(tile_sizes(groups, stop - 1, axis)))
            options += groups.ending_at(stop, axis, tile, lambda _, __: True, again=again)
        chosen.insert(0, data.draw(st.sampled_from(options)))
        stop = chosen[0].first
    tiling = tiling_of(groups, chosen)
    tiled = in_order(problem, tiling)
    assert len(tiling.order) == sum(group.tiles for group in chosen)
    assert peak_in_order(tiled) <= tiling.peak_bytes
    assert whole_tensor_differences(tiled.graph, problem.graph) == ()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(problems(3))
def test_the_least_peak_is_that_of_all_partitions_in_finest_tiles(problem: Problem) -> None:
    groups = groups_of(problem)
    found = max(group.peak_bytes for group in groups_of_least_peak(groups))
    assert found == min(max(group.peak_bytes for group in one) for one in partitions(groups, (FINEST,)))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(problems(3), st.sampled_from((0.5, 0.7, 0.9, 1.0)))
def test_the_fewest_tiles_are_those_of_all_partitions_that_fit(problem: Problem, share: float) -> None:
    groups = groups_of(problem)
    capacity = int(share * max(groups.whole(number).peak_bytes for number in range(len(groups.operators))))
    fitting = [one for one in partitions(groups) if all(group.peak_bytes <= capacity for group in one)]
    found = groups_of_few_tiles(groups, capacity)
    if found is None:
        assert not fitting
    else:
        assert all(group.peak_bytes <= capacity for group in found)
        assert sum(group.tiles for group in found) == min(sum(group.tiles for group in one) for one in fitting)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(problems(3), st.sampled_from((0.5, 0.7, 0.9, 1.0)))
def test_the_fewest_spills_are_those_of_all_partitions(problem: Problem, share: float) -> None:
    capacity = max(1, int(share * max(one.peak_bytes for one in groups_of_least_peak(groups_of(problem)))))
    groups = groups_of(replace(problem, memories=(Memory("sram", capacity),)))
    found = groups_of_few_tiles(groups, capacity, may_spill=True)
    assert found is not None or not all(map(groups.fits_whole, range(len(groups.operators))))
    spilled = [sum(group.spilled_bytes for group in one) for one in partitions(groups)]
    assert found is None or sum(group.spilled_bytes for group in found) <= min(spilled)


def test_maps_that_wait_for_factors_are_loaded_once_in_the_tiling_of_few_spills() -> None:
    """The product runs in rows, together with the convolution behind it, and is not written as a whole."""
    network = Network(8)
    source = convolution(network, network.input(1, 2, 6, 4), 6, (1, 1)) or ""
    factor = convolution(network, network.add("GlobalAveragePool", [source], (1, 6, 1, 1)), 6, (1, 1)) or ""
    product_of_both = network.add("Mul", [source, factor], network.shape(source))
    convolution(network, product_of_both, 2, (1, 1))
    problem = problem_of(network.graph(), 120, count=Count.ACTIVATIONS)
    few, *others = tilings(problem, is_model=False)
    costs = [plan_problem(in_order(problem, one)).objective_value for one in (few, *others)]
    assert few.tiles["mul3"].axis == few.tiles["conv4"].axis in (2, 3)
    assert costs[0] is not None
    assert all(one is None or costs[0] <= one for one in costs)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(problems(3), st.data())
def test_no_tiling_needs_less_than_the_bound(problem: Problem, data: st.DataObject) -> None:
    bound = least_peak_of_tilings(problem, is_model=False)
    tiles = {}
    for name, geometry in counted_geometries(problem, is_model=False).items():
        axes = [at for at, axis in enumerate(geometry.axes if geometry else ()) if not axis.is_reduction]
        if axes and geometry:
            axis = data.draw(st.sampled_from(axes))
            size = geometry.axes[axis].size
            inner = data.draw(st.sets(st.integers(1, size), max_size=size))
            tiles[name] = OperatorTiles(axis, tuple(sorted({*inner, size})))
    tiled = replace(problem, graph=with_tiles(problem, tiles, is_model=False))
    needs = (sum(each.size_bytes for each in tiled.operands(one)) for one in tiled.graph.operators)
    assert bound <= max(needs)


def test_rows_of_an_inverted_bottleneck_need_a_fraction_of_its_maps() -> None:
    problem = problem_of(inverted_bottleneck(), ROOMY, count=Count.ACTIVATIONS)
    (least,) = list(tilings(problem, is_model=False))[-1:]
    result = plan_problem(replace(in_order(problem, least), objective=Objective.PEAK))
    whole = plan_problem(replace(problem, objective=Objective.PEAK))
    assert result.objective_value is not None
    assert whole.objective_value is not None
    assert peak_in_order(in_order(problem, least)) == least.peak_bytes
    assert result.objective_value <= least.peak_bytes < whole.objective_value / 3


@pytest.mark.parametrize("tile", [FINEST, 1, 2, 3, 8])
def test_the_peak_of_a_group_is_that_of_its_tiles_in_order(tile: int) -> None:
    problem = problem_of(inverted_bottleneck(), ROOMY, count=Count.ACTIVATIONS)
    groups = groups_of(problem)
    for group in groups.ending_at(4, 2, tile, lambda _, __: True):
        before = [groups.whole(number) for number in range(group.first)]
        tiling = tiling_of(groups, [*before, group])
        assert peak_in_order(in_order(problem, tiling)) == tiling.peak_bytes


def test_a_pool_over_all_pixels_runs_in_tiles_of_channels() -> None:
    network = Network(8)
    image = network.input(1, 4, 6, 6)
    wide = convolution(network, image, 32, (1, 1)) or ""
    pooled = network.add("GlobalAveragePool", [wide], (1, 32, 1, 1))
    gemm(network, pooled, 5)
    problem = problem_of(network.graph(), ROOMY, count=Count.ACTIVATIONS)
    least = list(tilings(problem, is_model=False))[-1]
    assert {name: one.axis for name, one in least.tiles.items()} == {"conv0": 1, "globalaveragepool1": 1}
    assert least.peak_bytes == 4 * 36 + 31 + 36


def test_no_operator_runs_whole_that_does_not_fit_whole() -> None:
    """The pool reads a map of 288 bytes after an addition that needs more, so that its tiles do not lower the peak."""
    network = Network(8)
    left, right = network.input(1, 8, 6, 6), network.input(1, 8, 6, 6)
    network.add("Add", [left, right], network.shape(left))
    network.add("GlobalAveragePool", [left], (1, 8, 1, 1))
    for capacity_bytes in (296, 290):
        problem = problem_of(network.graph(), capacity_bytes, count=Count.ACTIVATIONS)
        least = list(tilings(problem, is_model=False))[-1]
        graph = with_tiles(problem, least.tiles, is_model=False)
        assert not operators_that_do_not_fit(IndexedProblem.of(replace(problem, graph=graph)))


@pytest.mark.parametrize(
    ("tiles", "what"),
    [
        ({"conv9": OperatorTiles(2, (4, 8))}, "no such operator"),
        ({"conv0": OperatorTiles(2, (4, 7))}, "the last tile ends at 7"),
        ({"conv0": OperatorTiles(4, (2, 12))}, "not cut along axis 4"),
    ],
)
def test_tiles_of_another_network_are_refused(tiles: dict[str, OperatorTiles], what: str) -> None:
    problem = problem_of(inverted_bottleneck(), ROOMY)
    with pytest.raises(GraphError, match=what):
        with_tiles(problem, tiles, is_model=False)


def test_an_empty_tile_is_refused() -> None:
    with pytest.raises(GraphError, match="empty tile"):
        OperatorTiles(2, (4, 4))


def tiny() -> Iterator[Graph]:
    """Yield networks small enough to list their tilings."""
    for kernel, count in product((1, 2), (2, 3)):
        network = Network(8)
        image = network.input(1, 1, 4, 1)
        for _ in range(count - 1):
            image = convolution(network, image, 1, (kernel, 1), pads="VALID") or image
        pool(network, image, "MaxPool", 1, 1, 0)
        yield network.graph()


@pytest.mark.slow
@pytest.mark.parametrize("graph", list(tiny()))
def test_no_bound_or_proof_contradicts_any_tiling_in_any_order(graph: Graph) -> None:
    """Brute force over the cuts of all operators' rows: exact plans with order, residencies and addresses."""
    problem = problem_of(graph, ROOMY, count=Count.ACTIVATIONS)
    peak = replace(problem, objective=Objective.PEAK)
    sizes = {name: (problem.graph.tensor[f"{name}.out"].shape or ())[2] for name in problem.graph.operator}
    cuts = [list(_subsets(size)) for size in sizes.values()]
    values = []
    for ends in product(*cuts):
        tiles = {name: OperatorTiles(2, one) for name, one in zip(sizes, ends, strict=True)}
        result = plan_problem(replace(peak, graph=with_tiles(peak, tiles, is_model=False)))
        assert result.status is Status.OPTIMAL
        values.append(result.objective_value)
    least = min(value for value in values if value is not None)
    best = min(tiling.peak_bytes for tiling in tilings(peak, is_model=False))
    assert least_peak_of_tilings(peak, is_model=False) <= least <= best


def _subsets(size: int) -> Iterator[tuple[int, ...]]:
    for taken in product((False, True), repeat=size - 1):
        yield (*(at + 1 for at, is_end in enumerate(taken) if is_end), size)


def test_a_search_that_is_late_leaves_the_operators_left_whole() -> None:
    problem = problem_of(inverted_bottleneck(), ROOMY, count=Count.ACTIVATIONS)
    groups = groups_of(problem)
    whole = [groups.whole(number) for number in range(len(groups.operators))]
    assert list(groups_of_least_peak(groups, lambda: True)) == whole
    assert groups_of_few_tiles(groups, max(group.peak_bytes for group in whole) - 1, lambda: True) is None


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
    for graph in graphs_in_tiles(problem, chosen):
        tiled = Problem(graph, problem.memories, count=problem.count)
        assert need.need_bytes <= max(sum(one.size_bytes for one in tiled.operands(each)) for each in graph.operators)
        if len(graph.operators) <= MOST_TILES:
            assert bound <= least_peak(problem, graph)


@pytest.mark.parametrize("seed", series(range(60), 12))
def test_no_tiling_spills_less_than_the_bound(seed: int, tmp_path: Path) -> None:
    """Few tiles, for which the traffic of all orders, residencies and addresses can be listed."""
    roomy = problem_of_seed(seed, tmp_path)
    need, peak = smallest_need(roomy, is_model=False).need_bytes, least_peak_of_tilings(roomy, is_model=False)
    memory = Memory("sram", max(need, peak - 1 - seed % 3))
    problem = replace(roomy, memories=(memory,))
    bound = least_spills_of_tilings(problem, is_model=False)
    assert bound > 0 or memory.capacity_bytes >= peak
    for graph in islice(graphs_in_tiles(problem, product(*every_tiling(problem))), MOST_TILINGS):
        least = least_traffic_in_tiles(replace(problem, graph=graph))
        assert least is None or bound <= least


def gated(chance: random.Random, most_blocks: int = 2) -> Graph:
    """Return a network in which maps wait for a factor of each channel that depends on all their rows."""
    network = Network(8)
    source = network.input(1, chance.choice((1, 1, 2)), chance.randint(1, 3), 1)
    for _ in range(chance.randint(1, most_blocks)):
        kernel = chance.choice((1, 1, 3))
        deep = convolution(network, source, chance.choice((1, 2)), (kernel, 1), pads=(kernel // 2, 0) * 2) or source
        channels = network.shape(deep)[1]
        factor = network.add("GlobalAveragePool", [deep], (1, channels, 1, 1))
        for _ in range(chance.randint(0, 2)):
            factor = convolution(network, factor, channels, (1, 1)) or factor
        deep = network.add("Mul", [deep, factor], network.shape(deep))
        is_residual = network.shape(deep) == network.shape(source) and chance.random() < 0.7
        source = network.add("Add", [deep, source], network.shape(deep)) if is_residual else deep
    return network.graph()


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("seed", series(range(100), 12))
def test_tensors_live_across_a_barrier_in_every_tiling(seed: int, repeats: bool) -> None:
    """A part is live if all tiles of the barrier depend on its writer, and some reader depends on the barrier."""
    chance = random.Random(seed)
    problem = problem_of(gated(chance), ROOMY, count=chance.choice(list(Count)))
    barriers = Barriers(problem, counted_geometries(problem, is_model=False), repeats)
    live = {each.name: barriers.live_bytes(at) for at, each in enumerate(problem.graph.operators)}
    means = [one.outputs[0] for one in problem.graph.operators if one.kind == "GlobalAveragePool"]
    mixes_channels = any(each.kind == "Conv" for name in means for each in problem.graph.readers[name])
    assert any(live.values()) or repeats or not mixes_channels
    ways = every_tiling(problem, overlaps=repeats)
    for graph in graphs_in_tiles(problem, (tuple(map(chance.choice, ways)) for _ in range(SAMPLES))):
        before: dict[str, set[str]] = {}  # the tiles on which a tile depends, and itself
        for each in graph.operators:
            writers = (graph.producer[name].name for name in each.reads if name in graph.producer)
            before[each.name] = {each.name}.union(*(before[name] for name in writers))
        for name, expected in live.items():
            tiles = {each.name for each in graph.operators if name == (each.tile.operator if each.tile else each.name)}
            earlier, later = set[str].intersection(*(before[one] for one in tiles)) - tiles, dict[str, int]()
            for tensor in graph.tensors:
                readers, writer = graph.readers[tensor.name], graph.producer.get(tensor.name)
                first = {each.name for each in readers} if writer is None else {writer.name}
                if first & earlier and any(before[each.name] & tiles for each in readers):
                    whole = tensor.part_of or tensor.name
                    later[whole] = later.get(whole, 0) + tensor.size_bytes
            assert all(later.get(tensor, 0) >= size_bytes for tensor, size_bytes in expected.items())


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("seed", series(range(60), 8))
def test_no_tiling_spills_less_than_the_bound_at_barriers(seed: int, repeats: bool) -> None:
    graph = gated(random.Random(seed), most_blocks=1)
    need = smallest_need(problem_of(graph, ROOMY, count=Count.ACTIVATIONS), is_model=False).need_bytes
    problem = problem_of(graph, need + seed % 2, count=Count.ACTIVATIONS)
    bound = least_spills_of_tilings(problem, is_model=False, repeats=repeats)
    few = (one for one in product(*every_tiling(problem, overlaps=repeats)) if _tiles_of(one) <= MOST_TILES // 2)
    for tiled in graphs_in_tiles(problem, islice(few, SAMPLES // 4)):
        least = least_traffic_in_tiles(replace(problem, graph=tiled))
        assert least is None or bound <= least


def _tiles_of(tiling: tuple[OperatorTiles | None, ...]) -> int:
    """Return the number of tiles; those of an operator that is recomputed count as three."""
    return sum(1 if one is None else len(one.ends) or 3 for one in tiling)


def test_maps_that_wait_for_their_factors_are_spilled_at_every_barrier() -> None:
    """In each of two blocks, a map of 18 bytes and its 2 means are live before the first factor; 12 bytes fit.

    With recomputation the means do not count, because they may be computed again.
    """
    network = Network(8)
    source = convolution(network, network.input(1, 1, 9, 1), 2, (1, 1)) or ""
    for _ in range(2):
        factor = network.add("GlobalAveragePool", [source], (1, 2, 1, 1))
        deep = network.add("Mul", [source, convolution(network, factor, 2, (1, 1)) or ""], (1, 2, 9, 1))
        source = network.add("Add", [deep, source], (1, 2, 9, 1))
    problem = problem_of(network.graph(), 12, count=Count.ACTIVATIONS)
    for repeats in (False, True):
        assert least_spills_of_tilings(problem, is_model=False, repeats=repeats) == 2 * 2 * (
            18 + 2 * (not repeats) - 12
        )


def test_a_row_that_does_not_fit_is_loaded_again() -> None:
    """The chain needs 7 bytes at once: in 6, one byte is loaded again; DRAM may have a copy of it."""
    network = Network(8)
    source = network.input(1, 1, 64, 1)
    for _ in range(3):
        source = convolution(network, source, 1, (3, 1), pads=(1, 0, 1, 0)) or source
    problem = problem_of(network.graph(), 6, count=Count.ACTIVATIONS)
    assert least_spills_of_tilings(problem, is_model=False) == 1


@pytest.mark.parametrize("seed", series(range(60), 12))
def test_no_overlapping_tiling_needs_less_than_the_smallest_tile(seed: int, tmp_path: Path) -> None:
    problem, chance = problem_of_seed(seed, tmp_path), random.Random(seed)
    need = smallest_need(problem, is_model=False)
    ways = every_tiling(problem, overlaps=True)
    for graph in graphs_in_tiles(problem, (tuple(map(chance.choice, ways)) for _ in range(SAMPLES))):
        assert whole_tensor_differences(graph, problem.graph) == ()
        tiled = replace(problem, graph=graph)
        assert need.need_bytes <= max(sum(one.size_bytes for one in tiled.operands(each)) for each in graph.operators)


def test_recomputed_borders_of_an_inverted_bottleneck_need_less_within_every_limit() -> None:
    """Rows of the wide maps are computed again from narrow ones, so that less is held."""
    network = Network(8)
    source = network.input(1, 2, 20, 20)
    for _ in range(3):
        wide = convolution(network, source, 12, (1, 1)) or ""
        source = convolution(network, convolution(network, wide, 12, (3, 3), groups=12) or "", 2, (1, 1)) or ""
    problem = problem_of(network.graph(), ROOMY, count=Count.ACTIVATIONS)
    groups = groups_of(problem)
    without = max(group.peak_bytes for group in groups_of_least_peak(groups))
    recomputing = RecomputingGroups(groups, without)
    peaks = []
    for share in (0.0, 0.1, 0.5, inf):
        found = recomputing.of_least_peak(share * sum(groups.macs)) or groups_of_least_peak(groups)
        tiling = tiling_of(groups, found)
        assert tiling.macs_again <= share * sum(groups.macs)
        assert peak_in_order(in_order(problem, tiling)) <= tiling.peak_bytes
        peaks.append(tiling.peak_bytes)
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0] == without


def test_the_borders_of_a_chain_are_counted() -> None:
    """Three convolutions over three rows each: between them lie two rows of every map, or all of one."""
    network = Network(8)
    source = network.input(1, 1, 64, 1)
    for _ in range(3):
        source = convolution(network, source, 1, (3, 1), pads=(1, 0, 1, 0)) or source
    problem = problem_of(network.graph(), 1 << 30, count=Count.ACTIVATIONS)
    assert smallest_need(problem, is_model=False).need_bytes == 3 + 1
    assert least_peak_of_tilings(problem, is_model=False) == 2 + 1 + 2 + 2


def test_rows_that_are_kept_for_later_windows_are_counted_once() -> None:
    """The mean needs all rows of its input at once.

    The convolution before it reads rows of 4 bytes in windows of three. If rows that a later window reads again counted
    twice, the bound would be 16.
    """
    network = Network(8)
    source = convolution(network, network.input(1, 1, 5, 1), 4, (1, 1)) or ""
    source = convolution(network, source, 1, (3, 1), pads=(1, 0, 1, 0)) or ""
    network.add("GlobalAveragePool", [source], (1, 1, 1, 1))
    problem = problem_of(network.graph(), 1 << 30, count=Count.ACTIVATIONS)
    assert least_peak_of_tilings(problem, is_model=False) == 14


def test_no_bound_is_claimed_where_bytes_are_shared() -> None:
    network = Network(8)
    source = network.input(1, 1, 8, 1)
    network.add("Relu", [source], (1, 1, 8, 1))
    whole = network.graph()
    shared = SharedBytes(SharedKinds.of(Share.ALL))(whole)
    assert shared.shares_bytes
    bounds = [least_peak_of_tilings(problem_of(graph, 64), is_model=False) for graph in (whole, shared)]
    assert bounds == [2, 0]


def test_multiply_accumulates_of_tiles_do_not_depend_on_shared_bytes() -> None:
    network = Network(8)
    source = convolution(network, network.input(1, 1, 8, 1), 2, (3, 1), pads=(1, 0, 1, 0)) or ""
    network.add("Relu", [source], (1, 2, 8, 1))
    problem = problem_of(network.graph(), 14, count=Count.ACTIVATIONS)
    tiles = with_tiles(problem, next(tilings(problem, is_model=False)).tiles, is_model=False)
    assert any(one.tile for one in tiles.operators)
    shared = SharedBytes(SharedKinds.of(Share.ALL))(tiles)
    assert shared.shares_bytes
    assert recomputed_macs(shared) == recomputed_macs(tiles)
