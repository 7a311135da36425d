"""The least cost of nested tile boundaries, by enumeration of every order of boundaries at all lattice points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import ceil, inf, prod

import numpy as np
from numpy.typing import NDArray

from onchip.native import least_chain_below

Table = NDArray[np.float64]
Tables = list[Table | None]
Row = tuple[float, Tables, Tables, Tables, bool, list[list[tuple[Table, Table]]], int | None]


@dataclass(frozen=True)
class Searched:
    """The arguments of `least_chain_below`, except for its limits."""

    shape: list[int]
    may_stand_inside: list[list[int]]
    leads: list[list[int]]
    stays: list[list[float]]
    short_turns: list[list[float]]
    part_of_turn: list[float]
    counts: list[list[int]]
    turns: list[list[float]]
    is_single: list[list[int]]
    room_bits: list[float]
    ports: list[list[int]]
    fewest_turns: list[list[float]]
    last_turns: list[list[float]]
    is_known: list[list[int]]
    boundaries: list[tuple[int, int, Table, list[Table], bool]]
    criteria: list[Row]
    is_product: bool

    def least_below(self, limit: float, most_steps: int) -> tuple[float, bool, int, list[int], list[list[int]]]:
        """Return the answer of `least_chain_below`."""
        return least_chain_below(
            self.shape,
            self.may_stand_inside,
            self.leads,
            self.stays,
            self.short_turns,
            self.part_of_turn,
            self.counts,
            self.turns,
            self.is_single,
            self.room_bits,
            self.ports,
            self.fewest_turns,
            self.last_turns,
            self.is_known,
            self.boundaries,
            self.criteria,
            self.is_product,
            limit,
            most_steps,
        )


def least_of_chains_together(searched: Searched) -> float:
    """Return the least cost over all chains that fit, in every order of boundaries."""
    shape, operands = searched.shape, [operand for operand, *_ in searched.boundaries]
    points, found = list(product(*map(range, shape))), inf
    for order in _orders([operands.count(operand) for operand in sorted(set(operands))]):
        for places in _nested(points, len(order)):
            if all(_may_follow(searched, one, two) for one, two in pairwise(places)):
                numbers = [operands.index(one) + order[:at].count(one) for at, one in enumerate(order)]
                at = dict(zip(numbers, places, strict=True))
                found = min(found, worth_of_chain(searched, [at[number] for number in range(len(operands))]))
    return found


def _may_follow(searched: Searched, one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    each = zip(searched.may_stand_inside, searched.shape, one, two, strict=True)
    return all(own[inner * side + outer] for own, side, inner, outer in each)


def part_that_stays(
    searched: Searched, number: int, place: tuple[int, ...], outside: Sequence[tuple[int, ...]]
) -> float:
    """Return the share of the most reuse of a boundary's tiles that remains with these successive points outside.

    For each table of the number of arrivals of tiles, the repeated arrivals between two points have the share that may
    remain between them; the table that leaves most counts.
    """
    operand, _, _, comes, _ = searched.boundaries[number]
    last = tuple(side - 1 for side in searched.shape)
    stays, known, settled, before = 1.0, 1.0, [0.0] * len(comes), place
    for point in outside:
        far = min(_stays_between(searched, operand, place, point, last), known)
        near = max(min(_stays_between(searched, operand, place, before, point), known), far)
        found = [] if comes else [far]
        for at, table in enumerate(comes):
            here, inner, outer = (float(table.reshape(searched.shape)[one]) for one in (place, before, point))
            if here > 1:
                settled[at] += near * max(inner - outer, 0.0) / (here - 1)
            found.append(settled[at] + far * (max(outer - 1, 0.0) / (here - 1) if here > 1 else 1.0))
        stays, known, before = min(stays, max(found)), far, point
    return stays


def _stays_between(
    searched: Searched, operand: int, place: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> float:
    """Return the share that remains when loops advance between two points outside a tile's point."""
    leading = [side for side in range(len(place)) if searched.leads[operand][side]]
    counted = [side for side in leading if searched.counts[operand][side]]
    most = max((searched.stays[side][place[side]] for side in counted), default=0.0)
    own = {side: searched.stays[side][place[side]] if side in counted else inf for side in leading}
    for side, point in product(leading, (before, after)):
        rest = searched.short_turns[side][point[side]]
        is_longer = point is before and searched.turns[side][place[side]] < rest < inf
        if point[side] > place[side] and (rest == 0.0 or is_longer):
            own[side] = 0.0
        elif point[side] > place[side] and side in counted:
            own[side] = min(own[side], rest * searched.part_of_turn[side])
    moved = [side for side in leading if before[side] > place[side]]
    if any(before[side] + 1 == searched.shape[side] for side in moved):
        return 0.0
    may_move = [side for side in leading if after[side] > place[side] or not searched.is_single[side][place[side]]]
    found = min((own[side] for side in moved), default=max((own[side] for side in may_move), default=inf))
    if found == 0.0:
        return 0.0
    return min(found / most, 1.0) if most > 0.0 else 1.0


def window(searched: Searched, operand: int, place: tuple[int, ...], inner: Sequence[tuple[int, ...]]) -> float:
    """Return the most cycles in which a tile at a point is replaced, given the points inside it."""
    leading = [side for side in range(len(place)) if searched.leads[operand][side]]
    if all(searched.turns[side][place[side]] == 1 for side in leading):
        return 1.0
    nothing_leads_out_of = [
        one
        for one in inner
        if all(one[side] == place[side] and searched.is_single[side][place[side]] for side in leading)
    ]
    each = (
        prod(own[at] for own, at in zip(searched.turns, one, strict=True)) for one in [place, *nothing_leads_out_of]
    )
    return min(each)


