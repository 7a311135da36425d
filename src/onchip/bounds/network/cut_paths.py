"""Lower bound on the cost of limited capacity: a shortest path over the cuts between groups of operators.

A state is a prefix of operators that have run, and for each live feature map the number of bits that the next group
that reads the map gets from DRAM after the last one that did. These numbers form intervals: the cost is that of the
first number of an interval, and the room that of the last. docs/schedule.md, section 8, proves that no schedule costs
less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, product
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.bounds.network.cut_groups import MOST_GROUPS, MOST_LOADS, CutNetwork, Prefix, TiledGroup, members
from onchip.bounds.network.tile_loads import LAST_TILE, ComputeLoad, Counts, Floats

_INTERVALS: Final = (40, 16, 8, 5, 3, 2)
"""Number of intervals of a map, by the number of live maps. Each live map is an axis of the cost array."""

_CHUNK: Final = 16
"""Number of classes of tile sizes that are priced at once in all states, cheapest first."""
_MOST_PAIRS: Final = 1 << 25
"""Limit on the pairs of a state and a class that operators of tiled groups price, about 8 seconds.

Of groups that are looked at later only the repeated weight reads count.
"""
_FEWEST_PAIRS: Final = 1 << 10
"""Pairs whose prices take as long as those of one pair."""
_FEW_LOADS: Final = 4
"""Number of operators of a group, those with the most bits inside it, that are examined first."""
_ANY_NUMBER: Final = 2**62
_MOST_LIVE: Final = 8
"""Number of live maps up to which the bits of each are told apart. Maps that are live with more cost nothing."""
_MOST_BESIDE: Final = 3
"""Number of live maps up to which the readers of each of them get different bits from DRAM."""


@dataclass(frozen=True, slots=True)
class RoomPricing:
    """The price of a weight bit that is read again, and of a bit of each map (by name) that passes DRAM.

    `reads` are the parts of the prices of maps that each further read of a bit costs again.
    """

    weight: Fraction
    maps: Mapping[str, Fraction]
    reads: Mapping[str, Fraction]

    def in_weights(self) -> RoomPricing:
        """Return the pricing in units of the price of a weight bit, unchanged if that is 0."""
        if not self.weight:
            return self
        maps, reads = (
            {name: price / self.weight for name, price in prices.items()} for prices in (self.maps, self.reads)
        )
        return RoomPricing(Fraction(1), maps, reads)


@dataclass(frozen=True, slots=True)
class Passing:
    """Intervals of the number of a map's bits that pass DRAM, from `first` to `last`. In the last interval, all pass.

    `seen` maps each reader to the bits that it sees.
    """

    first: Floats
    last: Floats
    seen: Mapping[int, int]

    @classmethod
    def of(cls, most: int, seen: Mapping[int, int], room_bits: int, intervals: int) -> Passing:
        """Return the intervals of a map with at most `most` bits seen. Capacity limits are interval boundaries."""
        begins = {0, most, *(max(bits - room_bits, 0) for bits in (most, *seen.values()))}
        begins |= {-(-most * at // intervals) for at in range(1, intervals)}
        first = sorted(begins)
        last = [*(one - 1 for one in first[1:]), most]
        return cls(np.array(first, float), np.array(last, float), seen)

    def waiting_for(self, prefix: Prefix) -> int:
        """Return the most bits that a reader outside the prefix sees."""
        return max((bits for reader, bits in self.seen.items() if not prefix >> reader & 1), default=0)

    def staying(self, prefix: Prefix) -> Floats:
        """Return the bits that wait on the chip after the prefix, by interval: those that pass DRAM for no reader."""
        found: Floats = np.maximum(self.waiting_for(prefix) - self.last, 0.0)
        return found

    def whole(self, seen: int) -> Floats:
        """Return by interval the bits on the chip for an operator that sees `seen` in one Compute.

        These are all bits, or none if all may be streamed from or to DRAM.
        """
        found: Floats = np.where(self.last < seen, float(seen), 0.0)
        return found


@dataclass(frozen=True, slots=True)
class _Arc:
    """A group as an arc between two prefixes.

    Maps stay live `through` it, are read and stay live (`again`), are `read` last in it, or are `written` by it. Those
    in `again` have two axes, for the bits that this group and the next reader get from DRAM.
    """

    before: Prefix
    prefix: Prefix
    through: tuple[str, ...]
    again: tuple[str, ...]
    read: tuple[str, ...]
    written: tuple[str, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.through, *self.again, *map(_next, self.again), *self.read, *self.written)

    @property
    def ending(self) -> tuple[str, ...]:
        """The axes that do not belong to the state after the group."""
        return (*self.again, *self.read)

    @property
    def left(self) -> tuple[str, ...]:
        """The maps that are live after the group, in the order of their axes."""
        return (*self.through, *self.again, *self.written)


def _next(name: str) -> str:
    """Return the name of a map's axis for its next reader."""
    return f"{name}\n"


