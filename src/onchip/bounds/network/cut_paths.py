"""Lower bound on the cost of limited capacity: a shortest path over the cuts between groups of operators.

A state is a prefix of operators that have run, and for each live feature map the number of bits that pass DRAM. These
numbers form intervals: the cost is that of the first number of an interval, and the room that of the last.
docs/schedule.md, section 8, proves that no schedule costs less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.bounds.network.cut_groups import MOST_GROUPS, Counts, CutNetwork, Prefix, TiledGroup, members

Floats: TypeAlias = NDArray[np.float64]

_INTERVALS: Final = (16, 8, 6, 4, 3, 2)
"""Number of intervals of a map, by the number of live maps. Each live map is an axis of the cost array."""

_ANY_NUMBER: Final = 2**62


@dataclass(frozen=True, slots=True)
class RoomPricing:
    """The price of a weight bit that is read again, and of a bit of each map (by name) that passes DRAM."""

    weight: Fraction
    maps: Mapping[str, Fraction]

    def in_weights(self) -> RoomPricing:
        """Return the pricing in units of the price of a weight bit, unchanged if that is 0."""
        if not self.weight:
            return self
        return RoomPricing(Fraction(1), {name: price / self.weight for name, price in self.maps.items()})


@dataclass(frozen=True, slots=True)
class Passing:
    """Intervals of the number of a map's bits that pass DRAM, from `first` to `last`. In the last interval, all pass.

    Every reader sees at least `least` bits of the map.
    """

    first: Floats
    last: Floats
    least: int

    @classmethod
    def of(cls, most: int, least: int, room_bits: int, intervals: int) -> Passing:
        """Return the intervals of a map with at most `most` bits seen. Capacity limits are interval boundaries."""
        begins = {0, max(most - room_bits, 0), max(least - room_bits, 0), most}
        begins |= {-(-most * at // intervals) for at in range(1, intervals)}
        first = sorted(begins)
        last = [*(one - 1 for one in first[1:]), most]
        return cls(np.array(first, float), np.array(last, float), least)

    @property
    def staying(self) -> Floats:
        """The least bits that wait on the chip for a reader, by interval."""
        return self.beside(self.least)

    def beside(self, seen: int) -> Floats:
        """Return by interval the least bits on the chip for an operator that sees `seen` bits in several Computes."""
        found: Floats = np.maximum(seen - self.last, 0.0)
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

    Maps stay live `through` it, are `read` last in it, or are `written` by it.
    """

    before: Prefix
    prefix: Prefix
    through: tuple[str, ...]
    read: tuple[str, ...]
    written: tuple[str, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.through, *self.read, *self.written)


