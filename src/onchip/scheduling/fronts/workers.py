"""Costs of fused groups with worker processes that map layers; this process caches all mappings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import Criteria, FusionObjective
from onchip.answer.options.fusion_options import FusionOptions, Placements
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.accelerator import Accelerator
from onchip.bounds.group.bounds import StackBounds
from onchip.bounds.group.given_unrolling import GivenUnrolling
from onchip.bounds.group.problem_floors import ProblemFloors
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import AnyUnrolling, Sharing
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import composing_method
from onchip.mapping.tile_search.uneven import TemporalMethod, unrolling_groups, unrollings_for
from onchip.model.accounting.accounting import AccountingName
from onchip.model.accounting.conventions import conventions_of
from onchip.model.group.mapper import Mapper, Memoized
from onchip.model.layer.cost import LayerCost
from onchip.model.layer.latency import Latency
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.fronts.cost_table import CostingStoppedError
from onchip.scheduling.fronts.costs import Rehearsal, StackCosts
from onchip.scheduling.fronts.mappers import DIVE, EXACT, LOMA, LayerMapper, MapperInTime, RuleMapper
from onchip.scheduling.fronts.roomier import Roomier, RoomierFirst
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.pool import TaskPool, processes
from onchip.transform.groups.stacks import StackChoice

SECONDS_BETWEEN_LOOKS: Final = 0.1


@dataclass(frozen=True, slots=True)
class TileMethod:
    """A mapping method for tile layers, with its objective and accounting."""

    method: str
    objective: MappingObjective
    use_cache: bool
    accounting: AccountingName

    def mapper(self, run: Run) -> Mapper:
        """Return a mapper that stops with the run; in DeFiNES's accounting nothing is cached between runs."""
        if self.accounting is AccountingName.DEFINES:
            return RuleMapper(TemporalMethod(self.method), self.objective, run)
        cache = MappingCache.opened() if self.use_cache else None
        return LayerMapper(composing_method(self.method), self.objective, run, cache)

    def answer(self, question: tuple[LayerProblem, Limits]) -> LayerCost | None:
        """Return the cost of a layer within limits that start now; raises the mapper's errors."""
        problem, limits = question
        return self.mapper(Run(limits))(problem)


@dataclass(frozen=True, slots=True)
class Costing:
    """The question to cost: network, machine and objective, with the mapping method and accounting."""

    network: FusableNetwork
    accelerator: Accelerator
    objective: FusionObjective
    mapper: str
    use_cache: bool = True
    accounting: AccountingName = AccountingName.INTERPRETER

    def within(self, options: FusionOptions) -> FusionOptions:
        """Return the options that the conventions allow: DeFiNES keeps maps between groups in DRAM."""
        always_dram = conventions_of(self.accounting).maps_between_stacks_are_in_dram
        return replace(options, placements=Placements.DRAM) if always_dram else options

    @property
    def quick(self) -> Costing:
        """Return the same question with a mapper that takes milliseconds and has the same bounds."""
        mapper = DIVE if self.accounting is AccountingName.INTERPRETER and self.mapper != LOMA else LOMA
        return replace(self, mapper=mapper, use_cache=False)

    def costs(self, run: Run, known_bounds: StackBounds | None = None) -> StackCosts:
        """Return the costs of groups in this process, each mapping searched once, until the run stops."""
        known: dict[LayerProblem, LayerCost | None] = {}
        mapper = self.mapping.mapper(run)
        memory = Memoized(RoomierFirst(mapper, Roomier(known)) if self._proves else mapper, known)
        return StackCosts(
            self.network,
            self.accelerator,
            self.objective,
            MapperInTime(memory, run),
            conventions_of(self.accounting),
            self._sharing,
            self.rehearsal(memory),
            known_bounds,
        )

    def rehearsal(self, memory: Memoized) -> Rehearsal | None:
        """Return a rehearsal for tight bounds from cached costs; None for mappers without a proof."""
        if self.mapper not in (EXACT, DIVE) or self.accounting is not AccountingName.INTERPRETER:
            return None
        by_energy = self._proves and self.objective.of_layers is MappingObjective.ENERGY
        return Rehearsal(ProblemFloors(MachineFloors(self.accelerator, self._sharing)), memory.known, by_energy)

    @property
    def _proves(self) -> bool:
        """Return True if mappings are optimal in a mapspace that shrinks with less capacity."""
        return self.mapper == EXACT and self.accounting is AccountingName.INTERPRETER

    @property
    def mapping(self) -> TileMethod:
        """Return the mapping method for tile layers."""
        return TileMethod(self.mapper, self.objective.of_layers, self.use_cache, self.accounting)

    @property
    def _sharing(self) -> Sharing:
        if self.accounting is AccountingName.DEFINES:
            return GivenUnrolling(unrolling_groups(self.accelerator), unrollings_for)
        return AnyUnrolling(self.accelerator, every_memory_keeps=True, divides_loops=self.mapper in (EXACT, DIVE))


@contextmanager
def costs_of(
    costing: Costing, run: Run, pool: TaskPool | None = None, known_bounds: StackBounds | None = None
) -> Iterator[StackCosts]:
    """Yield the costs; the pool, or one process per worker of the run, maps layers until the context ends."""
    costs = costing.costs(run, known_bounds)
    if pool is None and run.limits.workers == 1:
        yield costs
        return
    memory = Memoized(costs.mapper)
    with processes(run.limits.workers) if pool is None else nullcontext(pool) as own:
        yield _CostsByPool(
            costing.network,
            costing.accelerator,
            costing.objective,
            MapperInTime(memory, run),
            costs.conventions,
            costs.sharing,
            costing.rehearsal(memory),
            costs.known_bounds,
            memory=memory,
            mapping=costing.mapping,
            pool=own,
            run=run,
        )


@dataclass(slots=True)
class _CostsByPool(StackCosts):
    """The costs of groups that first collect the layers to map and then map several at a time."""

    memory: Memoized = field(kw_only=True)
    mapping: TileMethod = field(kw_only=True)
    pool: TaskPool = field(kw_only=True)
    run: Run = field(kw_only=True)

    def costs(self, choices: Sequence[StackChoice]) -> list[Criteria | None]:
        """Return the costs of choices; raises CostingStoppedError if the run stops first."""
        limits = replace(self.run.limits_left, workers=1)
        asked = self._asked(choices)
        pending = [self.pool.submit(self.mapping.answer, (problem, limits)) for problem in asked]
        for problem, one in zip(asked, pending, strict=True):
            while not one.ready():
                if self.run.stop is not None:
                    raise CostingStoppedError
                one.wait(SECONDS_BETWEEN_LOOKS)
            self.memory.known[problem] = one.get()
        return StackCosts.costs(self, choices)

    def _asked(self, choices: Sequence[StackChoice]) -> list[LayerProblem]:
        """Return the unknown layers, assuming that everything fits at its first level."""
        recorder = _Recorder(self.memory)
        rehearsal = StackCosts(self.network, self.accelerator, self.objective, recorder, self.conventions)
        rehearsal.costs(choices)
        return list(recorder.asked)


@dataclass(slots=True)
class _Recorder:
    """A mapper that records its questions and returns a dummy for unknown ones."""

    memory: Memoized
    asked: dict[LayerProblem, None] = field(default_factory=dict)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        if problem in self.memory.known:
            return self.memory.known[problem]
        self.asked[problem] = None
        return _NOT_YET


_NOT_YET: Final = LayerCost(LayerMapping(()), 0, (), {}, 0.0, Latency(0, 0, 0, 0, 0, 0), 1)
