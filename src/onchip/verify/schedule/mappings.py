"""The mappings of loop nests: their legality at the homes of the operands, and their workspaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes, ScheduledMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.errors import AcceleratorError
from onchip.ir.layer import Layer
from onchip.verify.mapping import tile_bits, verify_mapping
from onchip.verify.rules import Rule, Violation
from onchip.verify.schedule.machine import AddressedMachine
from onchip.verify.schedule.setting import NestPrice, NestPrices


@dataclass(frozen=True, slots=True)
class NestAtHomes:
    """A loop nest of a tile operator: its stack, and the homes of its operands while it runs.

    `is_input` is True if the weight is no parameter. The whole weight is then held where inputs may be held
    (`verify/mapping` judges its tiles).
    """

    stack: int
    layer: Layer
    homes: Homes
    is_input: bool

    def __str__(self) -> str:
        where = ", ".join(
            f"{operand} in {self.homes.of(Operand(operand)) or 'dram'}" for operand in self.layer.operands
        )
        return f"a loop nest of {self.layer.macs} multiply-accumulates with {where}"


@dataclass(frozen=True, slots=True)
class PricedNest:
    """The cost of a loop nest under its mapping, and the bits of workspace by addressed memory."""

    price: NestPrice
    workspace_bits: Mapping[str, int]


class MappingsInUse:
    """The mappings of a schedule by stack, loop nest and homes; each is looked at when an operator first runs by it.

    Those of several stacks that are the same are legal, and cost the same, wherever one is.
    """

    def __init__(self, mappings: Sequence[ScheduledMapping], accelerator: Accelerator, nest_prices: NestPrices) -> None:
        self._mappings = mappings
        self._accelerator = accelerator
        self._nest_prices = nest_prices
        self._number = {(one.stack, one.layer, one.homes): number for number, one in enumerate(mappings)}
        self._priced: dict[tuple[int, bool], PricedNest | None] = {}
        self._legal: dict[tuple[Layer, Homes, LayerMapping, bool], PricedNest] = {}
        self.violations: list[Violation] = []

    @property
    def priced(self) -> int:
        """Return the number of priced mappings."""
        return sum(one is not None for one in self._priced.values())

    def run(self, operator: str, nest: NestAtHomes) -> PricedNest | None:
        """Return the cost of a loop nest of the operator; None, and add a violation, without a legal mapping."""
        number = self._number.get((nest.stack, nest.layer, nest.homes))
        if number is None:
            detail = f"stack {nest.stack} has no mapping of {nest}"
            self.violations.append(Violation(Rule.MAPPING_MISSING, operator, detail))
            return None
        if (number, nest.is_input) not in self._priced:
            self._priced[number, nest.is_input] = self._price(number, nest)
        return self._priced[number, nest.is_input]

    def unused(self) -> Iterator[Violation]:
        """Mappings by which nothing has run."""
        used = {number for number, _ in self._priced}
        for number, one in enumerate(self._mappings):
            if number not in used:
                nest = NestAtHomes(one.stack, one.layer, one.homes, is_input=False)
                yield Violation(
                    Rule.MAPPING_UNUSED, f"mapping {number}", f"no Compute of stack {one.stack} runs {nest}"
                )

    def _price(self, number: int, nest: NestAtHomes) -> PricedNest | None:
        one = self._mappings[number]
        key = one.layer, one.homes, one.mapping, nest.is_input
        if key in self._legal:
            return self._legal[key]
        try:
            problem = LayerProblem(one.layer, self._accelerator, one.homes, weight_is_an_input=nest.is_input)
        except AcceleratorError as error:
            self.violations.append(Violation(Rule.NOT_HELD, f"mapping {number}", str(error)))
            return None
        if wrong := verify_mapping(problem, one.mapping):
            self.violations += [replace(each, subject=f"mapping {number}, {each.subject}") for each in wrong]
            return None
        needs = {memory: sum(bits.values()) for memory, bits in tile_bits(problem, one.mapping).items() if bits}
        addressed = {name: needs[name] for name in AddressedMachine(self._accelerator).level if name in needs}
        self._legal[key] = PricedNest(self._nest_prices(problem, one.mapping), addressed)
        return self._legal[key]
