"""Lower bounds on the DRAM traffic of chains of matrix products in limited memory (docs/schedule.md, section 8).

A product of `rows` x `depth` by `depth` x `columns` elements runs in Computes, each of some rows. A Compute holds what
it finds and leaves on the chip, and a tile of each other operand, which it loads again and again. The rows of the map
between two products stay on the chip or pass DRAM. The bound is the cheapest choice of Computes for each product and of
the number of rows of each map that stay, in any order and in any groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import permutations, product
from math import inf, prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.bounds.layer.needed import NeededPixels
from onchip.bounds.network.cut_paths import RoomPricing
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.ops.contractions import ELEMENT_BY_ELEMENT
from onchip.ops.layers_of import multiplies_matrices, multiplies_rows, works_on_rows

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
MOST_ROWS: Final = 256
"""Limit on the rows of products whose Computes are counted. Of more rows, each has its share of a Compute."""
MOST_SHARES: Final = 2048
"""Limit on the rows of any product."""
_MOST_PRODUCTS: Final = 10
"""Limit on the products of a chain of more than MOST_ROWS rows."""
MOST_LOADS: Final = 12
"""Limit on the counted loads of weights. So many loads stand for any larger number, too."""
_PARTS_OF_A_RANGE: Final = 8
"""Ratio of a length of stretches to the number of lengths in its range, for dimensions larger than MOST_ROWS."""
_SOURCE, _WEIGHT, _OUTPUT = range(3)
_ENDS: Final = ((False, False), (False, True), (True, False), (True, True))
"""Whether a Compute finds its input on the chip, and leaves its output there."""


@dataclass(frozen=True, slots=True)
class BitPrices:
    """Prices of a bit of the input, the weight and the output that passes DRAM, and of a partial sum that does."""

    source: float
    weight: float
    output: float
    again: float


@dataclass(frozen=True, slots=True)
class ChainProduct:
    """A product of rows with a matrix of weights, which computes each row of its output from that row of its input.

    Widths in `bits` are those of input, weight and output. Weights that are `loaded` come from DRAM for this product
    alone; others may be on the chip at no price.
    """

    rows: int
    depth: int
    columns: int
    bits: tuple[int, int, int]
    prices: BitPrices
    loaded: bool = True

    @property
    def row_prices(self) -> tuple[float, float]:
        """Return the prices of a row of the input and of a row of the output that pass DRAM."""
        source, _, output = self.bits
        return self.depth * source * self.prices.source, self.columns * output * self.prices.output

    @property
    def weight_bits(self) -> int:
        """Return the bits of all weights."""
        return self.depth * self.columns * self.bits[_WEIGHT]

    @property
    def loads(self) -> float:
        """Return the price of loading all weights once."""
        return self.weight_bits * self.prices.weight

    @property
    def least_tiles(self) -> int:
        """Return the bits of the least tiles of input and output."""
        return self.bits[_SOURCE] + self.bits[_OUTPUT]


class Way(Enum):
    """Ways to run a product."""

    WHOLE = "one Compute"
    KEPT = "several Computes, whose weights are loaded once and stay from the first Compute to the last one"
    AGAIN = "weights are loaded several times"


Run: TypeAlias = tuple[Way, int]
"""The way in which a product runs, and the number of times that its weights are loaded, at most MOST_LOADS."""


@dataclass(frozen=True, slots=True)
class ProductChain:
    """Products, each of which is the only reader of the output of the one before.

    The input comes from DRAM if the chain `begins_in_dram`, and the output goes there if it `ends_in_dram`. Otherwise
    they may be on the chip at no price. An input that `is_shared` comes from DRAM for other operators, too.
    """

    products: tuple[ChainProduct, ...]
    begins_in_dram: bool
    ends_in_dram: bool
    is_shared: bool = False

    @property
    def once(self) -> float:
        """Return the price of everything that passes DRAM once in any case, for this chain or for others."""
        first, last = self.products[0], self.products[-1]
        ends = (self.begins_in_dram or self.is_shared) * first.row_prices[0] + self.ends_in_dram * last.row_prices[1]
        return first.rows * ends + sum(one.loads for one in self.products)

    def least_price(self, room_bits: int) -> float:
        """Return a lower bound on the price of all bits that pass DRAM in `room_bits` of memory; 0 if it is unknown."""
        rows = self.products[0].rows
        if rows > MOST_ROWS:
            return self._least_by_shares(room_bits) if rows <= MOST_SHARES else 0.0
        start = np.full(rows + 1, inf)
        start[0 : 1 if self.begins_in_dram else None] = 0.0
        prices: dict[Run, Floats] = {}
        for before, one in zip((None, *self.products), self.products, strict=False):
            found: dict[Run, Floats] = {}
            for run, own in prices_by_rows(one, room_bits).items():
                link = None if before is None else _Link(before, one, room_bits)
                ends = (np.where(link.allows(other, run), price, inf) for other, price in prices.items() if link)
                found[run] = (np.minimum.reduce([*ends] or [start])[:, None] + own).min(axis=0)
            prices = found
        least = min(float(each[0] if self.ends_in_dram else each.min()) for each in prices.values())
        return least if least < inf else 0.0

    def _least_by_shares(self, room_bits: int) -> float:
        """Return the bound in which every row has its share of the price of its Compute."""
        if len(self.products) > _MOST_PRODUCTS:
            return 0.0
        ways = product((False, True), repeat=len(self.products))
        least = min(self._price_of_shares(room_bits, way) for way in ways)
        return least if least < inf else 0.0

    def _price_of_shares(self, room_bits: int, keeps: Sequence[bool]) -> float:
        price = np.array([0.0, inf if self.begins_in_dram else 0.0])
        loads = 0.0
        for one, are_kept in zip(self.products, keeps, strict=True):
            price = (price[:, None] + _shares(one, room_bits, are_kept)).min(axis=0)
            loads += one.loads if are_kept and one.loaded else 0.0
        return loads + self.products[0].rows * float(price[0] if self.ends_in_dram else price.min())


@dataclass(slots=True)
class _Link:
    """The rows of the map between two products that stay on the chip, and the loads of weights that they need.

    Unless both weights fit on the chip together, Computes of the first and of the second product take turns. Weights
    that are not loaded in a turn stay meanwhile, so that the rows that wait after this turn of the first product and
    after the turn before fit beside them. At most one of both weights stays between two turns. Each of both products
    computes rows that pass in Computes without other rows, for which it loads its weights once more, or beside weights
    that stay, or in Computes with rows that stay, next to which they fit.
    """

    first: ChainProduct
    second: ChainProduct
    room_bits: int
    _beside: tuple[int, int] = field(init=False)
    """The number of rows that wait beside the weights of the first, and of the second product."""
    _least_loads: Counts | None = field(init=False)
    """The least loads of both weights together by the number of rows that stay; None if both fit."""

    def __post_init__(self) -> None:
        first, second = self.first, self.second
        weights, tiles = (first.weight_bits, second.weight_bits), min(first.least_tiles, second.least_tiles)
        row_bits = first.columns * first.bits[_OUTPUT]
        own = (
            min(first.bits[_SOURCE], second.bits[_WEIGHT] + second.bits[_OUTPUT]),
            min(second.bits[_OUTPUT], first.bits[_WEIGHT] + first.bits[_SOURCE]),
        )
        waiting = [max(self.room_bits - size - tile, 0) // row_bits for size, tile in zip(weights, own, strict=True)]
        self._beside = waiting[0], waiting[1]
        self._least_loads = None
        if first.loaded and second.loaded and sum(weights) + tiles > self.room_bits:
            most = max(self.room_bits - first.bits[_SOURCE] - first.bits[_WEIGHT], 0) // row_bits
            loads, of_kept = (np.full(first.rows + 1, 2 * MOST_LOADS) for _ in range(2))
            for turns in range(1, 2 * MOST_LOADS):
                for kept in range(turns):
                    beside = (kept + 1) * max(self._beside) + (turns - kept - 1) * most
                    of_kept[: beside + 1] = np.minimum(of_kept[: beside + 1], 2 * turns - kept)
                loads[: turns * most + 1] = np.minimum(loads[: turns * most + 1], 2 * turns)
            loads = np.minimum(loads, of_kept)
            every = 2 * -(-first.rows // max(most, 1))
            loads[:-1] = np.minimum(np.minimum(loads[:-1] + 2, of_kept[:-1]), every)
            self._least_loads = loads

    def allows(self, first: Run, second: Run) -> NDArray[np.bool_]:
        """Return whether the products may run so, by the number of rows that stay."""
        rows = np.arange(self.first.rows + 1)
        found = np.ones(len(rows), bool)
        if self._least_loads is None:
            return found
        for (way, _), (_, loads), waiting in zip((first, second), (second, first), self._beside, strict=True):
            if way is Way.KEPT and loads < MOST_LOADS:
                found &= rows <= loads * waiting
        if MOST_LOADS not in (first[1], second[1]):
            found &= self._least_loads <= first[1] + second[1]
        return found


def prices_of_computes(one: ChainProduct, room_bits: int, held: tuple[bool, bool, bool]) -> Floats:
    """Return the least price of a Compute of 1, 2, ... rows; infinite if it does not fit.

    Operands that are `held` (input, weight, output) are on the chip as a whole. The others are loaded in tiles: of two
    tiles, one stays while the other changes. So the tile that stays longest has every position that the others need
    meanwhile, and is loaded once; another one is loaded again for each stretch of the dimension that it lacks.
    """
    rows = np.arange(1, one.rows + 1)
    elements = rows * one.depth, np.full_like(rows, one.depth * one.columns), rows * one.columns
    lacking = np.full_like(rows, one.columns), rows, np.full_like(rows, one.depth)
    sizes = [size * width for size, width in zip(elements, one.bits, strict=True)]
    left = room_bits - sum((sizes[at] for at in range(3) if held[at]), np.zeros_like(rows))
    each = one.prices.source, one.prices.weight, one.prices.output
    again = one.prices.source, one.prices.weight, one.prices.again
    best = np.full(len(rows), inf)
    for order in permutations([at for at in range(3) if not held[at]]):
        once = sum((sizes[at] * each[at] for at in order), np.zeros(len(rows)))
        for times, fits in _loads(order, lacking, one.bits, left):
            more = sum((sizes[at] * again[at] * (times[at] - 1) for at in order), np.zeros(len(rows)))
            best = np.where(fits, np.minimum(best, once + more), best)
    return best


def _loads(
    order: Sequence[int], lacking: Sequence[Counts], bits: Sequence[int], left: Counts
) -> Iterator[tuple[dict[int, Counts], NDArray[np.bool_]]]:
    """Yield how often operands are loaded, and whether their tiles fit; the tile of the first one stays longest."""
    ones = np.ones_like(left)
    if len(order) < 2:
        yield dict.fromkeys(order, ones), left >= sum(bits[at] for at in order)
        return
    first, last = order[0], order[-1]
    between = order[1:-1]
    lengths = lacking[between[0]] if between else ones
    for least, most in _stretches(int(lengths.max())):
        stretch = np.minimum(lengths, least)
        beside = stretch * bits[first] + sum(bits[at] for at in between)
        wide = np.minimum((left - bits[last]) // beside, lacking[last])
        times = {first: ones, last: -(-lacking[last] // np.maximum(wide, 1))}
        yield times | dict.fromkeys(between, -(-lengths // most)), wide > 0


def _stretches(size: int) -> Iterator[tuple[int, int]]:
    """Yield the lengths of stretches of a dimension, long ones as ranges whose least length counts for the tiles."""
    first = 1
    while first <= size:
        last = first + (first // _PARTS_OF_A_RANGE if size > MOST_ROWS else 0)
        yield first, last
        first = last + 1


@lru_cache(maxsize=256)
def prices_by_rows(one: ChainProduct, room_bits: int) -> Mapping[Run, Floats]:
    """Return the least prices of each run, by the numbers of rows of the input and the output that stay on the chip."""
    loads = one.loads if one.loaded else 0.0
    streamed, kept = (_by_rows(one, room_bits, are_kept=are_kept) for are_kept in (False, True))
    passing = one.rows - np.arange(one.rows + 1)
    once, least = np.add.outer(*(passing * each for each in one.row_prices)), np.minimum(streamed, loads + kept)
    found = {
        (Way.WHOLE, 1): _by_rows(one, room_bits, are_kept=False, is_whole=True),
        (Way.KEPT, 1): loads + _by_rows(one, room_bits, are_kept=True, are_streamed=False),
    }
    found |= {(Way.AGAIN, times): np.maximum(least, once + times * loads) for times in range(2, MOST_LOADS + 1)}
    return found


def _by_rows(
    one: ChainProduct, room_bits: int, *, are_kept: bool, are_streamed: bool = True, is_whole: bool = False
) -> Floats:
    """Return the prices of Computes of some rows.

    These may find all weights on the chip if they `are_kept`, and load them if they `are_streamed`.
    """
    rows = one.rows
    computes = {at: _computes(one, room_bits, at, are_kept=are_kept, are_streamed=are_streamed) for at in _ENDS}
    found = np.full((rows + 1, rows + 1), inf)
    if is_whole:
        for at in _ENDS:
            found[at[0] * rows, at[1] * rows] = computes[at][-1]
    else:
        parts = {at: _parted(each) for at, each in computes.items()}
        for both in range(rows + 1):
            reads, writes = np.ogrid[: rows + 1 - both, : rows + 1 - both]
            others = rows - both - reads - writes
            price = parts[True, True][both] + parts[True, False][reads] + parts[False, True][writes]
            price = np.where(others >= 0, price + parts[False, False][np.maximum(others, 0)], inf)
            found[both:, both:] = np.minimum(found[both:, both:], price)
    return np.asarray(_with_copies(_with_copies(found, one.row_prices[0]).T, one.row_prices[1]).T)


def _computes(
    one: ChainProduct, room_bits: int, at: tuple[bool, bool], *, are_kept: bool, are_streamed: bool = True
) -> Floats:
    """Return the prices of Computes with the input, and the output, on the chip or not."""
    ways = [False] * are_streamed + [True] * are_kept
    prices = [prices_of_computes(one, room_bits, (at[0], held, at[1])) for held in ways]
    return np.asarray(np.minimum.reduce(prices))


def _parted(prices: Floats) -> Floats:
    """Return the least price of 0, 1, 2, ... rows in Computes of any sizes."""
    found = np.zeros(len(prices) + 1)
    for count in range(1, len(found)):
        found[count] = (prices[:count] + found[:count][::-1]).min()
    return found


def _with_copies(prices: Floats, row_price: float) -> Floats:
    """Return the prices by the rows that stay, if Computes may find more rows on the chip, which copies move."""
    moved = np.arange(len(prices))[:, None] * row_price
    return np.asarray(np.minimum.accumulate((prices + moved)[::-1], axis=0)[::-1] - moved)


@lru_cache(maxsize=256)
def _shares(one: ChainProduct, room_bits: int, are_kept: bool) -> Floats:
    """Return the least share of a row, by whether it stays in the input (first index) and in the output."""
    source, output = one.row_prices
    counts = np.arange(1, one.rows + 1)
    each = [
        [(_computes(one, room_bits, (i, o), are_kept=are_kept) / counts).min() for o in (False, True)]
        for i in (False, True)
    ]
    found = np.array(each, float)
    found[0] = np.minimum(found[0], found[1] + source)
    found[:, 0] = np.minimum(found[:, 0], found[:, 1] + output)
    return found


@dataclass(slots=True)
class ChainsOfProducts:
    """The chains of products of a network, with softmax, normalisations and operators of one map between them.

    The bound holds for mappings in which every memory that holds an operand keeps tiles of it.
    """

    graph: Graph
    nests: Mapping[str, tuple[Layer, ...]]
    accelerator: Accelerator
    needed: Mapping[str, NeededPixels]
    _known: dict[tuple[ProductChain, int], float] = field(default_factory=dict, init=False)

    def least_price(self, pricing: RoomPricing) -> float:
        """Return a lower bound on the price of all bits that pass DRAM again, or although they need not."""
        room_bits, found = self._room_bits(), 0.0
        for operators in self._chains() if room_bits is not None else ():
            assert room_bits is not None
            chain = self._priced(operators, pricing)
            if (chain, room_bits) not in self._known:
                self._known[chain, room_bits] = max(chain.least_price(room_bits) - chain.once, 0.0)
            found += self._known[chain, room_bits]
        return found

    def _room_bits(self) -> int | None:
        """Return the bits of all instances of all memories; None if some operand has no memory."""
        array, levels = self.accelerator.array, self.accelerator.levels
        if any(not any(operand in level.memory.holds for level in levels) for operand in Operand):
            return None
        sizes = array.sizes if array is not None else {}
        found = 0
        for level in levels:
            apart = [size for name, size in sizes.items() if level.serves is not None and name not in level.serves]
            found += 8 * level.memory.capacity_bytes * prod(apart)
        return found

    def _chains(self) -> Iterator[list[Operator]]:
        """Yield the products that are linked, each with the one after it, in the network's order."""
        found: dict[str, list[Operator]] = {}
        for operator in self.graph.operators:
            if (one := self._product(operator)) is None:
                continue
            begin = self._linked(operator.inputs[0])
            chain = found.pop(begin, []) if begin is not None else []
            if chain and self._rows(chain[-1]) != one.n * one.p * one.q:
                yield chain
                chain = []
            found[operator.outputs[0]] = [*chain, operator]
        yield from found.values()

    def _linked(self, name: str) -> str | None:
        """Return the output of a product that reaches a tensor through its only readers; None without one."""
        while True:
            producer = self.graph.producer.get(name)
            if producer is None or self.graph.tensor[name].role is not Role.ACTIVATION:
                return None
            if len(self.graph.readers[name]) != 1:
                return None
            if self._product(producer) is not None:
                return name
            if not self._hands_rows_on(producer):
                return None
            name = producer.inputs[0]

    def _hands_rows_on(self, operator: Operator) -> bool:
        """Return True if an operator computes each row from that row of its only map, which is as large."""
        is_plain = len(operator.inputs) == len(operator.outputs) == 1 and operator.tile is None
        source, written = (
            (self.graph.tensor[each[0]] for each in (operator.inputs, operator.outputs)) if is_plain else (None, None)
        )
        if source is None or written is None or None in (source.shape, source.bits):
            return False
        is_known = operator.kind in ELEMENT_BY_ELEMENT or works_on_rows(self.graph, operator)
        return is_known and (source.shape, source.bits) == (written.shape, written.bits)

    def _rows(self, operator: Operator) -> int:
        layer = self.nests[operator.name][0]
        return layer.n * layer.p * layer.q

    def _product(self, operator: Operator) -> Layer | None:
        """Return the nest of a product that tiles cut by rows of its input; else None."""
        nests, tensor = self.nests.get(operator.name, ()), self.graph.tensor
        names = self._operands(operator)
        if len(nests) != 1 or names is None or operator.in_place or len(operator.outputs) != 1:
            return None
        layer, (source, weight, output) = nests[0], (tensor[name] for name in names)
        rows = layer.n * layer.p * layer.q
        is_product = layer.has_weight and layer.g == layer.r == layer.s == 1 and layer.stride == (1, 1)
        sizes = rows * layer.c, layer.c * layer.k, rows * layer.k
        bits = layer.input_bits, layer.weight_bits, layer.output_bits
        are_alike = all(
            each.shape is not None and prod(each.shape) == size and each.bits == width
            for each, size, width in zip((source, weight, output), sizes, bits, strict=True)
        )
        return layer if is_product and are_alike and rows <= MOST_SHARES and self.needed[output.name].are_all else None

    def _operands(self, operator: Operator) -> tuple[str, str, str] | None:
        """Return input, weight and output of a product of rows with a matrix; None for other operators."""
        if multiplies_matrices(self.graph, operator):
            return operator.inputs[0], operator.inputs[1], operator.outputs[0]
        if len(operator.inputs) != 1 or not operator.parameters or not multiplies_rows(self.graph, operator):
            return None
        weights = [name for name in operator.parameters if len(self.graph.tensor[name].shape or ()) > 1]
        return (operator.inputs[0], weights[0], operator.outputs[0]) if len(weights) == 1 else None

    def _priced(self, operators: Sequence[Operator], pricing: RoomPricing) -> ProductChain:
        first, last = (self.graph.tensor[name] for name in (operators[0].inputs[0], operators[-1].outputs[0]))
        is_shared = len(self.graph.readers[first.name]) > 1
        return ProductChain(
            tuple(self._priced_product(one, pricing) for one in operators),
            first.role is Role.INPUT and not is_shared,
            last.role is Role.OUTPUT,
            first.role is Role.INPUT and is_shared,
        )

    def _priced_product(self, operator: Operator, pricing: RoomPricing) -> ChainProduct:
        layer, names = self.nests[operator.name][0], self._operands(operator)
        assert names is not None
        source, weight, output = (self.graph.tensor[name] for name in names)
        read = {name: float(pricing.reads.get(name, 0)) for name in names}
        passing = float(pricing.maps.get(output.name, 0)) or (read[output.name] or float(pricing.weight))
        from_dram = weight.role in (Role.PARAMETER, Role.INPUT)
        prices = BitPrices(
            read[source.name],
            float(pricing.weight) if weight.role is Role.PARAMETER else read[weight.name],
            max(passing - read[output.name], 0.0),
            passing,
        )
        return ChainProduct(
            layer.n * layer.p * layer.q,
            layer.c,
            layer.k,
            (layer.input_bits, layer.weight_bits, layer.output_bits),
            prices,
            loaded=from_dram and len(self.graph.readers[weight.name]) == 1,
        )