def without_window(searched: Searched, places: Sequence[tuple[int, ...]], port: Sequence[int]) -> float:
    """Return the cycles of the last part of any point at a port, or of all, in which no tile there can be replaced.

    A tile inside is replaced at most before each of its parts except the last; a tile of a single turn in every cycle.
    """
    there = sorted((place, at) for at, (place, is_there) in enumerate(zip(places, port, strict=True)) if is_there)
    windows = {at: _window_at(searched, places, at) for _, at in there}
    found, last = 0.0, tuple(side - 1 for side in searched.shape)
    for number, (place, _) in enumerate([*there, (last, -1)] if there else []):
        inner = there[:number]
        left = prod(own[at] for own, at in zip(searched.last_turns, place, strict=True))
        left = left if left > 1 else 0.0
        if not inner:
            found = max(found, left)
        elif all(own[at] for own, at in zip(searched.is_known, place, strict=True)):
            turns = {
                at: [own[one] for own, one in zip(searched.fewest_turns, where, strict=True)] for where, at in inner
            }
            ends = [own[at] for own, at in zip(searched.last_turns, place, strict=True)]
            for _, at in inner:
                parts = prod(ceil(end / one) for end, one in zip(ends, turns[at], strict=True))
                left = left - (parts - 1) * windows[at] if prod(turns[at]) > 1 else -inf
            found = max(found, left)
    return found


def _window_at(searched: Searched, places: Sequence[tuple[int, ...]], at: int) -> float:
    operand, _, _, _, may_come_at_once = searched.boundaries[at]
    if may_come_at_once:
        return prod(own[one] for own, one in zip(searched.turns, places[at], strict=True))
    return window(searched, operand, places[at], [one for one in places if _is_outside(one, places[at])])


def worth_of_chain(searched: Searched, places: Sequence[tuple[int, ...]]) -> float:
    used = [0.0] * len(searched.room_bits)
    for (_, memory, bits, _, _), place in zip(searched.boundaries, places, strict=True):
        used[memory] += float(bits.reshape(searched.shape)[place])
    if any(own > room for own, room in zip(used, searched.room_bits, strict=True)):
        return inf
    last = tuple(side - 1 for side in searched.shape)
    outside = [sorted({one for one in (*places, last) if _is_outside(place, one)}) for place in places]
    stays = [
        part_that_stays(searched, number, place, points)
        for number, (place, points) in enumerate(zip(places, outside, strict=True))
    ]
    sums = []
    known = [(place, [one for one in places if _is_outside(one, place)]) for place in places]
    for fixed, costs, more, rest, is_linear, waits, port in searched.criteria:
        parts = [1.0 - one if is_linear else float(one == 0.0) for one in stays]
        summed = fixed + _sum(searched, costs, places, [1.0] * len(places)) + _sum(searched, more, places, parts)
        summed += _sum(searched, rest, places, [float(one == 0.0) for one in stays])
        if port is not None:
            summed += without_window(searched, places, searched.ports[port])
        for (operand, *_), (place, inner), own in zip(searched.boundaries, known, waits, strict=True):
            windows = window(searched, operand, place, inner), window(searched, operand, place, ())
            for times, longest in own:
                often, long = (float(one.reshape(searched.shape)[place]) for one in (times, longest))
                narrow, wide = (max(long - one, 0.0) for one in windows)
                summed += often * (narrow - wide)
        sums.append(summed)
    return sums[0] * max(sums[1:]) if searched.is_product else max(sums)


def _is_outside(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    return inner != outer and all(one <= two for one, two in zip(inner, outer, strict=True))


def _sum(
    searched: Searched, costs: Sequence[Table | None], places: Sequence[tuple[int, ...]], parts: Sequence[float]
) -> float:
    each = zip(costs, places, parts, strict=True)
    return sum(part * float(own.reshape(searched.shape)[place]) for own, place, part in each if own is not None)


def least_of_all_chains(shape: Sequence[int], operands: Sequence[Sequence[Table]]) -> float:
    """Return the least cost of a chain; costs are flat tables by point, infinite where a tile does not fit."""
    tables = [table for own in operands for table in own]
    chains = _all_chains(shape, [len(own) for own in operands])
    return min(sum((float(table[x]) for table, x in zip(tables, chain, strict=True)), 0.0) for chain in chains)


def _all_chains(shape: Sequence[int], counts: Sequence[int]) -> Iterator[list[int]]:
    """Yield the flat points by boundary, grouped by operand."""
    points = list(product(*map(range, shape)))
    first = [sum(counts[:operand]) for operand in range(len(counts))]
    for order in _orders(counts):
        numbers = [first[operand] + order[:at].count(operand) for at, operand in enumerate(order)]
        for places in _nested(points, len(order)):
            found = [0] * len(order)
            for number, place in zip(numbers, places, strict=True):
                found[number] = int(np.ravel_multi_index(place, shape))
            yield found


def _orders(left: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not any(left):
        yield ()
    for at, count in enumerate(left):
        if count:
            yield from ((at, *rest) for rest in _orders([*left[:at], count - 1, *left[at + 1 :]]))


def _nested(points: Sequence[tuple[int, ...]], count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield sequences of points, each inside the next or equal to it."""
    if not count:
        yield ()
        return
    for place in points:
        around = [one for one in points if all(low <= high for low, high in zip(place, one, strict=True))]
        yield from ((place, *rest) for rest in _nested(around, count - 1))
