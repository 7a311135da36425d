"""Shortest paths over cuts, against all that tiny networks can do, against real tile graphs, and against schedules."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations, islice, pairwise, product
from math import ceil

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.bounds.layer.needed import ALL, Reach, needed_pixels, pixels_cut, runs_alone, runs_whole, seen_pixels
from onchip.bounds.network import cut_paths
from onchip.bounds.network.crowding import CrowdedNetwork
from onchip.bounds.network.cut_groups import CutNetwork, CutOperator, members
from onchip.bounds.network.cut_paths import CutPaths, RoomPricing
from onchip.bounds.network.relaxation import Relaxation, relaxation
from onchip.bounds.network.tile_loads import SETS
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.fusable import pixels_of
from onchip.ops.layers_of import Precision
from onchip.ops.views import JoinedMaps, joined_maps, views_that_join
from onchip.transform.groups.tile_graph import TileGraph, TileOperator
from onchip.transform.groups.tiled import tile_graph
from oracles.every_schedule import EverySchedule
from oracles.packing import TooLargeError
from oracles.schedule import Work
from support.random_schedules import tiny_case
from support.series import series
from support.small_schedules import all_whole, skip_chip, tile_graphs


@dataclass(frozen=True)
class Case:
    """A chain of operators; some read further maps. Each map is a row of pixels."""

    network: CutNetwork
    pricing: RoomPricing
    room_bits: int
    largest_bits: int


def random_case(chance: random.Random, *, is_branched: bool = False) -> Case:
    """Return two to four operators with a map each, and windows of random taps, strides and padding.

    In a branched case all later operators read the same bits of the first map, too.
    """
    count, rows = (3, chance.randint(2, 4)) if is_branched else (chance.randint(2, 4), chance.randint(2, 5))
    heights, operators, bits = [rows], list[CutOperator](), [0]
    sources: list[list[int]] = []
    for at in range(count):
        other = 1 if is_branched or at < 2 else chance.randint(1, at)
        sources.append(sorted({max(at, 1), other} if at > 1 else {at} - {0}))
        is_wide = at and not is_branched and heights[max(sources[-1], default=0)] > 2
        stride, taps = chance.choice((1, 1, 2)) if is_wide else 1, 1 if is_branched else chance.choice((1, 2, 3))
        height = max(heights[one] for one in (sources[-1] or [0]))
        heights.append(max((height - 1) // stride + 1, 1))
        bits.append((1 if is_branched else chance.randint(1, 3)) * heights[-1])
        reaches = {
            f"m{one}": (Reach(stride, taps - chance.randint(0, taps - 1), heights[one], taps), Reach(1, 1, 1))
            for one in sources[-1]
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
                weight_bits=chance.choice((0, 1, 2, 5)),
                is_whole=chance.random() < 0.2 or heights[-1] == 1,
                is_lone=chance.random() < 0.1,
                leaves=is_end,
            )
        )
    # Maps without a reader leave the network.
    read = {name for one in operators for name in one.inputs}
    left = {name for one in operators for name in one.outputs} - read
    pixels = {f"m{at}": bits[at] // heights[at] for at in range(1, count + 1)}

    def seen(one: CutOperator, name: str) -> int:
        """Return the bits of the rows that windows touch: those of the operator, or of all readers of its output."""
        if name in one.outputs:
            return max(seen(reader, name) for reader in operators if name in reader.inputs)
        return pixels[name] * len(set(one.reaches[name][0].touched(one.pixels[0]).ravel().tolist()) - {-1})

    def read_whole(one: CutOperator) -> frozenset[str] | None:
        """Return the inputs of a convolution, of an operator by channels, or of one without slices."""
        return chance.choice((None, frozenset(), frozenset(one.inputs), frozenset(one.inputs)))

    operators = [
        replace(
            one,
            map_bits={name: seen(one, name) for name in one.map_bits if name not in left},
            is_whole=one.is_whole or one.is_lone,
            is_lone=one.is_whole or one.is_lone,
            leaves=bool(set(one.outputs) & left),
            whole_inputs=read_whole(one),
        )
        for one in operators
    ]
    prices = {name: Fraction(chance.randint(1, 6), 2) for one in operators for name in one.map_bits}
    reads = {name: price / chance.randint(1, 3) for name, price in prices.items()}
    network = CutNetwork(operators, chance.choice((0, 0, 0, 1, 3)), pixels)
    room = chance.choice((1, 2, 3, 4, 5) if is_branched else (0, 2, 3, 5, 8, 12))
    pricing = RoomPricing(Fraction(chance.randint(0, 3)), prices, reads)
    return Case(network, pricing, room, chance.choice((room, room // 2)))


@dataclass(frozen=True)
class Spans:
    """The bits of a map that each group that reads it gets from DRAM after the one before it.

    `are_same` bits: a later group gets those that an earlier one gets, as far as possible; else others.
    """

    bits: tuple[int, ...]
    all_bits: int
    are_same: bool = True

    def at(self, number: int) -> int:
        return self.bits[min(number, len(self.bits) - 1)] if self.bits else 0

    def in_any(self, *numbers: int) -> int:
        bits = [self.at(number) for number in numbers]
        return max(bits, default=0) if self.are_same else min(sum(bits), self.all_bits)

    def price(self, passing: Fraction, read: Fraction) -> Fraction:
        """Return the price of the bits written to DRAM once, and read by each group."""
        return (passing - read) * self.in_any(*range(len(self.bits))) + read * sum(self.bits)


def least_of_all(case: Case) -> Fraction:
    """Return the least cost over all sequences of groups, tile sizes, and bits of each map that pass DRAM.

    If operators see different bits of a map, all groups that read it get the same ones from DRAM, for the price of one.
    """
    operators, maps = case.network.operators, sorted(case.pricing.maps)
    least: Fraction | None = None
    for sequence in _sequences(case.network, 0):
        options, free = [], set()
        for name in maps:
            seen = {one.map_bits[name] for one in operators if name in one.map_bits}
            most, groups = max(seen), _readings(case.network, sequence, name)
            if groups > 1 and len(seen) == 1:
                some = sorted({0, 1, most // 2, most})
                options.append(
                    [Spans(each, most, same) for each in product(some, repeat=groups) for same in (True, False)]
                )
            else:
                options.append([Spans((each,) * groups, most) for each in range(most + 1 if groups else 1)])
                free.add(name)
        for chosen in product(*options):
            passing = dict(zip(maps, chosen, strict=True))
            prices = {name: (case.pricing.maps[name], case.pricing.reads[name]) for name in maps}
            once = sum(
                (one.price(*prices[name]) if name not in free else prices[name][0] * one.at(0))
                for name, one in passing.items()
            )
            more = _weights_of(case, sequence, passing)
            if more is not None and (least is None or once + more < least):
                least = once + more
    assert least is not None
    return least


def _readings(network: CutNetwork, sequence: list[int], name: str) -> int:
    """Return the number of groups that read a map of another group."""
    readers = sum(1 << at for at in network.readers[name])
    return sum(bool(group & readers) and not group >> network.producer[name] & 1 for group in sequence)


def _sequences(network: CutNetwork, done: int) -> Iterator[list[int]]:
    """Yield all sequences of groups, each group as a mask, for the operators not yet in `done`."""
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


@dataclass(frozen=True)
class State:
    """The bits of each map that a group reads from DRAM, and those that the next reader of the map reads from there.

    `through` are the bits of live maps on the chip during all of the group, `left` those after it.
    """

    passing: Mapping[str, int]
    later: Mapping[str, int]
    through: Mapping[str, int]
    left: Mapping[str, int]


def _state(network: CutNetwork, sequence: list[int], number: int, passing: Mapping[str, Spans]) -> State:
    before, group = sequence[:number], sequence[number]
    done = sum(before)
    now, later, through, left = {}, {}, {}, {}
    for name, spans in passing.items():
        least = min(network.operators[at].map_bits[name] for at in network.readers[name])
        begun = _readings(network, before, name) if done >> network.producer[name] & 1 else 0
        ended = begun + (_readings(network, [*before, group], name) - begun)
        now[name], later[name] = spans.at(begun), spans.at(ended)
        if _goes_through(network, name, done, done | group):
            through[name] = max(least - spans.in_any(*{begun, ended}), 0)
        if _goes_through(network, name, done | group, done | group):
            left[name] = max(least - later[name], 0)
    return State(now, later, through, left)


def _weights_of(case: Case, sequence: list[int], passing: Mapping[str, Spans]) -> Fraction | None:
    """Return the price of weights that are read again, or None if a group does not fit."""
    paid, done = Fraction(0), 0
    for number, group in enumerate(sequence):
        after, state = done | group, _state(case.network, sequence, number, passing)
        inside, waits = list(members(group)), sum(state.through.values())
        options = [_in_tiles(case, inside, size, done, after, waits, state.passing) for size in _sizes(case, inside)]
        options += [_in_slices(case, inside, shares, done, after, state.passing) for shares in SHARES]
        if len(inside) == 1:
            options.append(_whole(case, inside[0], state))
        found = [one for one in options if one is not None]
        done = after
        if not found or sum(state.left.values()) > case.room_bits:
            return None
        paid += min(found)
    return paid


def _whole(case: Case, at: int, state: State) -> Fraction | None:
    own = case.network.operators[at].map_bits
    waits = sum(bits for name, bits in state.through.items() if name not in own)
    resident = {name: bits for name, bits in own.items() if state.passing[name] < bits}
    there = sum(max(resident.get(name, 0), state.left.get(name, 0) if name in state.through else 0) for name in own)
    fits = there + waits <= case.room_bits and max(resident.values(), default=0) <= case.largest_bits
    return Fraction(0) if fits else None


SHARES = tuple(
    tuple(Fraction(one, sum(each)) for one in each) for each in ((1, 1), (1, 3), (3, 1), (1, 1, 1), (1, 1, 1, 1))
)
"""Shares of the output channels in each slice."""


def _in_slices(
    case: Case, inside: list[int], shares: Sequence[Fraction], done: int, after: int, passing: Mapping[str, int]
) -> Fraction | None:
    """Return the cost in slices of channels with these shares, or None; each weight is read once."""
    network, operators, last = case.network, case.network.operators, inside[-1]
    inner, written = {f"m{at + 1}" for at in inside[:-1]}, f"m{last + 1}"
    whole = {at: operators[at].whole_inputs for at in inside}
    if any(passing.get(name, 0) for name in inner) or any(operators[at].is_lone for at in inside):
        return None
    if any(names is None or names & inner for names in whole.values()):
        return None

    def left(name: str) -> int:
        return max(min(operators[at].map_bits[name] for at in network.readers[name]) - passing[name], 0)

    through = {name: left(name) for name in passing if _goes_through(network, name, done, after)}
    rest, waiting = Fraction(left(written) if written in passing else 0), list[Fraction]()
    for share in reversed(shares):  # the last slices wait, the first ones pass
        waiting.insert(0, min(rest, share * operators[last].map_bits.get(written, 0)))
        rest -= waiting[0]
    paid = Fraction(0)
    for at in inside:
        own, count = f"m{at + 1}", len(shares)
        inputs = {name: operators[at].map_bits[name] for name in (whole[at] or frozenset()) & passing.keys()}
        has_to_stay = any(passing[name] < bits for name, bits in inputs.items())
        again = sum((case.pricing.reads[name] * bits for name, bits in inputs.items()), Fraction(0))
        costs = [] if has_to_stay else [(again * (count - 1), range(0))]
        for first, behind in combinations(range(count + 1), 2):  # the slices in which the inputs are on the chip
            if not has_to_stay or (first, behind) == (0, count):
                loads = 1 if first else 0  # before the first slice they may be there from their writer
                costs.append((again * max(count - (behind - first) + loads - 1, 0), range(first, behind)))
        options = []
        for cost, slices in costs:
            for number, share in enumerate(shares):
                resident = inputs if number in slices else {}
                there = sum((through | resident).values()) + sum(waiting[: number + (at == last)], Fraction(0))
                if there > case.room_bits or max(resident.values(), default=0) > case.largest_bits:
                    break
                if at != last and there + share * operators[at].map_bits[own] > case.room_bits:
                    cost += case.pricing.maps[own] * share * operators[at].map_bits[own]
            else:
                options.append(cost)
        if not options:
            return None
        paid += min(options)
    return paid


def _sizes(case: Case, inside: list[int]) -> range:
    last = case.network.operators[inside[-1]]
    return range(1, last.pixels[0]) if not last.is_lone else range(0)


def _in_tiles(
    case: Case, inside: list[int], size: int, done: int, after: int, waits: int, passing: Mapping[str, int]
) -> Fraction | None:
    """Return the cost in tiles of `size` rows, or None; operators compute the new rows and read their windows."""
    network, room = case.network, case.room_bits - waits
    inner = {f"m{at + 1}" for at in inside[:-1]}
    if room < 0 or any(passing.get(name, 0) for name in inner):  # choices for inner maps follow
        return None
    tiles = _Tiles(case, inside, size)
    again = sum(network.operators[at].weight_bits * (max(sum(map(bool, tiles.new[at])), 1) - 1) for at in inside)
    edges = {
        name: passing[name]
        for at in inside
        for name in network.operators[at].map_bits
        if name not in inner and not _goes_through(network, name, done, after)
    }
    options = [list(tiles.least_passing(at, tile, room, inner, edges)) for at in inside for tile in range(tiles.count)]
    if any(not each for each in options):
        return None
    chosen = islice(product(*options), 100)  # any of them is a way to run
    found = min(tiles.price(list(chain.from_iterable(every)), inner) for every in chosen)
    return case.pricing.weight * max(again - network.kept_weight_bits * (tiles.count - 1), 0) + found


class _Tiles:
    """The rows that the operators of a group compute and read in each tile."""

    def __init__(self, case: Case, inside: list[int], size: int) -> None:
        self.case, self.inside = case, inside
        rows = case.network.operators[inside[-1]].pixels[0]
        self.count = ceil(rows / size)
        ends = [rows - at * size for at in range(self.count)][::-1]  # the first tile is smaller
        self.new = {inside[-1]: [set(range(max(end - size, 0), end)) for end in ends]}
        for at in reversed(inside[:-1]):
            readers = case.network.readers[f"m{at + 1}"]
            seen, new = set[int](), []
            for tile in range(self.count):
                wanted = set().union(*(self.window(reader, f"m{at + 1}", tile) for reader in readers))
                new.append(wanted - seen)
                seen |= wanted
            self.new[at] = new

    def window(self, at: int, name: str, tile: int) -> set[int]:
        reach = self.case.network.operators[at].reaches[name][0]
        touched = reach.touched(reach.size * 4 + 4)
        return {int(one) for row in self.new[at][tile] for one in touched[row] if one >= 0}

    def rows(self, at: int, name: str, tile: int) -> set[int]:
        """Return the rows of a map that an operator reads or writes in a tile."""
        return self.new[at][tile] if name == f"m{at + 1}" else self.window(at, name, tile)

    def least_passing(
        self, at: int, tile: int, room: int, inner: set[str], edges: Mapping[str, int]
    ) -> Iterator[list[Missing]]:
        """Yield the inner bands that pass DRAM so that the others have room in one Compute, and bits that wait."""
        one, network = self.case.network.operators[at], self.case.network
        if not self.new[at][tile]:
            yield []
            return
        free = room - sum(self._edge(at, name, tile, passed) for name, passed in edges.items())
        own = [name for name in one.map_bits if name in inner]
        waiting = {
            name: network.pixel_bits[name] * len(self.window(reader, name, tile))
            for name in inner - set(own)
            for reader in network.readers[name]
            if network.comes_before(network.producer[name], at) and network.comes_before(at, reader)
        }
        for number in range(len(own) + 1):
            for chosen in combinations(own, number):
                stays = sum(network.pixel_bits[one] * len(self.rows(at, one, tile)) for one in own if one not in chosen)
                if stays <= free:
                    found = [Missing(one, at, tile, frozenset(self.rows(at, one, tile))) for one in chosen]
                    less = max(stays + sum(waiting.values()) - free, 0)
                    yield from ([*found, Missing(one, at, tile, frozenset(), less)] for one in waiting or ("",))

    def _edge(self, at: int, name: str, tile: int, passed: int) -> int:
        """Return the bits of an edge map on the chip during a Compute."""
        network, bits = self.case.network, self.case.network.pixel_bits[name]
        one, last = network.operators[at], self.inside[-1]
        if name == f"m{last + 1}":
            rows = set().union(*self.new[last][: tile + (at == last)])
        else:
            readers = [reader for reader in network.readers[name] if reader in self.inside]
            rows = set()
            for reader in readers:
                first = tile + (not network.comes_before(at, reader))
                rows = max(
                    rows, set().union(*(self.window(reader, name, one) for one in range(first, self.count))), key=len
                )
        own = 0
        if name in one.map_bits:
            bands = [bits * len(self.rows(at, name, number)) for number in range(self.count)]
            if tile == self.count - 1 and passed < min((band for band in bands if band), default=0):
                own = bands[tile]
        return max(bits * len(rows) - passed, own, 0)

    def price(self, missing: Sequence[Missing], inner: set[str]) -> Fraction:
        """Return the price of bands that pass DRAM: each row once, and at least the reads in further tiles."""
        pricing, total = self.case.pricing, Fraction(0)
        for name in inner:
            bits, own = self.case.network.pixel_bits[name], [one for one in missing if one.name == name]
            tiles_of: dict[int, set[int]] = {}
            for one in own:
                for row in one.rows:
                    tiles_of.setdefault(row, set()).update(() if name == f"m{one.at + 1}" else {one.tile})
            for tiles in tiles_of.values():
                total += bits * (pricing.maps[name] + pricing.reads[name] * max(len(tiles) - 1, 0))
            for tile in range(self.count):
                counted = len(set().union(*(one.rows for one in own if one.tile == tile))) * bits
                waits = max((one.waiting for one in own if one.tile == tile), default=0)
                total += pricing.reads[name] * max(waits - counted, 0)
        return total


@dataclass(frozen=True)
class Missing:
    """Rows of an inner map that are not on the chip in a Compute, and bits of it that do not wait meanwhile."""

    name: str
    at: int
    tile: int
    rows: frozenset[int]
    waiting: int = 0


def _goes_through(network: CutNetwork, name: str, done: int, after: int) -> bool:
    return bool(done >> network.producer[name] & 1) and any(not after >> at & 1 for at in network.readers[name])


@pytest.mark.parametrize("part", series(range(8), 1))
def test_no_sequence_of_groups_pays_less_than_the_shortest_path(part: int) -> None:
    met = paid = 0
    for seed in range(part * 6, part * 6 + 6):
        case = random_case(random.Random(seed))
        least = least_of_all(case)
        bound = CutPaths(case.network, case.room_bits, case.largest_bits).least_price(case.pricing)
        assert bound <= float(least) * (1 + 1e-9), seed
        paid += least > 0
        met += least > 0 and bound >= 0.9 * float(least)
    assert 2 * met >= paid, (met, paid)


@pytest.mark.parametrize("part", series(range(8), 1))
def test_no_sequence_of_groups_pays_less_if_several_read_a_map(part: int) -> None:
    """A map with several readers is written to DRAM once, and read by each reader that does not find it on the chip."""
    met = paid = 0
    for seed in range(part * 10, part * 10 + 10):
        case = random_case(random.Random(seed), is_branched=True)
        least = least_of_all(case)
        bound = CutPaths(case.network, case.room_bits, case.largest_bits).least_price(case.pricing)
        assert bound <= float(least) * (1 + 1e-9), seed
        paid += least > 0
        met += least > 0 and bound >= 0.9 * float(least)
    assert 2 * met >= paid, (met, paid)


@pytest.mark.parametrize(("limit", "value"), [("_MOST_PAIRS", -1), ("_MOST_PAIRS", 3000), ("_MOST_LIVE", 0)])
def test_limits_of_effort_only_lower_the_shortest_path(limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lower = 0
    for seed in range(40):
        case = random_case(random.Random(seed), is_branched=seed % 2 == 1)
        full = CutPaths(case.network, case.room_bits, case.largest_bits).least_price(case.pricing)
        with monkeypatch.context() as patched:
            patched.setattr(cut_paths, limit, value)
            limited = CutPaths(case.network, case.room_bits, case.largest_bits).least_price(case.pricing)
        assert limited <= full * (1 + 1e-9), seed
        lower += limited < full
    assert lower


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
        found = next(one for one in cuts.groups_in_tiles(last, lambda _: 1 << 62) if one.operators == group)
        coverage = found.lasts.coverage
        for one in reversed(list(members(group))):
            name = names[one]
            if coverage[one] and network.operator[names[last]].kind != "ConvTranspose":
                rows, columns = coverage[one]
                assert counts[name] >= _new(rows, stack.tiling.rows) * _new(columns, stack.tiling.columns), name
            assert counts[name] <= counts[stack.operators[-1]] * cuts.operators[one].computes


@settings(max_examples=30, deadline=None, phases=[Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck))
@given(tile_graphs())
def test_maps_in_tiles_take_at_least_the_room_that_loads_say(
    made: tuple[Graph, tuple[ScheduledStack, ...], TileGraph],
) -> None:
    network, stacks, tiles = made
    cuts = cuts_of(network, skip_chip(), {})
    number = {name: at for at, name in enumerate(network.operator)}
    run = {one.operator for one in tiles.operators.values()}
    for at, stack in enumerate(stacks):
        own = {name: one for name, one in tiles.operators.items() if one.stack == at}
        last = network.operator[stack.operators[-1]]
        pixels = pixels_of(network.tensor[last.outputs[0]].shape or ())
        if stack.tiling is None or len(own) == len(stack.operators) or last.kind == "ConvTranspose":
            continue
        read = {name for one in stack.operators for name in network.operator[one].inputs} & network.producer.keys()
        if not {network.producer[name].name for name in read} | set(stack.operators) <= run:
            continue  # a concatenation is read in parts, and is no map
        mask = sum(1 << number[name] for name in stack.operators)
        groups = cuts.groups_in_tiles(number[last.name], lambda _: 1 << 62)
        group = next((one for one in groups if one.operators == mask), None)
        if group is None:
            continue
        real = _RealTiles(tiles.graph, own, stack.tiling, pixels)
        size = (stack.tiling.rows - 1) * group.classes.columns + stack.tiling.columns - 1
        places = np.flatnonzero(group.classes.order == size)
        if not len(places):
            continue
        kind = int(np.searchsorted(group.classes.begins, places[0], side="right")) - 1
        inner = {name for one in stack.operators[:-1] for name in network.operator[one].outputs}
        for one, load in group.loads(len(stack.operators)).items():
            operator = network.operators[one]
            if load.is_spread or load.is_whole:
                continue
            for each, (down, across) in enumerate(SETS):
                chosen = real.tiles_of(down, across)
                assert load.computes[kind, each] >= len(chosen)
                for name, bits in load.own.items():
                    assert bits[kind, each] <= sum(real.bits(operator.name, name, tile) for tile in chosen), name
                for name, bits in load.waiting.items():
                    readers = [reader.name for reader in network.readers[name]]
                    waits = [max(real.bits(reader, name, tile) for reader in readers) for tile in chosen]
                    assert bits[kind, each] <= sum(waits)
                for name, edge in load.edges.items():
                    assert name not in inner
                    if name in last.outputs:
                        taken = [real.written(last.name, name, tile + (operator is last)) for tile in chosen]
                    else:
                        taken = [real.unread(name, tile, operator.name, list(stack.operators)) for tile in chosen]
                    assert edge.bits[kind, each] <= sum(taken), (operator.name, name)
            for name, edge in load.edges.items():
                if edge.least is not None:
                    bands = [real.bits(operator.name, name, tile) for tile in range(real.rows * real.columns)]
                    assert edge.least[kind] <= min(band for band in bands if band)


class _RealTiles:
    """The bits of maps that the tile operators of one stack read and write."""

    def __init__(self, graph: Graph, own: Mapping[str, TileOperator], tiling: Tiling, pixels: tuple[int, int]) -> None:
        self.graph = graph
        self.rows, self.columns = -(-pixels[0] // tiling.rows), -(-pixels[1] // tiling.columns)
        self.of: dict[tuple[str, int], list[str]] = {}
        for name, one in own.items():
            number = name.removeprefix(f"{one.operator}#").partition(".")[0]
            tile = int(number) if number.isdecimal() else 0  # what the first tile computes once and for all
            self.of.setdefault((one.operator, tile), []).append(name)

    def tiles_of(self, down: int, across: int) -> list[int]:
        """Return the numbers of the tiles in a set of row tiles and one of column tiles."""

        def part(kind: int, count: int) -> range:
            half = -(-count // 2)
            return (range(count), range(count - 1, count), range(half), range(half, count))[kind]

        return [row * self.columns + at for row in part(down, self.rows) for at in part(across, self.columns)]

    def bits(self, operator: str, name: str, tile: int) -> int:
        found = [self.graph.operator[one] for one in self.of.get((operator, tile), ())]
        bands = {band for one in found for band in (*one.inputs, *one.outputs)}
        return sum(self._bits(band) for band in bands if self._base(band) == name)

    def written(self, operator: str, name: str, before: int) -> int:
        return sum(self.bits(operator, name, tile) for tile in range(before))

    def unread(self, name: str, tile: int, operator: str, order: list[str]) -> int:
        """Return the bits of distinct bands that Computes of this tile from the operator on, or later ones, read."""
        first, found = order.index(operator), set[str]()
        for (one, at), own in self.of.items():
            if at > tile or (at == tile and order.index(one) >= first):
                bands = (band for each in own for band in self.graph.operator[each].inputs)
                found |= {band for band in bands if self._base(band) == name}
        return sum(map(self._bits, found))

    def _base(self, band: str) -> str:
        return self.graph.tensor[band].part_of or band

    def _bits(self, band: str) -> int:
        tensor = self.graph.tensor[band]
        return int(np.prod(tensor.shape or ())) * (tensor.bits or 0)


def _new(covered: NDArray[np.int64], size: int) -> int:
    """Return the number of tiles of `size` pixels that need new pixels, given the coverage up to each pixel."""
    length = len(covered) - 1
    behind = [int(covered[max(length - at * size, 0)]) for at in range(-(-length // size), -1, -1)]
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


def test_images_before_a_softmax_are_not_cut_by_heads() -> None:
    """Tiles may cut a Transpose between products by heads, but not one between convolutions of the same network."""
    tensors = [
        *(Tensor.of_shape(name, (1, 4, 6, 6), 8, Role.ACTIVATION) for name in "abpq"),
        Tensor.of_shape("x", (1, 4, 6, 6), 8, Role.INPUT),
        Tensor.of_shape("w", (4, 4, 1, 1), 8, Role.PARAMETER),
        Tensor.of_shape("v", (6, 6), 8, Role.PARAMETER),
        *(Tensor.of_shape(name, (1, 4, 6, 6), 8, Role.OUTPUT) for name in "yz"),
    ]
    operators = (
        Operator("first", "Conv", ("x",), ("a",), ("w",)),
        Operator("shuffle", "Transpose", ("a",), ("b",), attributes={"perm": [0, 2, 1, 3]}),
        Operator("second", "Conv", ("b",), ("y",), ("w",)),
        Operator("product", "MatMul", ("x",), ("p",), ("v",)),
        Operator("swap", "Transpose", ("p",), ("q",), attributes={"perm": [0, 1, 3, 2]}),
        Operator("soft", "Softmax", ("q",), ("z",), attributes={"axis": -1}),
    )
    graph = Graph("both", tuple(tensors), operators)
    heads = {one.name: pixels_cut(graph, one)[1] for one in operators}
    assert heads == dict.fromkeys(("first", "shuffle", "second")) | dict.fromkeys(("product", "swap", "soft"), (6, 4))


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