@dataclass(slots=True)
class CutPaths:
    """Shortest paths over the prefixes of a network. Memories for maps have `room_bits`, the largest `largest_bits`."""

    network: CutNetwork
    room_bits: int
    largest_bits: int
    _waiting: dict[Prefix, tuple[str, ...]] = field(default_factory=dict, init=False)
    _passing: dict[str, Passing] = field(default_factory=dict, init=False)

    def least_prices(self, pricings: Sequence[RoomPricing]) -> list[float]:
        """Return a lower bound on the cost at each pricing, or 0 if there are too many prefixes or groups."""
        nothing = [0.0] * len(pricings)
        prefixes = self.network.prefixes()
        if prefixes is None:
            return nothing
        self._look_at(prefixes)
        groups = self._groups(pricings)
        if groups is None:
            return nothing
        known: list[tuple[RoomPricing, float]] = []
        found = []
        for one in pricings:
            plain = one.in_weights()
            price = next((price for other, price in known if other == plain), None)
            if price is None:
                price = self._least_price(prefixes, groups, plain)
                known.append((plain, price))
            found.append(price * float(one.weight or 1))
        return found

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
            self._passing[name] = Passing.of(max(every), min(read), self.room_bits, intervals)

    def _groups(self, pricings: Sequence[RoomPricing]) -> list[list[TiledGroup]] | None:
        """Return the tiled groups that end with each operator, without those whose weights cost too much.

        Returns None if there are more than MOST_GROUPS.
        """
        most_bits = max(map(self._most_weights, pricings))
        found, count = list[list[TiledGroup]](), 0
        for at in range(len(self.network.operators)):
            own = list[TiledGroup]()
            for group in self.network.groups_in_tiles(at, most_bits):
                own.append(group)
                count += 1
                if count > MOST_GROUPS:
                    return None
            found.append(own)
        return found

    def _most_weights(self, pricing: RoomPricing) -> int:
        """Return the weight bits whose price equals that of all maps passing DRAM, an upper bound on useful rereads."""
        bits = {name: int(one.first[-1]) for name, one in self._passing.items()}
        paid = sum((pricing.maps[name] * size for name, size in bits.items()), Fraction(0))
        return int(paid / pricing.weight) if pricing.weight else _ANY_NUMBER

    def _least_price(
        self, prefixes: Sequence[Prefix], groups: Sequence[Sequence[TiledGroup]], pricing: RoomPricing
    ) -> float:
        paid = {0: np.zeros(())}
        for prefix in prefixes[1:]:
            best = np.full([len(self._passing[name].first) for name in self._waiting[prefix]], inf)
            ends = [at for at in members(prefix) if self.network.is_last(at, prefix)]
            for at in ends:
                arc = self._arc(prefix ^ 1 << at, prefix)
                self._improve(best, arc, paid[arc.before], self._whole(arc, at), pricing)
            for group in (one for at in ends for one in groups[at] if one.operators & ~prefix == 0):
                arc = self._arc(prefix ^ group.operators, prefix)
                # The state in which all live maps pass DRAM has the highest cost after the prefix.
                worth = group.worth(float(best.flat[-1] - paid[arc.before].min()), float(pricing.weight))
                if worth is None:
                    continue
                least = np.array(float(pricing.weight) * group.weight_bits[0])
                if np.any(self._with(arc, paid[arc.before], least, pricing) < np.minimum(best, best.flat[-1])):
                    self._improve(best, arc, paid[arc.before], self._in_tiles(arc, worth, pricing), pricing)
            paid[prefix] = np.where(self._staying(self._waiting[prefix]) <= self.room_bits, best, inf)
        return float(paid[prefixes[-1]].min())

    def _arc(self, before: Prefix, prefix: Prefix) -> _Arc:
        old, new = self._waiting[before], self._waiting[prefix]
        return _Arc(
            before,
            prefix,
            tuple(name for name in old if name in new),
            tuple(name for name in old if name not in new),
            tuple(name for name in new if name not in old),
        )

    def _improve(self, best: Floats, arc: _Arc, paid: Floats, cost: Floats, pricing: RoomPricing) -> None:
        """Update the best costs with those of a path that ends with a group."""
        np.minimum(best, self._with(arc, paid, cost, pricing), out=best)

    def _with(self, arc: _Arc, paid: Floats, cost: Floats, pricing: RoomPricing) -> Floats:
        """Return the costs after a group. `cost` is a number or an array with the axes of the arc."""
        old = self._waiting[arc.before]
        order = [old.index(name) for name in (*arc.through, *arc.read)]
        total = paid.transpose(order).reshape([*(paid.shape[at] for at in order), *(1 for _ in arc.written)]) + cost
        first = len(arc.through)
        total = total.min(axis=tuple(range(first, first + len(arc.read)))) if arc.read else total
        left = (*arc.through, *arc.written)
        for name in arc.written:
            total = total + float(pricing.maps[name]) * self._along(left, name, self._passing[name].first)
        return total.transpose([left.index(name) for name in self._waiting[arc.prefix]])

    def _along(self, axes: Sequence[str], name: str, numbers: Floats) -> Floats:
        """Return an array by interval of one map, reshaped to lie along the map's axis."""
        return numbers.reshape([-1 if one == name else 1 for one in axes])

    def _staying(self, names: Sequence[str]) -> Floats:
        """Return the bits on the chip of live maps, by their intervals."""
        return self._total(names, {name: self._passing[name].staying for name in names})

    def _total(self, axes: Sequence[str], numbers: Mapping[str, Floats]) -> Floats:
        found = np.zeros([1] * len(axes))
        for name, each in numbers.items():
            found = found + self._along(axes, name, each)
        return found

    def _whole(self, arc: _Arc, at: int) -> Floats:
        """Return the cost of an operator that runs whole: 0 if its maps and the live maps fit, else infinity."""
        operator = self.network.operators[at]
        waits = {name: self._passing[name].staying for name in arc.through if name not in operator.map_bits}
        own = {name: self._passing[name].whole(bits) for name, bits in operator.map_bits.items() if name in arc.axes}
        fits = self._total(arc.axes, {**waits, **own}) <= self.room_bits
        for name, bits in operator.map_bits.items():
            if bits > self.largest_bits and name in own:
                fits = fits & (self._along(arc.axes, name, own[name]) == 0)
        return np.where(fits, 0.0, inf)

    def _in_tiles(self, arc: _Arc, group: TiledGroup, pricing: RoomPricing) -> Floats:
        """Return the cost of a tiled group: repeated weight reads, and inner maps that pass DRAM.

        Internally, the axis of tile classes follows those of the maps. The result is the minimum over it.
        """
        waits = {name: self._passing[name].staying for name in arc.through}
        room = (self.room_bits - self._total(arc.axes, waits))[..., None]
        inside = {at: self.network.operators[at] for at in members(group.operators)}
        outer = set(arc.axes)
        fair, greedy = (self._prices(list(inside), outer, pricing, is_fair=one) for one in (True, False))
        nothing = np.zeros(len(group.tiles))
        paid, paid_greedily = nothing, nothing
        for at, one in inside.items():
            edge = {
                name: self._passing[name].beside(bits)
                for name, bits in one.map_bits.items()
                if name in arc.read or name in arc.written
            }
            taken = self._total(arc.axes, edge)[..., None]
            load = sum(bits for name, bits in one.map_bits.items() if name not in outer) + taken
            most = 1 if one.is_whole else group.tiles * one.computes
            computes, again = (group.computes[at], most), self._again(at, pricing)
            paid = paid + np.where(taken > room * most, inf, _for_room(load, room, computes, (fair[at], again)))
            paid_greedily = paid_greedily + _for_room(load, room, computes, (greedy[at], again))
        paid = np.maximum(paid, paid_greedily) + float(pricing.weight) * group.weight_bits
        found: Floats = paid.min(axis=-1)
        return found

    def _prices(
        self, inside: Sequence[int], outer: Set[str], pricing: RoomPricing, *, is_fair: bool
    ) -> Mapping[int, float]:
        """Return for each operator of a group its share of the price of a bit that passes DRAM.

        Operators that see a map share the price of its bits equally if `is_fair`. Otherwise operators with the highest
        potential payment take it first.
        """
        seeing = Counter(name for at in inside for name in self.network.operators[at].map_bits if name not in outer)
        left = {name: float(pricing.maps[name]) for name in seeing}

        def price(at: int) -> float:
            own = [name for name in self.network.operators[at].map_bits if name in left]
            return min((left[name] / seeing[name] if is_fair else left[name] for name in own), default=0.0)

        def would_pay(at: int) -> float:
            missing = max(sum(self.network.operators[at].map_bits.values()) - self.room_bits, 0)
            return min(price(at) * missing, self._again(at, pricing) * missing / max(self.room_bits, 1))

        if is_fair:
            return {at: price(at) for at in inside}
        found: dict[int, float] = {}
        for at in sorted(inside, key=would_pay, reverse=True):
            found[at] = price(at)
            for name in self.network.operators[at].map_bits.keys() & left.keys():
                left[name] -= found[at]
        return found

    def _again(self, at: int, pricing: RoomPricing) -> float:
        """Return the price of a further Compute of an operator."""
        operator = self.network.operators[at]
        if operator.is_whole:
            return inf
        return 0.0 if self.network.kept_weight_bits else float(pricing.weight) * operator.weight_bits


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
