"""Lower bounds on the energy of a layer's weights, given that weights and sums cannot both be reused near the units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.bounds.layer.layer_floors import NestFloors, least_of
from onchip.bounds.layer.unit_shares import Number

Line: TypeAlias = tuple[Number, Number]
"""Energy in pJ of an element: slope (for each use) and intercept (once)."""

_NO_WAY: Final = ((0.0, 1e100), (0.0, 1e100))
"""A line above all others. It is finite, because infinities cannot be subtracted."""


@dataclass(frozen=True, slots=True, eq=False)
class ReuseFloors:
    """Exhaustive cases of reuse near the units: either weights or sums stay there for long.

    `lines` has the axes case, home of the weights, way to the units, line (the higher of two counts), slope or
    intercept, and tile. `more_per_output` is the energy in pJ of an output above `output_floor`, by case and tile, for
    any home of the output.
    """

    lines: NDArray[np.float64]
    more_per_output: NDArray[np.float64]

    def weight_pj(self, uses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the energy in pJ of a weight by case, home and tile, given its number of `uses` in each tile.

        If the floors are of a single tile, the last axis is that of `uses`.
        """
        found: NDArray[np.float64] = (self.lines[..., 0, :] * uses + self.lines[..., 1, :]).max(axis=3).min(axis=2)
        return found


def reuse_floors(nest: NestFloors) -> ReuseFloors:
    """Return the cases of reuse: a weight stays for at most as many uses as sums fit near the units, or vice versa.

    Each memory that may be the nearest to the units makes one case (docs/fusion.md). The tiles of the nest form one
    axis.
    """
    layer, machine = nest.layer, nest.machine
    base, more, lines = nest.output_floor(), list[Number](), list[list[list[tuple[Line, Line]]]]()
    sum_bits = cast("Number", np.where(nest.is_done(DRAM, 1), layer.output_bits, layer.partial_bits))
    for name, level in machine.nearest(Operand.OUTPUT):
        more.append(_least_more(base, nest.output_floor(name)))
        lines.append(_weight_lines(nest, None, _room(level, sum_bits)))
    for name, level in machine.nearest(Operand.WEIGHT):
        more.append(_least_more(base, nest.output_floor(None, _room(level, layer.weight_bits))))
        lines.append(_weight_lines(nest, name, inf))
    tiles, most = np.size(nest.shares.at_work), max(len(ways) for homes in lines for ways in homes)
    padded = [[[*ways, *[_NO_WAY] * (most - len(ways))] for ways in homes] for homes in lines]
    each = [
        _in_one_axis(number, tiles)
        for homes in padded
        for ways in homes
        for way in ways
        for line in way
        for number in line
    ]
    return ReuseFloors(
        np.array(each).reshape(len(lines), -1, most, 2, 2, tiles), np.array([_in_one_axis(one, tiles) for one in more])
    )


def _in_one_axis(number: Number, tiles: int) -> NDArray[np.float64]:
    return np.broadcast_to(np.ravel(number), tiles)


def _weight_lines(nest: NestFloors, nearest: str | None, turns: Number) -> list[list[tuple[Line, Line]]]:
    """Return the lines of a weight by home and way.

    A weight serves at most `turns` MACs of a unit before it is fetched again.
    """
    machine, bits = nest.machine, nest.layer.weight_bits
    serving, moved = nest.shares.serving[Operand.WEIGHT], nest.shares.moved[Operand.WEIGHT]
    found = []
    for home in machine.homes(Operand.WEIGHT):
        lines = list[tuple[Line, Line]]()
        for near, *above in machine.ways(Operand.WEIGHT, home):
            if nearest not in (None, near):
                continue
            per_use = bits * machine.read_pj[near] / serving[near]
            if not above:
                lines.append(((per_use, 0.0), (0.0, bits * moved * machine.read_pj[home])))
                continue
            fetched = machine.write_pj[near] / serving[near] + machine.read_pj[above[0]] / serving[above[0]]
            once, all_the_way = machine.way_pj(above), machine.way_pj((near, *above))
            again = (per_use + bits * moved * fetched / turns, bits * moved * once)
            lines.append((again, (per_use, bits * moved * all_the_way)))
        found.append(lines or [_NO_WAY])
    return found


def _room(level: MemoryLevel | None, bits: Number) -> Number:
    """Return the number of elements that fit in one instance, at least 1."""
    return inf if level is None else np.maximum(level.memory.capacity_bytes * 8 // bits, 1)


def _least_more(base: Mapping[str, Number], other: Mapping[str, Number]) -> Number:
    return least_of(np.maximum(other[home] - base[home], 0.0) for home in base)
