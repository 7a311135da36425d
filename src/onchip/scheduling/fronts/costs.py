"""Costs of fused groups that are counted by tile types, each found once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from onchip.answer.options.fusion_objective import Criteria, FusionObjective, sum_of, value_of
from onchip.answer.options.verb_options import FusionOptions, Placements
from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.errors import InputError
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import composing_method
from onchip.mapping.tile_search.uneven import TemporalMethod
from onchip.model.accounting.accounting import AccountingName
from onchip.model.accounting.conventions import OURS, Conventions, conventions_of
from onchip.model.group.cost import StackCost, stack_cost, tiled_stack
from onchip.model.group.levels import TiledStack
from onchip.model.group.machine import Mapper
from onchip.model.group.sums import FusedSums, moved_sums
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.fronts.mappers import DIVE, LOMA, LayerMapper, MapperInTime, RuleMapper, UnmappableError
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, stack_of


@dataclass(slots=True)
class StackCosts:
    """The costs of choices, cached, with the reasons why others are infeasible; `mapper` must cache its answers."""

    network: FusableNetwork
    accelerator: Accelerator
    objective: FusionObjective
    mapper: Mapper
    conventions: Conventions = OURS
    costing: Costing | None = None
    """The question that these costs answer."""
    found: dict[StackChoice, StackCost] = field(default_factory=dict)
    refusals: dict[StackChoice, InputError] = field(default_factory=dict)
    _tiled: dict[tuple[LayerSpan, Tiling], TiledStack] = field(default_factory=dict)

    def value(self, choice: StackChoice) -> int | None:
        """Return the value of a group alone, None if no tile fits; raises CostingStoppedError if the run must stop."""
        criteria = self.criteria(choice)
        return None if criteria is None else value_of(criteria)

    def criteria(self, choice: StackChoice) -> Criteria | None:
        """Return the cost of a group in whole numbers, None if no tile fits.

        Raises CostingStoppedError if the run must stop.
        """
        if choice not in self.found and choice not in self.refusals:
            try:
                self.found[choice] = self.cost(choice)
            except UnmappableError:
                raise
            except InputError as error:
                self.refusals[choice] = error
        return criteria_of(self.objective, self.found[choice].sums) if choice in self.found else None

    def cost(self, choice: StackChoice) -> StackCost:
        """Return the cost of a choice; raises InputError if nothing fits."""
        key, homes = (choice.span, choice.tiling), dict(choice.homes)
        if key not in self._tiled:
            self._tiled[key] = tiled_stack(stack_of(self.network, choice.span), choice.tiling, self.conventions)
        tiled = self._tiled[key]
        stack = tiled.stack
        read = {one.name for one in stack.inputs}
        maps, resident_bits = self.network.maps, dict[str, int]()
        for name, memory in choice.homes:
            if name not in read:
                resident_bits[memory] = resident_bits.get(memory, 0) + maps[name].size_bits
        return stack_cost(
            stack,
            self.accelerator,
            choice.tiling,
            self.mapper,
            self.conventions,
            {name: memory for name, memory in homes.items() if name in read},
            choice.output_home,
            resident_bits,
            tiled,
        )

    @property
    def method(self) -> str:
        """Return the name of the method that maps layers."""
        return "" if self.costing is None else self.costing.mapper

    @property
    def moved(self) -> Criteria:
        """Return the cost of the operators outside fused groups, which is the same for every strategy."""
        moved = moved_sums(self.network.moved, self.accelerator)
        return sum_of([self.objective.zero, *(criteria_of(self.objective, one) for one in moved)])

    @contextmanager
    def untimed(self) -> Iterator[None]:
        """Within the context, mappings are found even if the time is over; Ctrl-C still ends them."""
        mapper = self.mapper
        if isinstance(mapper, MapperInTime):
            self.mapper = mapper.untimed()
        try:
            yield
        finally:
            self.mapper = mapper

    def learn(self, choices: Sequence[StackChoice]) -> None:
        """Find the costs of all choices; raises CostingStoppedError if the run must stop."""
        for one in choices:
            self.criteria(one)


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
        """Return the same question with a mapper that takes milliseconds."""
        mapper = DIVE if self.accounting is AccountingName.INTERPRETER and self.mapper != LOMA else LOMA
        return replace(self, mapper=mapper, use_cache=False)

    def costs(self, run: Run) -> StackCosts:
        """Return the costs of groups in this process, each mapping searched once, until the run stops.

        In DeFiNES's accounting nothing is cached between runs.
        """
        objective = self.objective.of_layers
        if self.accounting is AccountingName.DEFINES:
            mapper: RuleMapper | LayerMapper = RuleMapper(TemporalMethod(self.mapper), objective, run)
        else:
            cache = MappingCache.opened() if self.use_cache else None
            mapper = LayerMapper(composing_method(self.mapper), objective, run, cache)
        conventions = conventions_of(self.accounting)
        return StackCosts(self.network, self.accelerator, self.objective, MapperInTime(mapper, run), conventions, self)


def criteria_of(objective: FusionObjective, sums: FusedSums) -> Criteria:
    """Return the cost of a group in whole numbers, one per criterion of the objective."""
    return objective.criteria(sums.stated_energy_pj, sums.cycles, dram_bits_of(sums))


def dram_bits_of(sums: FusedSums) -> int:
    """Return the bits that DRAM reads and writes."""
    return sums.moved_bits.get(DRAM, 0)
