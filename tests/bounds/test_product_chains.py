"""Chains of matrix products: no loop nest, and no order of Computes and copies, moves less than the bound."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from heapq import heappop, heappush
from itertools import count, pairwise, product
from math import inf
from random import Random
from typing import TypeAlias

import numpy as np
import pytest

from onchip.bounds.network.product_chains import BitPrices, ChainProduct, ProductChain, prices_of_computes

Rows: TypeAlias = tuple[int, ...]
"""Whether each row of a map is on the chip (bit 0) and in DRAM (bit 1)."""
State: TypeAlias = tuple[tuple[Rows, ...], tuple[bool, ...], tuple[int, ...]]
"""The rows of all maps, the weights on the chip, and the rows that each product has computed."""
STEPS = {0: (), 1: ((3, 1), (0, 0)), 2: ((3, 1),), 3: ((2, 0),)}
"""The places of a row after a copy or an eviction, and the times that it passes DRAM."""
ALIKE = BitPrices(1, 1, 1, 2)
NEEDS = ((0, 1), (1, 2), (0, 2))
"""The dimensions (rows, depth, columns) of input, weight and output."""


def nests(chance: Random, sizes: tuple[int, int, int]) -> Iterator[list[tuple[int, int]]]:
    """Yield random loops as pairs of dimension and trips, the innermost first; at most two for each dimension."""
    while True:
        loops = []
        for dimension, size in enumerate(sizes):
            inner = chance.randint(1, size)
            loops += [(dimension, inner), (dimension, -(-size // inner))]
        chance.shuffle(loops)
        yield loops


def moved(loops: list[tuple[int, int]], borders: list[int], sizes: tuple[int, int, int]) -> tuple[int, int]:
    """Execute a nest whose operands keep a tile of the loops below their borders; return moved and held elements.

    Tiles go around the dimensions' ends, and what lies behind these is not executed.
    """
    strides, steps = [1, 1, 1], []
    for dimension, trips in loops:
        steps.append(strides[dimension])
        strides[dimension] *= trips
    tiles: list[frozenset[tuple[int, ...]]] = [frozenset()] * 3
    seen: set[tuple[int, ...]] = set()
    total, most = 0, [0, 0, 0]
    for outer in product(*(range(trips) for _, trips in reversed(loops))):
        at = outer[::-1]
        for operand, (first, second) in enumerate(NEEDS):
            border = borders[operand]
            if any(at[:border]):
                continue
            low, high = [0, 0, 0], [1, 1, 1]
            for number, (dimension, trips) in enumerate(loops):
                low[dimension] += at[number] * steps[number] if number >= border else 0
                high[dimension] += (trips - 1) * steps[number] if number < border else 0
            spans = [range(min(low[one], sizes[one]), min(low[one] + high[one], sizes[one])) for one in (first, second)]
            tile = frozenset(product(*spans))
            if not all(low[one] < sizes[one] for one in range(3)) or tile == tiles[operand]:
                continue
            if operand == 2:
                total += len(tiles[2]) + len(tile & seen)
                seen |= tiles[2] | tile
            else:
                total += len(tile)
            tiles[operand] = tile
            most[operand] = max(most[operand], len(tile))
    return total + len(tiles[2]), sum(most)


@pytest.mark.parametrize("seed", range(40))
def test_no_loop_nest_moves_less_than_a_compute(seed: int) -> None:
    chance = Random(f"compute {seed}")
    sizes = chance.randint(1, 4), chance.randint(1, 4), chance.randint(1, 4)
    one = ChainProduct(*sizes, (1, 1, 1), ALIKE)
    for _, loops in zip(range(60), nests(chance, sizes), strict=False):
        elements, held = moved(loops, [chance.randint(0, len(loops)) for _ in range(3)], sizes)
        assert prices_of_computes(one, held, (False, False, False))[-1] <= elements


def test_a_product_in_tiles_of_its_output_is_priced_exactly() -> None:
    """Of 128 rows and columns, 64 x 64 outputs fit in 8 KiB with a column and a row of the factors."""
    one = ChainProduct(128, 128, 128, (8, 8, 8), ALIKE)
    assert prices_of_computes(one, 8 * 8192, (False, False, False))[-1] == 8 * 81_920


@cache
def compute_price(one: ChainProduct, room: int, held: tuple[bool, bool, bool]) -> float:
    """Return the price of a Compute of all rows."""
    return float(prices_of_computes(one, room, held)[-1])


def least_moved(chain: ProductChain, room: int) -> float:
    """Return the least price of any order of Computes and copies of rows, by shortest paths over all states."""
    products, rows = chain.products, chain.products[0].rows
    sizes = [products[0].depth * products[0].bits[0], *(one.columns * one.bits[2] for one in products)]
    start: State = ((2,) * rows, *(((0,) * rows,) * len(products))), (False,) * len(products), (0,) * len(products)
    waiting, known, number = [(0.0, 0, start)], {start: 0.0}, count(1)

    def taken(maps: tuple[Rows, ...], kept: tuple[bool, ...]) -> int:
        of_maps = sum(size * sum(one & 1 for one in each) for size, each in zip(sizes, maps, strict=True))
        return of_maps + sum(one.weight_bits for one, held in zip(products, kept, strict=True) if held)

    while waiting:
        price, _, state = heappop(waiting)
        maps, kept, done = state
        if price > known[state]:
            continue
        if all(one & 2 for one in maps[-1]):
            return price
        found: list[tuple[float, State]] = []

        for at, each in enumerate(maps):
            for row, where in enumerate(each):
                for value, more in STEPS[where]:
                    changed = (*each[:row], value, *each[row + 1 :])
                    after = (*maps[:at], changed, *maps[at + 1 :]), kept, done
                    found.append((price + more * sizes[at], after))
        for at, one in enumerate(products):
            flipped = (*kept[:at], not kept[at], *kept[at + 1 :])
            found.append((price + (0 if kept[at] else one.weight_bits), (maps, flipped, done)))
            for begin in range(rows):
                for end in range(begin + 1, rows + 1):
                    mask = sum(1 << row for row in range(begin, end))
                    if done[at] & mask:
                        continue
                    source = maps[at][begin:end]
                    for held, out in product((True, False), repeat=2):
                        if not all(where & (1 if held else 2) for where in source):
                            continue
                        own = end - begin
                        less = own * sizes[at] * held + one.weight_bits * kept[at]
                        room_here = room - taken(maps, kept) + less
                        cut = ChainProduct(own, one.depth, one.columns, one.bits, one.prices)
                        cost = compute_price(cut, room_here, (held, kept[at], out))
                        if cost < inf:
                            written = (*maps[at + 1][:begin], *(own * (1 if out else 2,)), *maps[at + 1][end:])
                            marks = (*done[:at], done[at] | mask, *done[at + 1 :])
                            found.append((price + cost, ((*maps[: at + 1], written, *maps[at + 2 :]), kept, marks)))
        for cost, other in found:
            if taken(other[0], other[1]) <= room and cost < known.get(other, inf):
                known[other] = cost
                heappush(waiting, (cost, next(number), other))
    return inf


@pytest.mark.parametrize("seed", range(11))
def test_no_order_of_computes_and_copies_moves_less_than_the_bound(seed: int) -> None:
    chance = Random(f"chain {seed}")
    rows, count_of = (chance.randint(2, 3), 2) if seed % 4 else (1, 3)
    widths = [chance.randint(1, 3) for _ in range(count_of + 1)]
    products = tuple(ChainProduct(rows, depth, columns, (1, 1, 1), ALIKE) for depth, columns in pairwise(widths))
    chain = ProductChain(products, True, True)
    room = chance.randint(3, 4 + 2 * max(widths) * max(rows, 3))
    least = least_moved(chain, room)
    assert chain.least_price(room) <= least
    assert chain.once <= least


def test_chains_of_products_are_bounded_by_what_fits_beside_their_weights() -> None:
    """128 rows of 128 columns in 8 KiB: three tiles of two products, each with both weights, which is attained."""
    one = ChainProduct(128, 128, 128, (8, 8, 8), ALIKE)
    assert ProductChain((one, one), True, True).least_price(8 * 8192) == 8 * 131_072
    assert ProductChain((one,) * 4, True, True).least_price(8 * 8192) >= 0.96 * 8 * 262_144
    shares = ChainProduct(512, 128, 128, (8, 8, 8), ALIKE)
    by_shares = ProductChain((shares, shares), True, True).least_price(8 * 8192)
    assert 8 * 300_000 < by_shares <= 4 * 8 * 131_072
    assert np.isfinite(by_shares)
