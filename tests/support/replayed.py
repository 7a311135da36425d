"""Strategies of small random networks with their mappings, and their costs by the cost model of stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final
from zlib import crc32

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import FusionObjective, sum_of, value_of
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import FusionStrategy, StrategyFigures
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Direction, Operand, Port
from onchip.errors import InputError
from onchip.model.accounting.accounting import INTERPRETER
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.cost import StackCost
from onchip.model.group.mapper import Mapper, Memoized
from onchip.model.group.peaks import peak_bytes_of
from onchip.model.group.sums import total
from onchip.model.group.tile_price import tile_prices_by
from onchip.model.layer.cost import LayerCost
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.choice.solve import choices_of, strategy_of
from onchip.scheduling.fronts.costs import StackCosts, dram_bits_of
from onchip.transform.groups.stacks import LayerSpan, StackChoice, legal_spans
from onchip.transform.groups.tile_graph import layers_in_network, network_to_replay
from onchip.verify.stack.verifier import ReplayedStrategy, StrategySetting, replay_strategy
from onchip.verify.strategy import verify_strategy
from support.fused import READ_AND_WRITE, level, machine, plain
from support.stacks import random_stack


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
    costs = StackCosts(network, accelerator, FusionObjective.ENERGY, Memoized(mapper), conventions)
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
