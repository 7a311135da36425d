"""Minimum cost of places for the operands of a layer, also with ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS, Axis
from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.criteria import ChainEnergy, ChainTime, Place
from onchip.mapping.chains.dimension import Units, thinned
from onchip.mapping.chains.lattice import AxisRows, Lattice
from onchip.mapping.prove.bounds import ChainsTogether
from onchip.model.layer.limits import checked_boundaries, layer_accesses
from onchip.model.layer.ragged import PortMove, RaggedTime, TileFilling
from oracles.chains import without_window
from support.lines import Line, lines_of
from support.nests import random_case
from support.ragged_nests import random_ragged_mapping
from support.random_chains import OwnPlace, asked_of, cell_of, kind_of, own_cells, places_of
from support.series import series
from support.ways import way_of

# Places in a nest and rows of the input: least numbers of parts, their lengths, and the parts at an end


ROUNDED = 1 + 1e-9


# Cells


def test_thinned_cells_are_those_that_a_look_at_each_of_them_leaves() -> None:
    random = Random(0)
    for _ in range(3_000):
        starts = tuple(sorted(random.sample(range(1, 60), random.randint(2, 30))))
        units = Units(1, random.randint(1, 12), None, random.random() < 0.5)
        coarseness = random.choice((0.0, 0.1, 0.14, 0.5, 1.0, 3.3))
        assert thinned(starts, units, coarseness) == _looked_through(starts, units, coarseness)


def _looked_through(starts: tuple[int, ...], units: Units, coarseness: float) -> tuple[int, ...]:
    kept = [starts[0]]
    second_turn = 2 * units.most if units.are_full else units.most + 1
    for one in starts[1:-2]:
        if one == second_turn or one >= max(kept[-1], units.most) * (1 + coarseness):
            kept.append(one)
    return (*kept, *(one for one in starts[-2:] if one > kept[-1]))


# Places along one dimension


def _cell_of(line: Line, reached: int, cells: int, *, knows_sizes: bool) -> tuple[Lattice, int]:
    sizes = tuple(size for size, is_beside in line.loops if is_beside)
    units = Units(prod(sizes) if knows_sizes else 1, prod(sizes), sizes if knows_sizes else None)
    bounds = [1] * len(LOOPS)
    bounds[LOOPS.index("K")] = line.bound
    alone = Units(1, 1, ())
    lattice = Lattice.of(bounds, [units if bound > 1 else alone for bound in bounds], cells)
    dimension = lattice.dimensions[LOOPS.index("K")]
    (at,) = np.nonzero((dimension.first <= reached) & (reached <= dimension.last))[0]
    return lattice, int(at)


@pytest.mark.parametrize("knows_sizes", [True, False])
@pytest.mark.parametrize("cells", [1000, 3])
@pytest.mark.parametrize("seed", series(series(range(4), 1), 8))
def test_parts_of_a_dimension_are_as_many_and_as_long_as_its_cell_says(
    seed: int, cells: int, knows_sizes: bool
) -> None:
    """For every place between its loops, and every choice of loops over units that one instance serves."""
    for line in lines_of(seed):
        beside = [at for at, (_, is_beside) in enumerate(line.loops) if is_beside]
        for inside in range(len(line.loops) + 1):
            within = [at for at in range(inside) if at not in beside]
            outside = [at for at in range(inside, len(line.loops)) if at not in beside]
            lattice, cell = _cell_of(line, len(line.sums(within + beside)), cells, knows_sizes=knows_sizes)
            dimension = lattice.dimensions[LOOPS.index("K")]
            if len(line.sums(within + beside)) == line.bound:
                assert dimension.whole_length(1)[cell] in (1, line.bound)
            else:
                assert dimension.whole_length(1)[cell] == 1
            assert min(prod(line.loops[at][0] for at in within), line.bound) <= dimension.turns[cell]
            for served in ([], beside, beside[:1], beside[1:]):
                apart = [at for at in beside if at not in served]
                units = prod(line.loops[at][0] for at in served), prod(line.loops[at][0] for at in apart)
                longest = len(line.sums(within + served))
                assert dimension.least_length(units[1])[cell] <= longest <= dimension.most_length(*units)[cell]
                assert dimension.parts(*units)[cell] <= len(line.sums(outside + apart)) * ROUNDED
                assert len(line.sums(outside + apart)) <= dimension.most_parts(units[1])[cell]


@pytest.mark.parametrize("knows_sizes", [True, False])
@pytest.mark.parametrize("cells", [1000, 3])
@pytest.mark.parametrize("seed", range(4))
def test_no_more_of_a_dimension_lies_at_its_end_than_its_cell_says(seed: int, cells: int, knows_sizes: bool) -> None:
    """Covers places whose first temporal loop above has one iteration left, after an outer loop has moved."""
    for line in lines_of(seed):
        in_time = [at for at, (_, is_beside) in enumerate(line.loops) if not is_beside]
        beside = [at for at, (_, is_beside) in enumerate(line.loops) if is_beside]
        for inside in range(len(line.loops) + 1):
            within, above = [at for at in in_time if at < inside], [at for at in in_time if at >= inside]
            lattice, cell = _cell_of(line, len(line.sums(within + beside)), cells, knows_sizes=knows_sizes)
            for farther in range(1, len(above)):
                first = line.weight(above[0])
                at_end = [place for place in line.sums(above[farther:]) if place + first >= line.bound]
                part = (line.bound - min(at_end)) / line.bound if at_end else 0.0
                assert part <= lattice.dimensions[LOOPS.index("K")].stays[cell] * ROUNDED
                places = len(line.sums(above))
                share = float(lattice.places_that_stay((LOOPS.index("K"),)).reshape(-1)[cell])
                assert (len(at_end) > 0) / places <= share * ROUNDED


# Rows of tiles of the input


def _rows(seed: int) -> Iterator[tuple[AxisRows, Axis, int, int]]:
    random = Random(seed)
    for _ in range(120):
        outputs, taps = random.randint(1, 9), random.randint(1, 5)
        axis = Axis("P", "R", random.randint(1, 3), random.randint(1, 3), random.randint(0, 3), random.randint(1, 20))
        yield AxisRows(axis, outputs, taps), axis, outputs, taps


def _stored(axis: Axis, outputs: range, taps: range) -> int:
    """Return the number of stored positions from the first of a tile to the last."""
    first = outputs[0] * axis.stride + taps[0] * axis.dilation - axis.padding
    last = outputs[-1] * axis.stride + taps[-1] * axis.dilation - axis.padding
    return max(min(last + 1, axis.size) - max(first, 0), 0)


def _cut(count: int, length: int) -> list[range]:
    return [range(start, min(start + length, count)) for start in range(0, count, length)]


@pytest.mark.parametrize("seed", range(6))
def test_tiles_of_the_input_reach_over_as_many_rows_as_is_said(seed: int) -> None:
    for rows, axis, outputs, taps in _rows(seed):
        for high, wide in product(range(1, outputs + 1), range(1, taps + 1)):
            tiles = {(p, r): _stored(axis, p, r) for p in _cut(outputs, high) for r in _cut(taps, wide)}
            sides = np.array([float(high)]), np.array([float(wide)])
            own = *sides, np.array([float(outputs // high)])
            assert rows.moved(*sides)[0] <= sum(tiles.values()) * ROUNDED
            assert rows.largest(*own)[0] <= rows.largest_block(*own)[0] <= max(tiles.values())
            assert max(tiles.values()) <= rows.most(*sides)[0]
            last, low = _cut(outputs, high)[-1], _cut(taps, wide)[-1]
            before = sum(size for (p, r), size in tiles.items() if p != last and r != low)
            ends = np.array([len(last) / outputs]), np.array([len(low) / taps])
            assert rows.moved_but_at_the_end(*sides, *ends)[0] <= before * ROUNDED


@pytest.mark.parametrize("seed", range(4))
def test_taps_that_are_no_neighbours_meet_no_fewer_rows_than_is_said(seed: int) -> None:
    """Outputs and taps are random sets, as for spatial neighbours: positions in between do not count."""
    random = Random(seed)
    for rows, axis, outputs, taps in _rows(seed):
        scattered = AxisRows(axis, outputs, taps, taps_are_neighbours=False)
        own = random.sample(range(outputs), random.randint(1, outputs))
        some = random.sample(range(taps), random.randint(1, taps))
        met = {o * axis.stride + t * axis.dilation - axis.padding for o, t in product(range(outputs), some)}
        parts = [own, [one for one in range(outputs) if one not in own]]
        total = 0
        for part in parts:
            for others in (some, [one for one in range(taps) if one not in some]):
                met = {o * axis.stride + t * axis.dilation - axis.padding for o, t in product(part, others)}
                total += sum(0 <= position < axis.size for position in met)
        longest = max(len(part) for part in parts), max(len(some), taps - len(some))
        sides = np.array([float(longest[0])]), np.array([float(longest[1])])
        assert scattered.moved(*sides)[0] <= total * ROUNDED
        assert scattered.moved(*sides)[0] <= rows.moved(*sides)[0]


@pytest.mark.parametrize("seed", range(4))
def test_tiles_of_any_parts_of_outputs_and_taps_meet_as_many_rows_as_is_said(seed: int) -> None:
    """Parts of any size and anywhere, no more counted of a tile than as many neighbours as the largest would meet."""
    random = Random(seed)
    for _, axis, outputs, taps in _rows(seed):
        rows = AxisRows(axis, outputs, taps, taps_are_neighbours=False)
        of_outputs, of_taps = _parted(random, outputs), _parted(random, taps)
        most = max(map(len, of_outputs)), max(map(len, of_taps))
        sides = np.array([float(most[0])]), np.array([float(most[1])])
        counted = 0
        for own, others in product(of_outputs, of_taps):
            met = {o * axis.stride + t * axis.dilation - axis.padding for o, t in product(own, others)}
            counted += min(sum(0 <= one < axis.size for one in met), int(rows.block(*sides)[0]))
        parts = np.array([float(len(of_outputs))]), np.array([float(len(of_taps))])
        assert rows.met(*sides, *parts)[0] <= counted * ROUNDED


@pytest.mark.parametrize("seed", range(4))
def test_tiles_of_blocks_of_any_parts_meet_as_many_rows_as_is_said(seed: int) -> None:
    """Some blocks of outputs together with all blocks of some taps, each from its first position to its last."""
    random, more = Random(seed), 0
    for rows, axis, outputs, taps in _rows(seed):
        of_outputs, of_taps = _parted(random, outputs), _parted(random, taps)
        tiles, tap_tiles = _parted(random, len(of_outputs)), _parted(random, len(of_taps))
        counted = 0
        for own, other in product(tiles, tap_tiles):
            met = set[int]()
            for p, r in product((of_outputs[at] for at in own), (of_taps[at] for at in other)):
                first = min(p) * axis.stride + min(r) * axis.dilation - axis.padding
                last = max(p) * axis.stride + max(r) * axis.dilation - axis.padding
                met |= set(range(max(first, 0), min(last + 1, axis.size)))
            counted += len(met)
        most_taps = max(sum(len(of_taps[at]) for at in other) for other in tap_tiles)
        numbers = (np.array([float(one)]) for one in (most_taps, len(of_outputs), len(of_taps)))
        least = rows.in_blocks(*numbers)[0]
        assert least <= counted * ROUNDED
        more += least > rows.positions
    assert more > 10


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_block_of_any_parts_reaches_as_far_as_is_said(seed: int) -> None:
    """A block reaches from the first position of any outputs and taps to the last."""
    random, farther, amidst = Random(seed), 0, 0
    for rows, axis, outputs, taps in _rows(seed):
        of_outputs, of_taps = _parted(random, outputs), _parted(random, taps)
        blocks = [
            _stored(axis, range(min(own), max(own) + 1), range(min(other), max(other) + 1))
            for own, other in product(of_outputs, of_taps)
        ]
        wide = np.array([float(max(map(len, of_taps)))])
        for high in range(1, max(map(len, of_outputs)) + 1):
            least, parts = np.array([float(high)]), np.array([float(sum(len(own) >= high for own in of_outputs))])
            found = rows.largest_block(least, wide, parts)[0]
            assert rows.largest(least, wide, parts)[0] <= found <= max(blocks)
            farther += rows.largest(least, wide, parts)[0] < found
            amidst += found > rows.largest_block(least, wide, np.zeros(1))[0]
    assert farther > 10
    assert amidst > 0


@pytest.mark.parametrize("seed", range(6))
def test_parts_of_neighbours_reach_as_far_as_is_said(seed: int) -> None:
    """Checks the largest of the parts of at least some lengths, and the number of parts by reach."""
    for rows, axis, outputs, taps in _rows(seed):
        neighbours = replace(rows, all_are_neighbours=True)
        lengths = {
            (high, wide): [_stored(axis, p, r) for p in _cut(outputs, high) for r in _cut(taps, wide)]
            for high, wide in product(range(1, outputs + 1), range(1, taps + 1))
        }
        for (high, wide), own in lengths.items():
            found = neighbours.largest_block(np.array([float(high)]), np.array([float(wide)]), np.zeros(1))[0]
            as_long = (others for (longer, wider), others in lengths.items() if longer >= high and wider >= wide)
            assert found == min(max(others) for others in as_long)
            assert neighbours.blocks(high, wide) == sorted(Counter(own).items(), reverse=True)


def _parted(random: Random, count: int) -> list[list[int]]:
    """Return a random partition of `count` indices into non-empty parts."""
    number = random.randint(1, count)
    of_each = [*range(number), *(random.randrange(number) for _ in range(count - number))]
    random.shuffle(of_each)
    return [[at for at, part in enumerate(of_each) if part == one] for one in range(number)]


# Ports in the bound on all mappings: the last cycles, and the data that comes from above at once


def _case(seed: int) -> tuple[LayerProblem, LayerMapping, dict[Place, OwnPlace]] | None:
    """Return a random mapping with the places of its tiles, or None if it is illegal."""
    problem = random_case(seed, most_macs=1500).problem
    mapping = random_ragged_mapping(Random(seed), problem, keeps_all=True)
    try:
        checked_boundaries(problem, mapping)
    except MappingError:
        return None
    way = way_of(problem, mapping)
    numbers = [
        (operand, at)
        for operand in map(Operand, problem.layer.operands)
        for at in range(len(way.memories(operand)) - 1)
    ]
    return problem, mapping, dict(zip(numbers, places_of(problem, mapping), strict=True))


@pytest.mark.parametrize("first", series(range(0, 240, 20), 1))
def test_no_window_is_in_so_many_cycles_of_last_parts(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any tiles, with times and cycles enough, wait for all cycles except the union of their windows."""
    random, tight, several = Random(first), 0, 0
    for problem, mapping, places in filter(None, map(_case, range(first, first + 20))):
        if not places:
            continue
        way = kind_of(problem, mapping)
        lattice = own_cells(way, list(places.values()))
        searched = asked_of(ChainsTogether(ChainEnergy(way, lattice), ChainTime(way, lattice)), monkeypatch)
        assert searched is not None
        crossed, time = checked_boundaries(problem, mapping), RaggedTime(problem.layer, mapping)
        cells = [cell_of(lattice, place) for place in places.values()]
        for _ in range(6):
            chosen = random.sample(sorted(places), min(random.randint(1, 3), len(places)))
            moves = [
                PortMove(TileFilling.of(crossed[operand][at + 1]), 2 * time.cycles, time.cycles, returns=False)
                for operand, at in chosen
            ]
            covered = sum(one.busy * one.times for one in moves) - time.stall(moves)
            own = without_window(searched, cells, [int(one in chosen) for one in places])
            assert covered + own <= time.cycles, (str(mapping), chosen)
            is_tight = own > 0 and covered + own == time.cycles
            tight, several = tight + is_tight, several + (is_tight and len(chosen) > 1)
    assert tight > 10
    assert several > 3


@pytest.mark.parametrize("first", series(range(0, 240, 20), 4))
def test_from_above_comes_at_once_what_an_instance_has_room_for(first: int) -> None:
    """The largest tile of an input or a weight that an upper memory gives is no smaller than a block of one below."""
    seen = 0
    for problem, mapping, places in filter(None, map(_case, range(first, first + 20))):
        way, crossed = way_of(problem, mapping), checked_boundaries(problem, mapping)
        lattice = own_cells(way, list(places.values()))
        for (operand, at), place in places.items():
            lower, upper = way.memories(operand)[at : at + 2]
            given = [
                size
                for one in layer_accesses(problem.accelerator, crossed)
                if (one.memory, one.operand, one.move) == (upper, operand, Move.READ_FOR_BELOW)
                for size, _ in one.sizes
            ]
            if operand is not Operand.OUTPUT and given:
                block = OperandChain(way, lattice, operand).largest(way.served(lower), is_block=True)
                at_own = tuple(
                    min(one, side - 1) for one, side in zip(cell_of(lattice, place), block.shape, strict=True)
                )
                assert block[at_own] <= max(given), (str(mapping), operand, at)
                seen += block[at_own] == max(given)
    assert seen > 0