@dataclass(slots=True)
class CutPaths:
    """Shortest paths over the prefixes of a network. Memories for maps have `room_bits`, the largest `largest_bits`."""

    network: CutNetwork
    room_bits: int
    largest_bits: int
    _waiting: dict[Prefix, tuple[str, ...]] = field(default_factory=dict, init=False)
    _reading: dict[str, Prefix] = field(default_factory=dict, init=False)
    """Map each map to its readers, if there are several that see the same bits and may get other ones from DRAM."""
    _passing: dict[str, Passing] = field(default_factory=dict, init=False)
    _known: dict[int, _PricedGroup] = field(default_factory=dict, init=False)
    _pairs: int = field(default=0, init=False)
    """Pairs of a state and a class that operators of tiled groups have priced."""
    _found: list[tuple[RoomPricing, float]] = field(default_factory=list, init=False)

    def least_price(self, pricing: RoomPricing) -> float:
        """Return a lower bound on the cost, or 0 if there are too many prefixes or groups."""
        plain = pricing.in_weights()
        price = next((price for other, price in self._found if other == plain), None)
        if price is None:
            price = self._least_price(plain)
            self._found.append((plain, price))
        return price * float(pricing.weight or 1)

    def _look_at(self, prefixes: Sequence[Prefix]) -> None:
        """Find the live maps after each prefix, and their intervals."""
        seen: dict[str, list[int]] = {}
        for one in self.network.operators:
            for name, bits in one.map_bits.items():
                seen.setdefault(name, []).append(bits)
        counted = {name: self.network.producer[name] for name in seen}
        readers = {name: sum(1 << at for at in self.network.readers[name]) for name in seen}
        beside = dict.fromkeys(seen, 1)
        for prefix in prefixes:
            waiting = tuple(name for name, at in counted.items() if prefix >> at & 1 and readers[name] & ~prefix)
            self._waiting[prefix] = waiting
            for name in waiting:
                beside[name] = max(beside[name], len(waiting))
        for name, every in seen.items():
            read = [self.network.operators[at].map_bits.get(name, 0) for at in self.network.readers[name]]
            intervals = _INTERVALS[min(beside[name], len(_INTERVALS)) - 1]
            seen_by = dict(zip(self.network.readers[name], read, strict=True))
            passing = Passing.of(max(every), seen_by, self.room_bits, intervals)
            if beside[name] > _MOST_LIVE:
                passing = Passing(np.zeros(1), np.full(1, float(max(every))), seen_by)
            self._passing |= {name: passing, _next(name): passing}
            is_seen_alike = min(read) == max(every) > 0
            if is_seen_alike and len(read) > 1 and beside[name] <= _MOST_BESIDE:
                self._reading[name] = readers[name]

    def _groups(self, pricing: RoomPricing) -> list[list[TiledGroup]] | None:
        """Return the tiled groups that end with each operator, without those whose weights cost too much.

        Returns None if there are more than MOST_GROUPS.
        """
        found, count = list[list[TiledGroup]](), 0
        for at in range(len(self.network.operators)):
            own = list[TiledGroup]()
            for group in self.network.groups_in_tiles(at, lambda group: self._most_weights(group, pricing)):
                own.append(group)
                count += 1
                if count > MOST_GROUPS:
                    return None
            found.append(own)
        return found

    def _groups_in_slices(self) -> list[list[Prefix]] | None:
        """Return the groups in slices of channels that end with each operator; None if there are too many."""
        found, count = list[list[Prefix]](), 0
        for at in range(len(self.network.operators)):
            found.append(list(islice(self.network.groups_in_slices(at), MOST_GROUPS + 1 - count)))
            count += len(found[-1])
            if count > MOST_GROUPS:
                return None
        return found

    def _most_weights(self, group: Prefix, pricing: RoomPricing) -> int:
        """Return the weight bits whose price equals that of all maps of a group passing DRAM.

        Where more weights are read again, the group's operators may as well run whole, with all operands streamed.
        """
        names = {name for at in members(group) for name in self.network.operators[at].map_bits}
        paid = sum((pricing.maps[name] * int(self._passing[name].first[-1]) for name in names), Fraction(0))
        return int(paid / pricing.weight) if pricing.weight else _ANY_NUMBER

    def _least_price(self, pricing: RoomPricing) -> float:
        prefixes = self.network.prefixes()
        if prefixes is None:
            return 0.0
        self._look_at(prefixes)
        groups, sliced = self._groups(pricing), self._groups_in_slices()
        if groups is None or sliced is None:
            return 0.0
        self._known.clear()
        self._pairs = 0
        paid = {0: np.zeros(())}
        for prefix in prefixes[1:]:
            best = np.full([len(self._passing[name].first) for name in self._waiting[prefix]], inf)
            ends = [at for at in members(prefix) if self.network.is_last(at, prefix)]
            for at in ends:
                arc = self._arc(prefix ^ 1 << at, prefix)
                self._improve(best, arc, paid[arc.before], self._whole(arc, at), pricing)
            for last, slices in ((at, one) for at in ends for one in sliced[at] if one & ~prefix == 0):
                arc = self._arc(prefix ^ slices, prefix)
                self._improve(best, arc, paid[arc.before], self._in_slices(arc, slices, last, pricing), pricing)
            for group in (one for at in ends for one in groups[at] if one.operators & ~prefix == 0):
                arc = self._arc(prefix ^ group.operators, prefix)
                self._improve_in_tiles(best, arc, paid[arc.before], group, pricing)
            waiting = self._waiting[prefix]
            paid[prefix] = np.where(self._staying(waiting, waiting, prefix) <= self.room_bits, best, inf)
        return float(paid[prefixes[-1]].min())

    def _arc(self, before: Prefix, prefix: Prefix) -> _Arc:
        old, new = self._waiting[before], self._waiting[prefix]
        stay = [name for name in old if name in new]
        again = tuple(name for name in stay if self._reading.get(name, 0) & prefix & ~before)
        return _Arc(
            before,
            prefix,
            tuple(name for name in stay if name not in again),
            again,
            tuple(name for name in old if name not in new),
            tuple(name for name in new if name not in old),
        )

    def _improve(self, best: Floats, arc: _Arc, paid: Floats, cost: Floats, pricing: RoomPricing) -> None:
        """Update the best costs with those of a path that ends with a group."""
        np.minimum(best, self._with(arc, paid, cost, pricing), out=best)

    def _with(self, arc: _Arc, paid: Floats, cost: Floats, pricing: RoomPricing) -> Floats:
        """Return the costs after a group. `cost` is a number or an array with the axes of the arc."""
        total = self._at_arc(arc, paid, pricing) + cost
        ended = np.asarray(total.min(axis=tuple(arc.axes.index(name) for name in arc.ending)))
        return ended.transpose([arc.left.index(name) for name in self._waiting[arc.prefix]])

    def _at_arc(self, arc: _Arc, paid: Floats, pricing: RoomPricing) -> Floats:
        """Return the costs before a group with the axes of the arc, and those of bits that pass DRAM from then on.

        Bits of a map that only the second group that reads it gets from DRAM are written there, too.
        """
        old = self._waiting[arc.before]
        size = {name: len(self._passing[name].first) for name in old}
        total = paid.transpose([old.index(name) for name in (*arc.through, *arc.again, *arc.read)])
        total = total.reshape([size.get(name, 1) for name in arc.axes])
        for name in arc.written:
            total = total + float(pricing.maps[name]) * self._along(arc.axes, name, self._passing[name].first)
        for name in arc.again:
            first = self._along(arc.axes, _next(name), self._passing[name].first)
            total = total + float(pricing.reads[name]) * first
            if not self._reading[name] & arc.before:
                last = self._along(arc.axes, name, self._passing[name].last)
                total = total + float(pricing.maps[name] - pricing.reads[name]) * np.maximum(first - last, 0.0)
        return total

    def _along(self, axes: Sequence[str], name: str, numbers: Floats) -> Floats:
        """Return an array by interval of one map, reshaped to lie along the map's axis."""
        return numbers.reshape([-1 if one == name else 1 for one in axes])

    def _staying(self, axes: Sequence[str], names: Sequence[str], prefix: Prefix) -> Floats:
        """Return the bits on the chip of live maps after a prefix, by their intervals."""
        return self._total(axes, {name: self._passing[name].staying(prefix) for name in names})

    def _total(self, axes: Sequence[str], numbers: Mapping[str, Floats]) -> Floats:
        found = np.zeros([1] * len(axes))
        for name, each in numbers.items():
            found = found + self._along(axes, name, each)
        return found

    def _throughout(self, arc: _Arc, but: Collection[str] = ()) -> Floats:
        """Return the bits on the chip during a whole group: of live maps that no operator writes or reads last in it.

        Bits of a map that neither the group nor the next reader gets from DRAM stay there.
        """
        found = self._staying(arc.axes, [name for name in arc.through if name not in but], arc.prefix)
        for name in arc.again:
            if name not in but:
                passing = self._passing[name]
                missing = (self._along(arc.axes, each, passing.last) for each in (name, _next(name)))
                found = found + np.maximum(passing.waiting_for(arc.prefix) - sum(missing), 0.0)
        return found

    def _whole(self, arc: _Arc, at: int) -> Floats:
        """Return the cost of an operator that runs whole: 0 if its maps and the live maps fit, else infinity."""
        operator = self.network.operators[at]
        running = operator.running_bits
        own = {name: self._passing[name].whole(bits) for name, bits in running.items() if name in arc.axes}
        taken = self._throughout(arc, operator.map_bits)
        for name, each in own.items():
            waiting = self._passing[name].staying(arc.prefix)
            staying = self._along(arc.axes, _next(name), waiting) if name in arc.again else 0.0
            taken = taken + np.maximum(self._along(arc.axes, name, each), staying)
        fits = taken <= self.room_bits
        for name, bits in running.items():
            if bits > self.largest_bits and name in own:
                fits = fits & (self._along(arc.axes, name, own[name]) == 0)
        return np.where(fits, 0.0, inf)

    def _in_slices(self, arc: _Arc, group: Prefix, last: int, pricing: RoomPricing) -> Floats:
        """Return the cost of a group in slices of channels of the output of operator `last`, or infinity.

        Each weight is read once. In the last slice, an operator that needs all channels of an input has the input on
        the chip, or streams it. Then the earlier slices of the output wait there. Its own slice, which has the same
        share of the channels as the last slice of the output, is written next to them, or passes DRAM. An input that is
        streamed there is read at least twice if no slice has it on the chip, or if it comes from DRAM at first.
        """
        operators, found, waits = self.network.operators, np.zeros(()), self._throughout(arc)
        (output,) = operators[last].outputs
        written = {output: self._passing[output].staying(arc.prefix)} if output in arc.written else {}
        for at in members(group):
            one, (own,) = operators[at], operators[at].outputs
            of_output, of_own = operators[last].map_bits.get(output, 0), one.map_bits.get(own, 0)
            staying = self._total(
                arc.axes, {name: np.maximum(bits - max(of_output - of_own, 0), 0.0) for name, bits in written.items()}
            )
            price = None if at == last else float(pricing.maps.get(own, 0))
            inputs = {name: one.map_bits[name] for name in one.whole_inputs or () if name in one.map_bits}
            seen = {**inputs, **one.outside_bits}
            size = sum(seen.values())
            again = sum(float(pricing.reads.get(name, 0)) * bits for name, bits in seen.items())
            others = self._throughout(arc, inputs) + size
            fits = others <= self.room_bits
            fits = fits & (max(seen.values(), default=0) <= self.largest_bits)
            is_streamed = np.ones((), bool)
            for name, bits in inputs.items():
                is_streamed = is_streamed & (self._along(arc.axes, name, self._passing[name].whole(bits)) == 0)
            kept = np.where(fits, self._paid_beside(others + staying, price), inf)
            streamed = self._paid_beside(waits + staying, price)
            streamed = streamed + np.where(fits & (not one.outside_bits), 0.0, again)
            found = found + np.where(is_streamed, np.minimum(streamed, kept), kept)
        return np.asarray(np.where(waits > self.room_bits, inf, found))

    def _paid_beside(self, bits: Floats, price: float | None) -> Floats:
        """Return the cost of the bits without room: they pass DRAM at a price, or have to stay if it is None."""
        missing = np.maximum(bits - self.room_bits, 0.0)
        return np.where(missing > 0, inf, 0.0) if price is None else price * missing

    def _priced(self, group: TiledGroup, limit: float, pricing: RoomPricing) -> _PricedGroup | None:
        """Return a group's prices, and its classes in ascending order of the cost if all other maps pass DRAM.

        Returns None if it costs at least `limit`. Few operators of the group often show this.
        """
        known = self._known.get(id(group))
        for most in (_FEW_LOADS, MOST_LOADS):
            if known is None or len(known.loads) < most < group.operators.bit_count():
                known = self._known[id(group)] = self._priced_by(group, most, pricing)
            if known.least[0] >= limit:
                return None
        return known

    def _priced_by(self, group: TiledGroup, most: int, pricing: RoomPricing) -> _PricedGroup:
        loads = group.loads(most)
        prices = [self._prices(loads, pricing, is_fair=one) for one in (True, False)]
        weights: Floats = float(pricing.weight) * group.weight_bits.astype(np.float64)
        found = _PricedGroup(group, loads, prices, np.arange(len(weights)), weights)
        pairs = _Pairs(found.order, np.full(len(weights), float(self.room_bits)), {})
        least = weights + self._paid_inside(found, pairs, np.full(len(weights), inf), pricing)
        order = np.argsort(least, kind="stable")
        return _PricedGroup(group, loads, prices, order, least[order])

    def _improve_in_tiles(self, best: Floats, arc: _Arc, paid: Floats, group: TiledGroup, pricing: RoomPricing) -> None:
        """Update the best costs with those of a path that ends with a tiled group.

        The group costs repeated weight reads, and inner maps that pass DRAM. Only states that may improve count.
        """
        # The state in which all live maps pass DRAM has the highest cost after the prefix.
        dearest, before = float(best.flat[-1]), float(paid.min())
        least = float(pricing.weight) * float(group.weight_bits[0])
        if before + least >= dearest:
            return
        if self._pairs > _MOST_PAIRS:
            self._improve(best, arc, paid, np.full((), least), pricing)
            return
        priced = self._priced(group, dearest - before, pricing)
        if priced is None:
            return
        left = self._waiting[arc.prefix]
        target = best.transpose([left.index(name) for name in arc.left])
        total = self._at_arc(arc, paid, pricing)
        along = [len(self._passing[name].first) for name in arc.axes]
        limits = np.minimum(target, dearest).reshape(
            [1 if name in arc.ending else size for name, size in zip(arc.axes, along, strict=True)]
        )
        shape = tuple(along)
        chosen = np.flatnonzero(np.broadcast_to(total + priced.least[0] < limits, shape))
        if not len(chosen):
            return
        states = np.unravel_index(chosen, shape) if shape else ()
        number = dict(zip(arc.axes, states, strict=True))
        totals, bests = (np.broadcast_to(one, shape)[states].reshape(-1) for one in (total, limits))
        room = self.room_bits - np.broadcast_to(self._throughout(arc), shape)[states].reshape(-1)
        passing = {name: self._passing[name].last[number[name]] for name in (*arc.read, *arc.written)}
        for begin in range(0, len(priced.order), _CHUNK):
            chunk = slice(begin, begin + _CHUNK)
            at, one = np.nonzero(totals[:, None] + priced.least[chunk] < bests[:, None])
            if not len(at):
                break
            classes = priced.order[chunk][one]
            pairs = _Pairs(classes, room[at], {name: each[at] for name, each in passing.items()})
            read = totals[at] + float(pricing.weight) * group.weight_bits[classes]
            np.minimum.at(bests, at, read + self._paid_inside(priced, pairs, bests[at] - read, pricing))
        if target.ndim:
            after = (*arc.through, *map(_next, arc.again), *arc.written)
            np.minimum.at(target, tuple(number[name] for name in after), bests)
        else:
            np.minimum(target, bests.min(), out=target)

    def _paid_inside(self, priced: _PricedGroup, pairs: _Pairs, limits: Floats, pricing: RoomPricing) -> Floats:
        """Return the cost of inner maps that pass DRAM, by pair of state and class, or infinity from a limit on.

        The cost is infinite, too, if other maps have no room. Most pairs reach their limit with the first operators.
        """
        found, alive = np.full(len(limits), inf), np.arange(len(limits))
        paid = [np.zeros(len(limits)) for _ in priced.prices]
        for at, load in priced.loads.items():
            self._pairs += max(len(alive), _FEWEST_PAIRS)
            slack = pairs.slack(load)
            has_room = slack.min(axis=0) >= 0
            alive, pairs, paid = alive[has_room], pairs.chosen(has_room), [one[has_room] for one in paid]
            slack = slack[:, has_room]
            each = (
                self._paid_spread(priced, at, pairs, slack, pricing)
                if load.is_spread
                else [
                    pairs.paid(load, slack, one.own[at], one.waiting[at], is_once=one.is_once) for one in priced.prices
                ]
            )
            paid = [one + more for one, more in zip(paid, each, strict=True)]
            stays = np.maximum.reduce(paid) < limits[alive]
            alive, pairs, paid = alive[stays], pairs.chosen(stays), [one[stays] for one in paid]
        found[alive] = np.maximum.reduce(paid)
        return found

    def _paid_spread(
        self, priced: _PricedGroup, at: int, pairs: _Pairs, slack: Floats, pricing: RoomPricing
    ) -> list[Floats]:
        """Return the cost, at each price, of an operator with known bits only for all Computes together."""
        load, classes = priced.loads[at], pairs.classes
        most = load.computes[classes, 0]
        bits = sum((each[classes, 0] for each in load.own.values()), most * pairs.room - slack[0])
        computes = np.minimum(priced.group.computes[at][classes], most), most
        again = self._again(at, pricing)
        return [
            _for_room(bits, pairs.room, computes, (min(one.own[at].values(), default=0.0), again))
            for one in priced.prices
        ]

    def _prices(self, loads: Mapping[int, ComputeLoad], pricing: RoomPricing, *, is_fair: bool) -> _Prices:
        """Return the shares of the price of an inner map's bit that passes DRAM, by operator that sees it.

        With `is_fair`, the shares are equal, and those of all but the writer are at most the price of a read, which a
        bit may cost in several tiles. Otherwise operators with the highest potential payment take all. They count a bit
        that they read once, while those for which it waits may pay at most a read.
        """
        operators = self.network.operators
        seeing = Counter(name for load in loads.values() for name in (*load.own, *load.waiting))
        left = {name: float(pricing.maps[name]) for name in seeing}
        read = {name: float(pricing.reads[name]) for name in seeing}
        if is_fair:
            fair = {name: min(left[name] / many, read[name] / max(many - 1, 1)) for name, many in seeing.items()}
            own: dict[int, Mapping[str, float]] = {
                at: {
                    name: left[name] - (seeing[name] - 1) * fair[name] if name in operators[at].outputs else fair[name]
                    for name in load.own
                }
                for at, load in loads.items()
            }
            waiting: dict[int, Mapping[str, float]] = {
                at: {name: fair[name] for name in load.waiting} for at, load in loads.items()
            }
            return _Prices(own, waiting)

        def would_pay(at: int) -> float:
            load = loads[at]
            bits = sum([*load.once.values(), *load.waiting.values()], -self.room_bits * load.computes)
            return float(np.maximum(bits, 0).max(axis=-1).mean())

        found = _Prices({}, {}, is_once=True)
        for at in sorted(loads, key=would_pay, reverse=True):
            found.own[at] = {name: left[name] for name in loads[at].own}
            found.waiting[at] = {name: min(left[name], read[name]) for name in loads[at].waiting}
            for name, price in found.waiting[at].items():
                read[name] -= price
            for name, price in (*found.own[at].items(), *found.waiting[at].items()):
                left[name] -= price
        return found

    def _again(self, at: int, pricing: RoomPricing) -> float:
        """Return the price of a further Compute of an operator."""
        operator = self.network.operators[at]
        if operator.is_whole:
            return inf
        return 0.0 if self.network.kept_weight_bits else float(pricing.weight) * operator.weight_bits


