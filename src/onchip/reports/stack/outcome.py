"""What `fuse` found, as it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onchip.answer.document import StrategyDocument
from onchip.answer.result import Result
from onchip.answer.stacks import StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy, StrategyFigures
from onchip.arch.accelerator import Accelerator
from onchip.model.group.cost import StackCost
from onchip.model.group.sums import FusedLatency, FusedSums, total
from onchip.ops.derive.fusable import FusableNetwork, Stack
from onchip.ops.derive.layers_of import LeftOut


@dataclass(frozen=True, slots=True)
class TilingValue:
    """What a stack costs in these tiles, in the unit of the objective, or at least."""

    tiling: Tiling
    value: int
    is_costed: bool


@dataclass(frozen=True, slots=True)
class CostedStack:
    """A stack of the strategy with what it costs, in its tiles and in all others that were looked at."""

    strategy: StackStrategy
    stack: Stack
    cost: StackCost
    tilings: tuple[TilingValue, ...] = ()

    @property
    def named(self) -> str:
        """Its layer, or the first and the last one."""
        layers = self.strategy.layers
        return layers[0] if len(layers) == 1 else f"{layers[0]} \u2013 {layers[-1]}"


@dataclass(frozen=True, slots=True)
class OutsideOperator:
    """An operator that runs beside the stacks, on tensors in DRAM: why, and what moving these costs.

    Its multiply-accumulates, if it is a contraction, are `macs_not_costed`.
    """

    left_out: LeftOut
    sums: FusedSums
    written_elements: int
    macs_not_costed: int = 0


@dataclass(frozen=True, slots=True)
class FusionOutcome:
    """`figures` and `document` are None where there is no strategy; `why_not` says why.

    `mapper` has mapped the layers of the strategy. There are no stacks where all operators are `outside`. Of the
    network's `operators` some are neither layers nor outside: views, through which layers see.
    """

    source: str
    network: FusableNetwork
    accelerator: Accelerator
    mapper: str
    objective: str
    unit: str
    result: Result[FusionStrategy]
    space: str
    costed: int
    stacks: tuple[CostedStack, ...] = ()
    figures: StrategyFigures | None = None
    document: StrategyDocument | None = None
    why_not: str | None = None
    accounting: str = "interpreter"
    outside: tuple[OutsideOperator, ...] = ()
    operators: int = 0

    @property
    def answer(self) -> FusionStrategy | None:
        """The strategy; None where there is none."""
        return self.result.answer

    @property
    def gap(self) -> float | None:
        """How far the strategy may be from the best, by its objective value; None where there is none."""
        return self.result.gap

    @property
    def sums(self) -> FusedSums:
        """The sums of all stacks and of what is outside of them: energies, cycles, accesses."""
        return total((*(one.cost.sums for one in self.stacks), *(one.sums for one in self.outside)))

    @property
    def bars(self) -> tuple[tuple[str, FusedSums], ...]:
        """The stacks by their labels, number, first and last layer, and what is outside of all of them together."""
        found = [(f"{at}: {one.named}", one.cost.sums) for at, one in enumerate(self.stacks)]
        outside = [("outside", total(one.sums for one in self.outside))] if self.outside else []
        return (*found, *outside)

    @property
    def latency(self) -> FusedLatency:
        """The cycles of all stacks and of what is outside of them, in their parts."""
        return self.sums.latency

    @property
    def tile_types(self) -> int:
        """The number of kinds of tiles of all stacks."""
        return sum(one.cost.tile_types for one in self.stacks)

    @property
    def tiles(self) -> int:
        """The number of tiles of all stacks."""
        return sum(one.cost.tiles for one in self.stacks)

    def layer_of_each(self) -> Iterator[tuple[int, str]]:
        """The place of its stack, and the name, of every layer."""
        for at, one in enumerate(self.stacks):
            for layer in one.stack.layers:
                yield at, layer.name
