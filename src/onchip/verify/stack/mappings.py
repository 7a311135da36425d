"""The mapping of a strategy for each layer of a tile, its legality and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.strategy import FusionStrategy, TileMapping
from onchip.verify.mapping import tile_bits, verify_mapping
from onchip.verify.rules import Rule, Violation
from onchip.verify.stack.chip import with_groups_along_all


class TilePrice(Protocol):
    """The cost of a tile's loop nest under its mapping: energies in pJ, cycles, and bits read or written at DRAM."""

    @property
    def memory_energy_pj(self) -> Mapping[tuple[str, str], float | None]:
        """Return the energy in pJ by memory and operand, None where the machine does not state it."""

    @property
    def mac_energy_pj(self) -> float | None:
        """Return the energy of all multiply-accumulates in pJ, or None if the machine does not state it."""

    @property
    def cycles(self) -> float:
        """Return the cycles from start to end, including preloading and offloading."""

    @property
    def dram_bits(self) -> int:
        """Return the bits that DRAM reads and writes."""


TilePrices: TypeAlias = Callable[[LayerProblem, LayerMapping], TilePrice]
"""A cost model, called once for each legal mapping; raises MappingError if tiles exceed a capacity."""


@dataclass(frozen=True, slots=True)
class PricedTile:
    """The price of a layer in a tile, and the bytes that its tiles and other data take of one instance per memory."""

    price: TilePrice
    taken_bytes: Mapping[str, int]


class MappingsOfStrategy:
    """The mappings of a strategy by stack, layer, loop nest, homes and capacity; each is checked at its first use.

    With `counts_parts` units work in parts, as in DeFiNES: every dimension of the array may unroll groups, loops may
    iterate beyond the layer's bounds, and the cost model alone checks capacities.
    """

    def __init__(self, strategy: FusionStrategy, prices: TilePrices, *, counts_parts: bool) -> None:
        self.violations: list[Violation] = []
        self._mappings = strategy.mappings
        self._prices = prices
        self._counts_parts = counts_parts
        self._numbers: dict[object, int] = {}
        for number, one in enumerate(strategy.mappings):
            for name in one.names:
                key = _key(one, name)
                if key in self._numbers:
                    detail = f"mapping {self._numbers[key]} is of the same loop nest of {name!r}, homes and room"
                    self.violations.append(Violation(Rule.MAPPING_UNUSED, f"mapping {number}", detail))
                self._numbers.setdefault(key, number)
        self._used: set[tuple[int, str]] = set()
        self._priced: dict[tuple[int, bool], PricedTile | None] = {}

    @property
    def priced(self) -> int:
        """Return the number of mappings that have been priced."""
        return len({number for (number, _), one in self._priced.items() if one is not None})

    def has(self, stack: int, name: str, problem: LayerProblem) -> bool:
        """Return True if there is a mapping for a layer of a tile."""
        return _key_of(stack, name, problem) in self._numbers

    def run(self, stack: int, name: str, problem: LayerProblem) -> PricedTile | None:
        """Return the price of a layer under its mapping; None, after a violation, if the mapping is illegal."""
        number = self._numbers[_key_of(stack, name, problem)]
        self._used.add((number, name))
        key = number, problem.weight_is_an_input
        if key not in self._priced:
            self._priced[key] = self._price(number, problem)
        return self._priced[key]

    def unused(self) -> Iterator[Violation]:
        """Yield a violation for each mapping, and each layer that it names, that no tile has used."""
        for number, one in enumerate(self._mappings):
            for name in one.names:
                if (number, name) not in self._used:
                    detail = f"no tile of stack {one.stack} runs {name!r} by it"
                    yield Violation(Rule.MAPPING_UNUSED, f"mapping {number}", detail)

    def _price(self, number: int, problem: LayerProblem) -> PricedTile | None:
        if self._counts_parts:
            problem = replace(problem, accelerator=with_groups_along_all(problem.accelerator))
        mapping = self._mappings[number].mapping
        wrong = list(verify_mapping(problem, mapping, may_pad=self._counts_parts))
        if self._counts_parts:
            wrong = [each for each in wrong if each.rule is not Rule.CAPACITY_EXCEEDED]
        self.violations += [replace(each, subject=f"mapping {number}, {each.subject}") for each in wrong]
        if wrong:
            return None
        try:
            price = self._prices(problem, mapping)
        except MappingError as error:
            self.violations.append(Violation(Rule.CAPACITY_EXCEEDED, f"mapping {number}", str(error)))
            return None
        return PricedTile(price, taken_bytes(problem, mapping))


def taken_bytes(problem: LayerProblem, mapping: LayerMapping) -> Mapping[str, int]:
    """Return, for one instance of each memory, the bytes reserved for other data plus those of the tiles."""
    needs = tile_bits(problem, mapping)
    found: dict[str, int] = {}
    for level in problem.accelerator.levels:
        name, capacity_bytes = level.memory.name, level.memory.capacity_bytes
        tiles_bytes = -(-sum(needs[name].values()) // 8)
        found[name] = capacity_bytes - problem.room_bytes.get(name, capacity_bytes) + tiles_bytes
    return found


def _key(one: TileMapping, name: str) -> object:
    return one.stack, name, one.layer, one.homes, tuple(sorted(one.room_bytes.items()))


def _key_of(stack: int, name: str, problem: LayerProblem) -> object:
    return stack, name, problem.layer, problem.homes, tuple(sorted(problem.room_bytes.items()))
