"""Parts of a dimension if units are all at work in each place, with a known number of turns, or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from math import inf, prod
from random import Random

import numpy as np
import pytest

from onchip.ir.layer import Axis
from onchip.mapping.chains.dimension import (
    Units,
    all_cells,
    cells_of,
    dimension_of,
    idle_places,
    idle_turns,
    may_stand_inside,
    most_turns,
    single_cells,
    split_further,
)
from onchip.mapping.chains.lattice import AxisRows
from support.lines import Line, lines_of


def _at_work(seed: int) -> Iterator[tuple[Line, list[int], list[int]]]:
    """Yield lines with all units at work in each place, with their temporal and their spatial loops."""
    for line in lines_of(seed):
        beside = [at for at, (_, is_beside) in enumerate(line.loops) if is_beside]
        in_time = [at for at in range(len(line.loops)) if at not in beside]
        units = prod(line.loops[at][0] for at in beside)
        inside = [[at for at in in_time if at < end] for end in range(len(line.loops) + 1)]
        at_work = all(
            len(line.sums(own + beside)) in (line.bound, units * prod(line.loops[at][0] for at in own))
            for own in inside
        )
        if at_work:
            yield line, in_time, beside


def _units_of(line: Line, in_time: list[int], beside: list[int]) -> Units:
    """Return units that are all at work in each place, in as many turns as are executed."""
    sizes, turns = tuple(line.loops[at][0] for at in beside), len(line.sums(in_time))
    return Units(prod(sizes), prod(sizes), sizes, are_full=True, turns=(turns, turns))


def test_loops_executed_in_so_many_turns_come_to_no_more_parts_than_is_said() -> None:
    """The number of turns is known exactly or at most; all units are at work in each place."""
    few = more = 0
    for line, in_time, beside in _at_work(5):
        own = _units_of(line, in_time, beside)
        turns, units = own.known_turns(line.bound), own.most
        assert -(-line.bound // units) <= turns <= most_turns(line.bound, replace(own, turns=None))
        more += turns * units >= line.bound + units
        for inside in range(len(line.loops) + 1):
            few += units > 1
            reached = len(line.sums([at for at in in_time if at < inside] + beside))
            outside = [at for at in in_time if at >= inside]
            for known in (own, replace(own, turns=(-(-line.bound // units), turns + 1))):
                dimension = dimension_of(line.bound, known, ((reached, reached),))
                assert len(line.sums(outside)) <= dimension.most_parts(1)[0]
                assert len(line.sums(outside + beside)) <= dimension.most_parts(units)[0]
    assert few > 50
    assert more > 5


@pytest.mark.slow
def test_parts_that_are_alike_are_as_many_and_as_long_as_is_said() -> None:
    """Checks, for each place and some served units, the parts with all turns of the place and the last parts."""
    seen = more = 0
    for line, in_time, beside in (line for seed in range(4) for line in _at_work(seed)):
        units = _units_of(line, in_time, beside)
        more += units.known_turns(line.bound) * units.most >= line.bound + units.most
        for inside, served in product(range(len(line.loops) + 1), ([], beside, beside[:1], beside[1:])):
            apart, within = [at for at in beside if at not in served], [at for at in in_time if at < inside]
            reached = len(line.sums(within + beside))
            dimension = dimension_of(line.bound, units, ((reached, reached),))
            instances = prod(line.loops[at][0] for at in served), prod(line.loops[at][0] for at in apart)
            alike, places = dimension.parts_alike(*instances), line.sums([at for at in in_time if at >= inside])
            least = dimension.least_length(instances[1])[0]
            whole = sum(one >= least for one in _lengths(line, places, apart, within + served))
            assert whole >= dimension.whole_parts(*instances)[0]
            last = [] if len(alike) == 1 else [max(places)]
            for own, begin in zip(alike, ([one for one in places if one not in last], last), strict=False):
                lengths = list(_lengths(line, begin, apart, within + served))
                seen += len(alike) > 1
                assert len(lengths) <= own.parts[0]
                assert max(lengths) <= own.longest[0]
                assert sum(lengths) >= own.together[0]
                assert all(one % own.whole[0] == 0 for one in lengths)
                if len(lengths) == own.parts[0]:
                    lacks = own.sides[0].lacks[0] if own.sides else 0
                    assert own.parts[0] * own.longest[0] - sum(lengths) <= lacks
    assert seen > 100
    assert more > 20


def test_parts_of_units_reach_no_less_far_than_neighbours() -> None:
    """Units are idle in no turn: each part, with all its units, meets at least as many positions as neighbours do."""
    random, seen, farther = Random(7), 0, 0
    for line, in_time, beside in (line for seed in range(16) for line in _at_work(seed)):
        units = prod(line.loops[at][0] for at in beside)
        if len(line.sums(in_time)) * units != line.bound:
            continue
        for inside in range(len(line.loops) + 1):
            taps, stride = random.randint(1, 4), random.randint(1, 3)
            padding, beyond = random.randint(0, 3), random.randint(-1, 3)
            axis = Axis("P", "R", stride, 1, padding, (line.bound - 1) * stride + taps - padding - beyond)
            rows, wide = AxisRows(axis, line.bound, taps), random.randint(1, taps)
            if axis.size < 1 or not rows.reach_as_neighbours(np.array([wide]))[0]:
                continue
            within = [at for at in in_time if at < inside]
            turns = len(line.sums(within))
            parts = [
                [begin + one for one in line.sums(within + beside) if begin + one < line.bound]
                for begin in line.sums([at for at in in_time if at >= inside])
            ]
            each = product(parts, (range(start, min(start + wide, taps)) for start in range(0, taps, wide)))
            lengths = [
                len({o * stride + tap - padding for o in own for tap in some} & set(range(axis.size)))
                for own, some in each
            ]
            blocks = [long for long, count in rows.blocks(turns * units, wide) for _ in range(count)]
            assert len(lengths) == len(blocks)
            assert all(one >= other for one, other in zip(sorted(lengths), sorted(blocks), strict=True))
            seen, farther = seen + (units > 1 and len(parts) > 1), farther + (sum(lengths) > sum(blocks))
    assert seen > 50
    assert farther > 5


def test_parts_with_fewer_turns_are_the_last_of_a_place_and_as_long_as_is_said() -> None:
    """Parts of a place have equally many turns, except perhaps the last, if all units are at work."""
    seen = set[bool]()
    for line, in_time, beside in (line for seed in range(4) for line in _at_work(seed)):
        units = _units_of(line, in_time, beside)
        for inside in range(len(line.loops) + 1):
            within = [at for at in in_time if at < inside]
            reached = len(line.sums(within + beside))
            short = float(dimension_of(line.bound, units, ((reached, reached),)).short_turns[0])
            places = line.sums([at for at in in_time if at >= inside])
            turns = [sum(begin + one < line.bound for one in line.sums(within)) for begin in sorted(places)]
            if short == inf:
                continue
            assert turns == [max(turns)] * len(turns) if short == 0 else [*[max(turns)] * (len(turns) - 1), short]
            seen.add(short == 0)
    assert len(seen) == 2


def test_kinds_take_so_many_turns_and_come_to_so_many_parts_as_is_said() -> None:
    """Kinds of a loop over units: all units at work in each place or not, in the fewest turns or more."""
    seen = Counter[tuple[bool, bool]]()
    for line in (line for seed in range(6) for line in lines_of(seed)):
        beside = [at for at, (_, is_beside) in enumerate(line.loops) if is_beside]
        in_time = [at for at in range(len(line.loops)) if at not in beside]
        sizes = tuple(line.loops[at][0] for at in beside)
        units, turns = prod(sizes), len(line.sums(in_time))
        if units == 1:
            continue
        within = [[at for at in in_time if at < end] for end in range(len(line.loops) + 1)]
        met = [len(line.sums(own + beside)) for own in within]
        each = zip(met, within, strict=True)
        is_full = all(one in (line.bound, units * prod(line.loops[at][0] for at in own)) for one, own in each)
        is_fewest = turns == -(-line.bound // units)
        between = (-(-line.bound // units), turns) if is_fewest else (-(-line.bound // units) + 1, turns + 1)
        kind = Units(units, units, sizes, is_full, between if is_full else None, not is_full)
        assert kind.fewest_turns(line.bound) <= turns
        seen[is_full, is_fewest] += 1
        for reached, own in zip(met, within, strict=True):
            dimension = dimension_of(line.bound, kind, ((reached, reached),))
            places = line.sums([at for at in in_time if at not in own])
            assert dimension.parts(units, 1)[0] <= len(places)
            assert len(line.sums(own)) <= dimension.turns[0]
            last = [one for one in Line(1 << 30, line.loops).sums(own) if max(places) + one < line.bound]
            assert dimension.last_turns[0] <= len(last)
    assert min(seen.values()) > 20
    assert len(seen) == 4


def test_loops_that_leave_units_idle_take_so_many_turns_and_have_such_places() -> None:
    """Indices and parts of each place follow from its turns; a cell has at most one place.

    Temporal loops outside a place have all of their iterations, so that no part stays.
    """
    seen = lacks = 0
    for line in (line for seed in range(12) for line in lines_of(seed)):
        beside = [at for at, (_, is_beside) in enumerate(line.loops) if is_beside]
        in_time = [at for at in range(len(line.loops)) if at not in beside]
        sizes = tuple(line.loops[at][0] for at in beside)
        units, turns = Units(prod(sizes), prod(sizes), sizes, any_is_idle=True), len(line.sums(in_time))
        within = [[at for at in in_time if at < end] for end in range(len(line.loops) + 1)]
        met = [(len(line.sums(own)), len(line.sums(own + beside))) for own in within]
        if all(reached in (line.bound, inside * units.most) for inside, reached in met):
            continue
        assert turns in idle_turns(line.bound, units)
        kind = replace(units, turns=(turns, turns))
        cells = all_cells(line.bound, kind)
        dimension, places = dimension_of(line.bound, kind, tuple(cells)), idle_places(line.bound, kind)
        may_stand = np.array(may_stand_inside(dimension)).reshape(len(cells), len(cells))
        numbers = [next(at for at, (own, _, _) in enumerate(places) if own == inside) for inside, _ in met]
        for number, (inside, reached), own in zip(numbers, met, within, strict=True):
            assert cells[number][0] <= reached <= cells[number][1]
            assert dimension.known_turns[number] == inside == dimension.turns[number]
            begins = line.sums([at for at in in_time if at not in own])
            assert len(begins) == dimension.places[number] == turns // inside
            assert len(begins) == prod(line.loops[at][0] for at in in_time if at not in own)  # none ends short
            seen, lacks = seen + 1, lacks + (reached < inside * units.most)
        assert all(may_stand[one, two] for one, two in pairwise(numbers))
        assert all(single_cells(dimension, kind))
        assert not dimension.stays.any()
    assert seen > 100
    assert lacks > 50


def test_ranges_split_further_are_the_same_coordinates() -> None:
    random = Random(3)
    for _ in range(500):
        step = random.randint(1, 4)
        starts = sorted(random.sample(range(1, 40), random.randint(2, 6)))
        ranges = cells_of([one * step for one in starts])
        units = Units(step, step, (step,), are_full=True)
        found = split_further(1 << 10, ranges, units)
        assert [one[0] for one in found][:1] == [ranges[0][0]]
        assert all(two[0] == one[1] + 1 for one, two in pairwise(found))
        assert found[-1][1] == ranges[-1][1]
        assert all(first % step == 0 for first, _ in found)
        assert {first for first, _ in ranges} <= {first for first, _ in found}
        assert len(split_further(1 << 10, found, units)) > len(found) or all(
            last - first < step for first, last in found
        )


def _lengths(line: Line, places: list[int], apart: list[int], inside: list[int]) -> Iterator[int]:
    """Yield the lengths of the non-empty parts of each instance in each of these places."""
    whole = Line(1 << 30, line.loops)
    for begin, instance in product(places, whole.sums(apart)):
        length = sum(begin + instance + one < line.bound for one in whole.sums(inside))
        if length:
            yield length