@dataclass(frozen=True, slots=True)
class _Prices:
    """Prices of bits that pass DRAM, by operator and by map that it reads or writes itself, or that waits.

    With `is_once`, bits that an operator reads in several tiles count once.
    """

    own: dict[int, Mapping[str, float]]
    waiting: dict[int, Mapping[str, float]]
    is_once: bool = False


@dataclass(frozen=True, slots=True)
class _PricedGroup:
    """The needs of a group's operators, choices of prices, and its classes in ascending order of their `least` cost."""

    group: TiledGroup
    loads: Mapping[int, ComputeLoad]
    prices: Sequence[_Prices]
    order: Counts
    least: Floats


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs of a state and a class of tile sizes: by pair the class, the free bits, and the passing bits of maps."""

    classes: Counts
    room: Floats
    passing: Mapping[str, Floats]

    def chosen(self, stays: NDArray[np.bool_]) -> _Pairs:
        """Return some of the pairs."""
        return _Pairs(self.classes[stays], self.room[stays], {name: one[stays] for name, one in self.passing.items()})

    def slack(self, load: ComputeLoad) -> Floats:
        """Return the capacity left for inner maps in an operator's Computes, by set of tiles and pair.

        The bits of edge maps that are on the chip are taken off.
        """
        computes = load.computes.T[:, self.classes]
        found = computes * self.room
        for name, passing in self.passing.items():
            if (edge := load.edges.get(name)) is None:
                continue
            bits = edge.bits.T[:, self.classes] - (1 if load.is_spread else computes) * passing
            np.maximum(bits, 0.0, out=bits)
            if edge.band is not None and edge.least is not None:  # a Compute has all of its band on the chip, or none
                kept = np.where(passing < edge.least[self.classes], edge.band[self.classes], 0.0)
                bits[LAST_TILE] = np.maximum(bits[LAST_TILE], kept)
            found -= bits
        return found

    def paid(
        self,
        load: ComputeLoad,
        slack: Floats,
        prices: Mapping[str, float],
        waiting: Mapping[str, float],
        *,
        is_once: bool,
    ) -> Floats:
        """Return the least cost of inner maps that pass DRAM.

        In the last tile, each of its own bands is on the chip as a whole or not at all.
        """
        own = {name: bits.T[:, self.classes] for name, bits in (load.once if is_once else load.own).items()}
        others = [(waiting[name], bits.T[:, self.classes]) for name, bits in load.waiting.items()]
        if not own and not others:
            return np.zeros(len(self.classes))
        priced = [*((prices[name], bits) for name, bits in own.items()), *others]
        spread = _filled(sum(bits for _, bits in priced) - slack, priced).max(axis=0)
        first, others = slack[LAST_TILE], [(price, bits[LAST_TILE]) for price, bits in others]
        bands = [(prices[name], bits[LAST_TILE]) for name, bits in own.items()]
        found = np.full(len(first), inf)
        waits = sum((bits for _, bits in others), np.zeros(1))
        for chosen in product((False, True), repeat=len(bands)):
            staying = sum((bits for (_, bits), stays in zip(bands, chosen, strict=True) if stays), np.zeros(1))
            paid = sum((price * bits for (price, bits), stays in zip(bands, chosen, strict=True) if not stays), 0.0)
            more = paid + _filled(staying + waits - first, others)
            found = np.minimum(found, np.where(staying <= first, more, inf))
        return np.asarray(np.maximum(spread, found))


def _filled(missing: Floats, priced: Sequence[tuple[float, Floats]]) -> Floats:
    """Return the least cost of the missing bits, given prices of bits and the number of bits at each price."""
    paid, cheaper, last = np.zeros(1), np.zeros(1), 0.0
    for price, bits in sorted(priced, key=lambda one: one[0]):
        if price > last:
            paid = paid + (price - last) * np.maximum(missing - cheaper, 0.0)
        last, cheaper = price, cheaper + bits
    return paid


def _for_room(load: Floats, room: Floats, computes: tuple[Counts, Counts | int], prices: tuple[float, float]) -> Floats:
    """Return the least cost for an operator to fit its load in the room of its Computes.

    `computes` are the number of Computes without a price and the maximum number. `prices` are those of a bit that
    passes DRAM and of a further Compute.
    """
    least, most = np.minimum(*computes), computes[1]
    passing, again = prices
    beyond = np.maximum(load - room * most, 0.0)
    missing = np.maximum(load - room * least, 0.0) - beyond
    full = np.floor(
        np.divide(missing, room, out=np.zeros(np.broadcast_shapes(missing.shape, room.shape)), where=room > 0)
    )
    part = missing - full * room
    found: Floats = passing * beyond + full * np.minimum(again, passing * room) + np.minimum(again, passing * part)
    return found
