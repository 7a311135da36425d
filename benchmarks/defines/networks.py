"""DeFiNES's case studies 2 and 3: networks on machines, by strategy, several of them at a time."""

from __future__ import annotations

import resource
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from multiprocessing import get_context
from time import perf_counter, process_time
from typing import Final

from defines import published
from defines.fsrcnn import case_study_tilings
from defines.mappers import Answers, TileMapper, machine, network
from shared.runner import Row

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.verb_options import FusionOptions, TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.cost import stack_cost
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.search.fusion import best_strategy
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.stacks import (
    greedy_stacks,
    one_stack,
    single_layers,
    stack_of,
    weight_capacity_bits,
    whole,
)

ANY_CUTS: Final = "any cuts"
ROUNDING: Final = 1 + 1e-9
WHOLE: Final = Tiling(1 << 20, 1 << 20, OverlapMode.RECOMPUTE)


@dataclass(frozen=True, slots=True)
class Cell:
    """A network on a machine; `seconds` are for the search of any cuts, which is left out with 0."""

    network: str
    machine: str
    mapper: TileMapper
    conventions: Conventions
    seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Costs of a strategy; `tilings` are those of stacks of several layers."""

    energy_pj: float = inf
    cycles: float = inf
    tilings: str = ""


def case_study(asked: Namespace, mapper: TileMapper, machines: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each network, unpadded as DeFiNES ships it or real, on each machine.

    DeFiNES's mapper works by its conventions and in its space; others by ours, with any cuts.
    """
    conventions, seconds = (DEFINES, 0.0) if mapper.name == "loma" else (OURS, asked.seconds)
    names = [f"{name}-defines" * (kind == "unpadded") or name for kind in asked.networks for name in published.NETWORKS]
    cells = [Cell(name, one, mapper, conventions, seconds) for one in machines for name in names]
    if asked.workers == 1:
        yield from map(row_of, cells)
        return
    with get_context("spawn").Pool(asked.workers, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(row_of, cells)


def row_of(cell: Cell) -> Row:
    """Compute all strategies of a network on a machine; `worse` are strategies that the search should have found."""
    started, used = perf_counter(), process_time()
    study = _Study(network(cell.network), machine(cell.machine), Answers(cell.mapper), cell.conventions)
    found = study.strategies()
    seconds, cpu_seconds, status, gap = perf_counter() - started, process_time() - used, None, 0.0
    if cell.seconds:
        found[ANY_CUTS], status, gap = study.searched(cell.seconds)
    best = found[ANY_CUTS].energy_pj if ANY_CUTS in found else -inf
    return {
        "cell": {"network": cell.network, "machine": cell.machine, "mapper": cell.mapper.name},
        "found": {name: asdict(one) for name, one in found.items()},
        "stacks": len(study.stacks),
        "mappings": len(study.answers.known),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "status": status,
        "gap": gap,
        "worse": [name for name, one in found.items() if one.energy_pj * ROUNDING < best],
    }


@dataclass(slots=True)
class _Study:
    """Feature maps between stacks lie in DRAM, except in the search; stacks of one layer run as one tile."""

    network: FusableNetwork
    accelerator: Accelerator
    answers: Answers
    conventions: Conventions
    stacks: list[Stack] = field(init=False)
    _known: dict[tuple[str, str, Tiling], Figures] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        spans = greedy_stacks(self.network, weight_capacity_bits(self.accelerator))
        self.stacks = [stack_of(self.network, span) for span in spans]

    def strategies(self) -> dict[str, Figures]:
        """Return the figures of all strategies except the search."""
        alone = [stack_of(self.network, span) for span in single_layers(self.network)]
        together = [stack_of(self.network, span) for span in one_stack(self.network)]
        tilings = [*case_study_tilings(), WHOLE]
        shared = {tiling: [self._cost(stack, tiling) for stack in self.stacks] for tiling in tilings}
        own = [min(each, key=_energy) for each in zip(*shared.values(), strict=True)]
        return {
            "single layers": _total([self._cost(stack, whole(stack.output)) for stack in alone]),
            "layer by layer": _total([self._cost(stack, whole(stack.output)) for stack in together]),
            "4x72 fully-cached": _total(shared[published.BEST]),
            "best single": min((_total(each) for each in shared.values()), key=_energy),
            "best combination": _total(own),
        }

    def searched(self, seconds: float) -> tuple[Figures, str, float]:
        """Search any cuts and homes of feature maps, in tiles of the same sizes; return its status and gap, too."""
        given = self.network, self.accelerator, FusionObjective.ENERGY, self.answers, self.conventions
        options, run = FusionOptions(tile_sizes=TileSizes.CASE_STUDY), Run(Limits(time_limit_seconds=seconds))
        found = best_strategy(StackCosts(*given), options, run)
        parts = [
            Figures(cost.sums.energy_pj, cost.sums.cycles, str(choice.tiling) if choice.span.length > 1 else "")
            for choice, cost in found.stacks
        ]
        return _total(parts) if parts else Figures(), str(found.result.status), found.result.gap or 0.0

    def _cost(self, stack: Stack, tiling: Tiling) -> Figures:
        """Infinite where nothing fits."""
        output, is_fused = stack.output, len(stack.layers) > 1
        own = tiling.within(output.columns, output.rows) if is_fused else whole(output)
        key = stack.layers[0].name, output.name, own
        if key not in self._known:
            try:
                sums = stack_cost(stack, self.accelerator, own, self.answers, self.conventions).sums
                self._known[key] = Figures(sums.energy_pj, sums.cycles, str(own) if is_fused else "")
            except InputError:
                self._known[key] = Figures()
        return self._known[key]


def _energy(figures: Figures) -> float:
    return figures.energy_pj


def _total(parts: Sequence[Figures]) -> Figures:
    tilings = ", ".join(dict.fromkeys(one.tilings for one in parts if one.tilings))
    return Figures(sum(one.energy_pj for one in parts), sum(one.cycles for one in parts), tilings)
