"""A small strategy with its mappings, written by hand, and changes that break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.stacks import OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy, TileMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.ir.window import Window
from onchip.model.accounting.accounting import AccountingName
from onchip.model.accounting.conventions import conventions_of
from onchip.model.group.tile_price import tile_prices_by
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.choice.solve import choices_of
from onchip.transform.groups.stacks import spans_of
from onchip.transform.groups.tile_graph import network_to_replay
from onchip.verify.stack.verifier import ReplayedStrategy, StrategySetting, replay_strategy
from support.fused import level, machine
from support.replayed import costed
from support.stacks import chain

THREE_BY_THREE: Final = Window(3, 1, 1, 1)
CHIP: Final = machine(
    level("weights", 64, Operand.WEIGHT),
    level("near", 200, Operand.INPUT, Operand.OUTPUT),
    level("shared", 4096, pj=4.0),
)


@dataclass(frozen=True, slots=True)
class StrategyCase:
    """A strategy for a network on a chip, counted as DeFiNES does with `as_defines`."""

    network: FusableNetwork
    strategy: FusionStrategy
    chip: Accelerator = CHIP
    as_defines: bool = False

    def replayed(self) -> ReplayedStrategy:
        setting = StrategySetting(network_to_replay(self.network), self.chip, "energy", self.as_defines)
        accounting = AccountingName.DEFINES if self.as_defines else AccountingName.INTERPRETER
        prices = tile_prices_by(accounting.accounting, conventions_of(accounting))
        return replay_strategy(setting, self.strategy, prices)

    def with_mapping(self, at: int, change: Callable[[TileMapping], TileMapping]) -> StrategyCase:
        mappings = list(self.strategy.mappings)
        mappings[at] = change(mappings[at])
        return self.with_mappings(*mappings)

    def with_mappings(self, *mappings: TileMapping) -> StrategyCase:
        return replace(self, strategy=replace(self.strategy, mappings=mappings))


def small_case(*windows: Window, size: int = 6, channels: int = 2, tile: tuple[int, int] = (3, 3)) -> StrategyCase:
    """Return convolutions in one fully cached stack, with one element at a time in each tile's memories."""
    stack = chain(size, *(windows or (THREE_BY_THREE, THREE_BY_THREE)), channels=channels)
    network = FusableNetwork("small", stack.inputs, stack.layers)
    names = tuple(layer.name for layer in network.layers)
    strategy = FusionStrategy((StackStrategy(names, Tiling(*tile, OverlapMode.FULLY_CACHED)),))
    choices = list(choices_of(network, strategy, spans_of(network, [names])))
    return StrategyCase(network, costed(network, CHIP, choices).strategy)


def with_nest(one: TileMapping, *nest: Loop) -> TileMapping:
    """Return the mapping with other loops; every memory keeps one element."""
    kept = (tuple(Kept(each.memory, 0) for each in one.mapping.kept(operand)) for operand in Operand)
    return replace(one, mapping=LayerMapping(nest, *kept))


def with_kept(one: TileMapping, operand: Operand, *kept: Kept) -> TileMapping:
    """Return the mapping with other tiles of an operand."""
    every = {each: one.mapping.kept(each) for each in Operand} | {operand: kept}
    return replace(one, mapping=LayerMapping(one.mapping.nest, *(every[each] for each in Operand)))
