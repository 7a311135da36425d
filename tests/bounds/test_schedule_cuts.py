"""Shortest paths over cuts, against all that tiny networks can do, against real tile graphs, and against schedules."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import ceil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onchip.answer.schedule import ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.bounds.layer.needed import ALL, Reach, needed_pixels, runs_alone, runs_whole, seen_pixels
from onchip.bounds.network.crowding import CrowdedNetwork
from onchip.bounds.network.cut_groups import CutNetwork, CutOperator, members
from onchip.bounds.network.cut_paths import CutPaths, RoomPricing
from onchip.bounds.network.relaxation import Relaxation, relaxation
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.layers_of import Precision
from onchip.ops.views import JoinedMaps, joined_maps, views_that_join
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from oracles.every_schedule import EverySchedule
from oracles.packing import TooLargeError
from oracles.schedule import Work
from support.random_schedules import tiny_case
from support.scheduled_stacks import all_whole, tile_graphs
from support.series import series
from support.skip_network import skip_chip


@dataclass(frozen=True)
class Case:
    """A chain of operators, some of which read further maps. Each map is a row of pixels."""

    network: CutNetwork
    pricing: RoomPricing
    room_bits: int
    largest_bits: int


def random_case(chance: random.Random) -> Case:
    """Up to four operators, each with a map; windows of some taps, strides and padding."""
    count, rows = chance.randint(2, 4), chance.randint(2, 5)
    heights, operators, bits = [rows], list[CutOperator](), [0]
    sources: list[list[int]] = []
    for at in range(count):
        sources.append(sorted({max(at, 1), chance.randint(1, at)} if at > 1 else {at} - {0}))
        stride = chance.choice((1, 1, 2)) if at and heights[max(sources[-1], default=0)] > 2 else 1
        taps = chance.choice((1, 2, 3))
        height = max(heights[one] for one in (sources[-1] or [0]))
        heights.append(max((height - 1) // stride + 1, 1))
        bits.append(chance.randint(1, 3) * heights[-1])
        reaches = {
            f"m{one}": (Reach(stride, taps - chance.randint(0, taps - 1), heights[one]), Reach(1, 1, 1))
            for one in sources[-1]
            if chance.random() < 0.9
        }
        is_end = at == count - 1
        own = {f"m{one}": bits[one] for one in sources[-1]} | ({} if is_end else {f"m{at + 1}": bits[at + 1]})
        operators.append(
            CutOperator(
                tuple(f"m{one}" for one in sources[-1]),
                (f"m{at + 1}",),
                own,
                reaches,
                (heights[-1], 1),
                chance.choice((0, 1, 2, 5)),
                is_whole=chance.random() < 0.2 or heights[-1] == 1,
                is_lone=chance.random() < 0.1,
                leaves=is_end,
            )
        )
    # What nobody reads leaves the network.
    read = {name for one in operators for name in one.inputs}
    left = {name for one in operators for name in one.outputs} - read
    operators = [
        CutOperator(
            one.inputs,
            one.outputs,
            {name: size for name, size in one.map_bits.items() if name not in left},
            one.reaches,
            one.pixels,
            one.weight_bits,
            one.is_whole or one.is_lone,
            one.is_lone,
            leaves=bool(set(one.outputs) & left),
        )
        for one in operators
    ]
    prices = {name: Fraction(chance.randint(1, 6), 2) for one in operators for name in one.map_bits}
    network = CutNetwork(operators, chance.choice((0, 0, 0, 1, 3)))
    room = chance.choice((0, 2, 3, 5, 8, 12))
    return Case(network, RoomPricing(Fraction(chance.randint(0, 3)), prices), room, chance.choice((room, room // 2)))


def least_of_all(case: Case) -> Fraction:
    """Every sequence of groups, size of tiles, and number of bits of each map that pass DRAM."""
    operators, maps = case.network.operators, sorted(case.pricing.maps)
    bits = {name: max(one.map_bits.get(name, 0) for one in operators) for name in maps}
    sequences = list(_sequences(case.network, 0))
    least: Fraction | None = None
    for passed in product(*(range(bits[name] + 1) for name in maps)):
        passing = dict(zip(maps, passed, strict=True))
        once = sum((case.pricing.maps[name] * each for name, each in passing.items()), Fraction(0))
        for sequence in sequences:
            more = _weights_of(case, sequence, passing)
            if more is not None and (least is None or once + more < least):
                least = once + more
    assert least is not None
    return least


def _sequences(network: CutNetwork, done: int) -> Iterator[list[int]]:
    """All groups, each as a mask, one after the other."""
    count = len(network.operators)
    if done == (1 << count) - 1:
        yield []
    for group in range(1, 1 << count):
        if group & done == 0 and _is_group(network, group, done):
            for others in _sequences(network, done | group):
                yield [group, *others]


def _is_group(network: CutNetwork, group: int, done: int) -> bool:
    inside = list(members(group))
    for at in inside:
        before = [network.producer[name] for name in network.operators[at].inputs if name in network.producer]
        if any(not (done | group) >> one & 1 for one in before):
            return False
    if len(inside) == 1:
        return True
    *inner, _ = inside
    for at in inner:
        one = network.operators[at]
        readers = [reader for name in one.outputs for reader in network.readers[name]]
        if one.leaves or not readers or any(not group >> reader & 1 for reader in readers):
            return False
    return not any(network.operators[at].is_lone for at in inside)


def _weights_of(case: Case, sequence: list[int], passing: Mapping[str, int]) -> Fraction | None:
    """The price of weights that are read again; None where something has no room."""
    paid, done = Fraction(0), 0
    for group in sequence:
        after = done | group
        waits = sum(
            max(min(case.network.operators[at].map_bits[name] for at in readers) - passing[name], 0)
            for name in passing
            if done >> case.network.producer[name] & 1
            and (readers := case.network.readers[name])
            and any(not after >> at & 1 for at in readers)
        )
        inside = list(members(group))
        options = [_in_tiles(case, inside, size, done, after, waits, passing) for size in _sizes(case, inside)]
        if len(inside) == 1:
            options.append(_whole(case, inside[0], done, after, passing))
        found = [one for one in options if one is not None]
        done = after
        left = sum(
            max(min(case.network.operators[at].map_bits[name] for at in case.network.readers[name]) - passing[name], 0)
            for name in passing
            if done >> case.network.producer[name] & 1 and any(not done >> at & 1 for at in case.network.readers[name])
        )
        if not found or left > case.room_bits:
            return None
        paid += min(found)
    return paid


def _whole(case: Case, at: int, done: int, after: int, passing: Mapping[str, int]) -> Fraction | None:
    network, own = case.network, case.network.operators[at].map_bits
    waits = sum(
        max(min(network.operators[reader].map_bits[name] for reader in network.readers[name]) - passing[name], 0)
        for name in passing
        if name not in own
        and done >> network.producer[name] & 1
        and any(not after >> reader & 1 for reader in network.readers[name])
    )
    resident = [bits for name, bits in own.items() if passing[name] < bits]
    fits = sum(resident) + waits <= case.room_bits and max(resident, default=0) <= case.largest_bits
    return Fraction(0) if fits else None


def _sizes(case: Case, inside: list[int]) -> range:
    last = case.network.operators[inside[-1]]
    return range(1, last.pixels[0]) if not last.is_lone else range(0)


def _in_tiles(
    case: Case, inside: list[int], size: int, done: int, after: int, waits: int, passing: Mapping[str, int]
) -> Fraction | None:
    """Tiles of so many rows: each operator computes in each what is new, as far as this is known."""
    network = case.network
    rows = network.operators[inside[-1]].pixels[0]
    tiles = ceil(rows / size)
    needed: dict[int, list[int] | None] = {inside[-1]: [min((at + 1) * size, rows) for at in range(tiles)]}
    for at in reversed(inside[:-1]):
        found: list[int] | None = [0] * tiles
        for name in network.operators[at].outputs:
            for reader in network.readers[name]:
                reach, behind = network.operators[reader].reaches.get(name), needed[reader]
                if reach is None or behind is None or found is None:
                    found = None
                    continue
                seen = [
                    min(max((one - 1) * reach[0].stride + reach[0].more, 0), reach[0].size) if one else 0
                    for one in behind
                ]
                found = [max(pair) for pair in zip(found, seen, strict=True)]
        needed[at] = found
    again = 0
    for at in inside:
        one, known = network.operators[at], needed[at]
        computes = 1 if known is None else max(sum(b > a for a, b in zip([0, *known], known, strict=False)), 1)
        through = {name for name in one.map_bits if _goes_through(network, name, done, after)}
        load = sum(max(bits - passing[name], 0) for name, bits in one.map_bits.items() if name not in through)
        room = case.room_bits - waits
        if room < 0 or load > room * (1 if one.is_whole else tiles):
            return None
        computes = computes if one.is_whole or not load else max(computes, ceil(load / room))
        again += one.weight_bits * (computes - 1)
    return case.pricing.weight * max(again - network.kept_weight_bits * (tiles - 1), 0)


def _goes_through(network: CutNetwork, name: str, done: int, after: int) -> bool:
    return bool(done >> network.producer[name] & 1) and any(not after >> at & 1 for at in network.readers[name])


@pytest.mark.parametrize("part", series(range(8), 1))
def test_no_sequence_of_groups_pays_less_than_the_shortest_path(part: int) -> None:
    met = paid = 0
    for seed in range(part * 40, part * 40 + 40):
        case = random_case(random.Random(seed))
        least = least_of_all(case)
        (bound,) = CutPaths(case.network, case.room_bits, case.largest_bits).least_prices([case.pricing])
        assert bound <= float(least) * (1 + 1e-9), seed
        paid += least > 0
        met += least > 0 and bound >= 0.9 * float(least)
    assert met > paid / 2 > 0, (met, paid)


def cuts_of(network: Graph, chip: Accelerator, joined: JoinedMaps) -> CutNetwork:
    """Return the operators of a network as groups have them, but for concatenations that are not made."""
    whole = tile_graph(network, all_whole(network), Precision(network.tensors[0].bits or 8))
    operands = whole.nest_operands
    needed = needed_pixels(whole.graph, whole.nests, operands)
    weights = {tensor.name: tensor.size_bytes * 8 for tensor in whole.graph.with_role(Role.PARAMETER)}
    return CrowdedNetwork(whole.graph, whole.nests, chip, needed, operands, joined)._cuts(weights)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(tile_graphs(), st.booleans())
def test_operators_run_in_as_many_tiles_as_cuts_say(
    made: tuple[Graph, tuple[ScheduledStack, ...], TileGraph], are_joined: bool
) -> None:
    network, stacks, _ = made
    views = views_that_join(network) if are_joined else frozenset()
    tiles = tile_graph(network, stacks, Precision(network.tensors[0].bits or 8), views)
    cuts = cuts_of(network, skip_chip(), joined_maps(network, views))
    names = [operator.name for operator in network.operators if operator.name not in views]
    number = {name: at for at, name in enumerate(names)}
    for at, stack in enumerate(stacks):
        of_operators = [one.operator for one in tiles.operators.values() if one.stack == at]
        counts = {name: of_operators.count(name) for name in stack.operators if name in number}
        if not counts:
            continue
        last = number[stack.operators[-1]]
        if stack.tiling is None or counts[stack.operators[-1]] == 1:
            continue
        group = sum(1 << number[name] for name in counts)
        assert any(one.operators == group for one in cuts.groups_in_tiles(last, 1 << 62))
        coverage = {last: tuple(np.arange(size + 1) for size in cuts.operators[last].pixels)}
        for one in reversed(list(members(group))):
            name = names[one]
            if one != last:
                coverage[one] = cuts._covered(one, coverage)
            if coverage[one] and network.operator[names[last]].kind != "ConvTranspose":
                rows, columns = coverage[one]
                assert counts[name] >= _new(rows, stack.tiling.rows) * _new(columns, stack.tiling.columns), name
            assert counts[name] <= counts[stack.operators[-1]] * cuts.operators[one].computes


def _new(covered: NDArray[np.int64], size: int) -> int:
    """The tiles of so many pixels that need something new, by what is covered until each pixel."""
    behind = [int(covered[min(at, len(covered) - 1)]) for at in range(0, len(covered) - 1 + size, size)]
    return max(sum(after > before for before, after in pairwise(behind)), 1)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(tile_graphs())
def test_what_runs_whole_does_so_in_every_tiling(made: tuple[Graph, tuple[ScheduledStack, ...], TileGraph]) -> None:
    network, stacks, tiles = made
    whole = tile_graph(network, all_whole(network), Precision(network.tensors[0].bits or 8))
    for name, one in tiles.operators.items():
        operator = network.operator[one.operator]
        nests = whole.nests[operator.name]
        tile = tiles.graph.operator[name]
        if runs_whole(network, operator, nests):
            assert _bytes(tiles.graph, tile.outputs) == _bytes(network, operator.outputs)
            for read in map(network.tensor.__getitem__, operator.inputs):
                bands = [band for band in tile.inputs if read.name in (band, tiles.graph.tensor[band].part_of)]
                seen = seen_pixels(network, operator, nests, read, ALL)
                assert _bytes(tiles.graph, bands) >= read.size_bytes * seen.share(read)
        if runs_alone(network, operator, nests):
            assert stacks[one.stack].operators == (operator.name,)
            assert stacks[one.stack].tiling is None


def _bytes(graph: Graph, names: Iterable[str]) -> int:
    return sum(graph.tensor[name].size_bytes for name in dict.fromkeys(names))


def bound_of(network: Graph, machine: Accelerator, precision: Precision) -> Relaxation:
    whole = tile_graph(network, all_whole(network), precision)
    return relaxation(whole.graph, whole.nests, machine, every_memory_keeps=True, operands=whole.nest_operands)


@pytest.mark.parametrize("seed", series(range(60), 2))
def test_no_schedule_of_a_tiny_network_moves_less(seed: int) -> None:
    case = tiny_case(seed)
    precision = Precision(8, None).on(case.machine)
    try:
        best = EverySchedule(case.network, case.machine, precision).best("traffic", Work(5_000))
    except TooLargeError:
        pytest.skip("too large for the oracle")
    assert bound_of(case.network, case.machine, precision).traffic_bytes <= best.cost
