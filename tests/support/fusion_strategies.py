"""Strategies: random ones with their mappings and costs, and a small one by hand with changes that break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Final
from zlib import crc32

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import FusionObjective, sum_of, value_of
from onchip.answer.stacks import OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy, StrategyFigures, TileMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Operand, Port
from onchip.errors import InputError
from onchip.ir.window import Window
from onchip.model.accounting.accounting import INTERPRETER, AccountingName
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions, conventions_of
from onchip.model.group.cost import StackCost, peak_bytes_of, tile_prices_by
from onchip.model.group.machine import Mapper
from onchip.model.group.sums import total
from onchip.model.layer.cost import LayerCost
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.fronts.costs import StackCosts, dram_bits_of
from onchip.scheduling.search.fusion import strategy_of
from onchip.transform.groups.stacks import LayerSpan, StackChoice, spans_of
from onchip.transform.groups.tile_graph import layers_in_network, network_to_replay
from onchip.verify.stack.verifier import ReplayedStrategy, StrategySetting, replay_strategy
from onchip.verify.strategy import verify_strategy
from support.fused import READ_AND_WRITE, level, machine, plain
from support.stacks import chain, legal_spans, random_stack


@dataclass(frozen=True, slots=True)
class CostedStrategy:
    """A strategy with its mappings, and the costs that the search would state."""

    network: FusableNetwork
    accelerator: Accelerator
    strategy: FusionStrategy
    costs: tuple[StackCost, ...]
    conventions: Conventions = OURS

    def figures(self, objective: FusionObjective) -> StrategyFigures:
        sums = total(cost.sums for cost in self.costs)
        criteria = [
            objective.criteria(one.sums.energy_pj, one.sums.cycles, dram_bits_of(one.sums)) for one in self.costs
        ]
        return StrategyFigures(
            value_of(sum_of(criteria)),
            sums.energy_pj,
            sums.cycles,
            sums.macs,
            sum(dram_bits_of(one.sums) for one in self.costs),
            sums.energies_by_name_pj,
            peak_bytes_of(self.costs),
        )

    def replayed(
        self, strategy: FusionStrategy | None = None, objective: FusionObjective = FusionObjective.ENERGY
    ) -> ReplayedStrategy:
        as_defines = self.conventions == DEFINES
        setting = StrategySetting(network_to_replay(self.network), self.accelerator, objective, as_defines)
        return replay_strategy(setting, strategy or self.strategy, tile_prices_by(INTERPRETER, self.conventions))


def choosy(problem: LayerProblem) -> LayerCost | None:
    """Map as `plain` does, except for a third of all problems, which get no mapping."""
    return None if crc32(repr((problem.layer, problem.homes)).encode()) % 3 == 0 else plain(problem)


def costed(
    network: FusableNetwork,
    accelerator: Accelerator,
    choices: Sequence[StackChoice],
    mapper: Mapper = plain,
    conventions: Conventions = OURS,
) -> CostedStrategy:
    """Return the strategy with its costs; raises InputError if nothing fits."""
    costs = StackCosts(network, accelerator, FusionObjective.ENERGY, cache(mapper), conventions)
    found = tuple(costs.cost(choice) for choice in choices)
    return CostedStrategy(network, accelerator, strategy_of(network, choices, found), found, conventions)


def random_network(seed: int) -> FusableNetwork:
    stack = random_stack(seed)
    return FusableNetwork("random", stack.inputs, stack.layers)


PORTS: Final = (
    (),
    READ_AND_WRITE,
    (Port(Direction.READ_WRITE, 16),),
    (Port(Direction.READ, 64), Port(Direction.WRITE, 8), Port(Direction.READ, 64), Port(Direction.WRITE, 8)),
    (Port(Direction.READ, 64), Port(Direction.WRITE, 8), Port(Direction.READ, 24), Port(Direction.WRITE, 40)),
)


def with_any_ports(random: Random, accelerator: Accelerator) -> Accelerator:
    """Return the machine with random ports and accesses, which may have only one length."""
    levels = tuple(
        replace(
            one,
            ports=random.choice(PORTS),
            access=Access(16, random.choice((1.7, 2.3)), random.choice((3.1, 4.9)), random.choice((None, 8, 4))),
        )
        for one in accelerator.levels
    )
    return replace(accelerator, levels=levels)


def random_machine(random: Random) -> Accelerator:
    """Return a machine with a weight memory, and two or three feature memories; one may hold weights too."""
    sizes = sorted(int(2 ** random.uniform(4, 12)) for _ in range(3))
    features = Operand.INPUT, Operand.OUTPUT
    kinds = [features, (Operand.INPUT,), (Operand.OUTPUT,), tuple(Operand)]
    found = machine(
        level("weights", random.choice((2, 40, 200, 4000)), Operand.WEIGHT),
        *(level(f"m{at}", size, *random.choice(kinds[:3]), pj=1.7 + at) for at, size in enumerate(sizes[:2])),
        level("m2", sizes[2] + 4, *random.choice((features, tuple(Operand))), pj=4.3),
    )
    return with_any_ports(random, found)


def random_strategy(seed: int, conventions: Conventions = OURS) -> CostedStrategy:
    """Return random stacks, tiles and homes on a machine where they fit; reproducible for a seed."""
    random = Random(seed)
    while True:
        found = _drawn_strategy(random, conventions)
        if found is not None:
            return found


def _drawn_strategy(random: Random, conventions: Conventions) -> CostedStrategy | None:
    """Return a random strategy, or None if it is illegal or does not fit."""
    network, accelerator = random_network(random.randrange(10**6)), random_machine(random)
    spans, start, choices = legal_spans(network), 0, list[StackChoice]()
    memories = ["dram", *(one.memory.name for one in accelerator.levels[1:])]
    while start < len(network.layers):
        span = random.choice(sorted(one for one in spans if one.start == start)[: random.choice((1, 1, 9))])
        choices.append(StackChoice(span, _tiling(random, network, span), (), random.choice(memories)))
        start = span.stop
    strategy = strategy_of(network, choices)
    if verify_strategy(layers_in_network(network), accelerator, strategy):
        return None
    try:
        found = list(choices_of(network, strategy, [one.span for one in choices]))
        return costed(network, accelerator, found, random.choice((plain, choosy)), conventions)
    except InputError:
        return None


def _tiling(random: Random, network: FusableNetwork, span: LayerSpan) -> Tiling:
    output = network.layers[span.stop - 1].output
    columns, rows = random.randint(1, output.columns), random.randint(1, output.rows)
    return Tiling(columns, rows, random.choice(tuple(OverlapMode)))


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


def choices_of(network: FusableNetwork, strategy: FusionStrategy, spans: Sequence[LayerSpan]) -> Iterator[StackChoice]:
    """Yield the groups of a strategy, which are `spans`, each with the maps resident during it."""
    homes: dict[str, str] = {}
    for span, stack in zip(spans, strategy.stacks, strict=True):
        read = {read.source for layer in network.layers[span.start :] for read in layer.reads}
        alive = {layer.output.name for layer in network.layers[: span.start]} & read
        kept = tuple((name, memory) for name, memory in homes.items() if name in alive)
        yield StackChoice(span, stack.tiling, kept, stack.output_home)
        if stack.output_home != DRAM:
            homes[network.layers[span.stop - 1].output.name] = stack.output_home
