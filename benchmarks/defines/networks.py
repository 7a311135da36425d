"""DeFiNES's case studies 2 and 3: networks on machines, by strategy, several of them at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from multiprocessing import get_context
from typing import Final

from defines import published
from defines.mappers import Answers, Clock, TileMapper, machine, network

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.fusion_options import FusionOptions
from onchip.answer.options.tile_sizes import CASE_STUDY_COLUMNS, CASE_STUDY_ROWS, TileSizes
from onchip.answer.result import Status
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.model.accounting.conventions import Conventions
from onchip.model.group.cost import stack_cost
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.scheduling.choice.solve import solve_fusion
from onchip.scheduling.fronts.costs import StackCosts
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.stacks import (
    greedy_stacks,
    one_stack,
    single_layers,
    stack_of,
    weight_capacity_bits,
    whole,
)

SINGLE: Final = "single layers"
LAYER_BY_LAYER: Final = "layer by layer"
FIXED: Final = "4x72 fully-cached"
ONE_TILING: Final = "best single"
OWN_TILINGS: Final = "best combination"
ANY_CUTS: Final = "any cuts"
GREEDY: Final = (FIXED, ONE_TILING, OWN_TILINGS)
ROUNDING: Final = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Cell:
    """A network on a machine; `seconds` are for the search of ANY_CUTS, which is not made with 0."""

    network: str
    machine: str
    mapper: TileMapper
    conventions: Conventions
    seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """`tilings` are those of stacks of several layers."""

    energy_pj: float = inf
    cycles: float = inf
    tilings: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Costs of each strategy in a cell; status, gap and `worse` belong to ANY_CUTS."""

    cell: Cell
    found: Mapping[str, Figures]
    stacks: int
    mappings: int
    seconds: float
    cpu_seconds: float
    searched_seconds: float
    status: Status | None = None
    gap: float = 0.0
    worse: tuple[str, ...] = field(default=())


def rows_of(cells: Sequence[Cell], workers: int) -> Iterator[Row]:
    """Yield the rows as they are done."""
    if workers == 1:
        yield from map(row_of, cells)
        return
    with get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(row_of, cells)


def row_of(cell: Cell) -> Row:
    """Compute all strategies of a network on a machine."""
    clock = Clock()
    study = _Study(network(cell.network), machine(cell.machine), Answers(cell.mapper), cell.conventions)
    found = study.strategies()
    seconds, cpu_seconds, status, gap = clock.seconds, clock.cpu_seconds, None, 0.0
    if cell.seconds:
        found[ANY_CUTS], status, gap = study.searched(cell.seconds)
    best = found[ANY_CUTS].energy_pj if ANY_CUTS in found else -inf
    worse = tuple(name for name, one in found.items() if one.energy_pj * ROUNDING < best)
    searched, made = clock.seconds - seconds, len(study.answers.known)
    return Row(cell, found, len(study.stacks), made, seconds, cpu_seconds, searched, status, gap, worse)


@dataclass(slots=True)
class _Study:
    """Maps between stacks lie in DRAM, but for the search's; stacks of one layer run as one tile."""

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
        shared = {tiling: [self._cost(stack, tiling) for stack in self.stacks] for tiling in case_study_tilings()}
        own = [min(each, key=_energy) for each in zip(*shared.values(), strict=True)]
        return {
            SINGLE: _total([self._cost(stack, whole(stack.output)) for stack in alone]),
            LAYER_BY_LAYER: _total([self._cost(stack, whole(stack.output)) for stack in together]),
            FIXED: _total(shared[published.BEST]),
            ONE_TILING: min((_total(each) for each in shared.values()), key=_energy),
            OWN_TILINGS: _total(own),
        }

    def searched(self, seconds: float) -> tuple[Figures, Status, float]:
        """Any cuts and homes of maps, in tiles of the same sizes; its gap."""
        sharing = self.answers.mapper.sharing(self.accelerator)
        given = self.network, self.accelerator, FusionObjective.ENERGY, self.answers, self.conventions
        costs = StackCosts(*given, sharing)
        run = Run(Limits(time_limit_seconds=seconds))
        found = solve_fusion(self.network, self.accelerator, FusionOptions(tile_sizes=TileSizes.CASE_STUDY), costs, run)
        parts = [
            Figures(cost.sums.energy_pj, cost.sums.cycles, str(choice.tiling) if choice.span.length > 1 else "")
            for choice, cost in found.stacks
        ]
        return _total(parts) if parts else Figures(), found.result.status, found.result.gap or 0.0

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


def case_study_tilings() -> list[Tiling]:
    """Return the tilings of figure 12, and one tile of any map's size."""
    sizes = [(columns, rows) for columns in CASE_STUDY_COLUMNS for rows in CASE_STUDY_ROWS]
    tilings = [Tiling(columns, rows, mode) for mode in OverlapMode for columns, rows in sizes]
    return [*tilings, Tiling(1 << 20, 1 << 20, OverlapMode.RECOMPUTE)]


def _energy(figures: Figures) -> float:
    return figures.energy_pj


def _total(parts: Sequence[Figures]) -> Figures:
    tilings = ", ".join(dict.fromkeys(one.tilings for one in parts if one.tilings))
    return Figures(sum(one.energy_pj for one in parts), sum(one.cycles for one in parts), tilings)
