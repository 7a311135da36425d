"""By which mapping of a strategy each layer of a tile runs, whether it is legal, and what it costs."""

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
    """What a loop nest of a tile costs by its mapping: energies in pJ, cycles, and the bits that DRAM moves."""

    @property
    def memory_energy_pj(self) -> Mapping[tuple[str, str], float | None]:
        """Return the energy in pJ by memory and operand, None where the machine does not state it."""

    @property
    def mac_energy_pj(self) -> float | None:
        """Return the energy of all multiply-accumulates in pJ, or None if the machine does not state it."""

    @property
    def cycles(self) -> float:
        """From its beginning to its end, its own preloading and offloading among them."""

    @property
    def dram_bits(self) -> int:
        """What DRAM reads and writes."""


TilePrices: TypeAlias = Callable[[LayerProblem, LayerMapping], TilePrice]
"""The model that prices a mapping; it is asked once for each that is legal, and raises MappingError for no room."""


@dataclass(frozen=True, slots=True)
class PricedTile:
    """What a layer costs in a tile, and by memory the bytes of one instance that others and its own tiles take."""

    price: TilePrice
    taken_bytes: Mapping[str, int]


class MappingsOfStrategy:
    """The mappings of a strategy by stack, layer, loop nest, homes and room; each is looked at once, where it is used.

    With `counts_parts` units work in parts, as DeFiNES has it: its rule lets every dimension of the array unroll
    groups, loops may run longer than the layer's, and capacities are the cost model's to measure.
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
        """How many have been priced."""
        return len({number for (number, _), one in self._priced.items() if one is not None})

    def has(self, stack: int, name: str, problem: LayerProblem) -> bool:
        """Whether there is a mapping for a layer of a tile."""
        return _key_of(stack, name, problem) in self._numbers

    def run(self, stack: int, name: str, problem: LayerProblem) -> PricedTile | None:
        """What a layer costs by the mapping that there is; None, and a violation, where that is not legal."""
        number = self._numbers[_key_of(stack, name, problem)]
        self._used.add((number, name))
        key = number, problem.weight_is_an_input
        if key not in self._priced:
            self._priced[key] = self._price(number, problem)
        return self._priced[key]

    def unused(self) -> Iterator[Violation]:
        """Mappings, and names of layers among them, by which nothing has run."""
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
    """By memory the bytes of one instance that are not left to tiles, and those that the tiles take."""
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
