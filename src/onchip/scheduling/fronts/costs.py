"""The cost model of fused groups as an oracle for the search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import Criteria, FusionObjective, value_of
from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.group.bounds import StackBounds
from onchip.bounds.group.problem_floors import ProblemFloors, surely_maps, surely_maps_not
from onchip.bounds.layer.unit_shares import AnyUnrolling, Sharing
from onchip.errors import InputError
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.cost import StackCost, stack_cost, tiled_stack
from onchip.model.group.levels import TiledStack
from onchip.model.group.mapper import Mapper
from onchip.model.group.sums import FusedSums
from onchip.model.layer.cost import LayerCost
from onchip.model.layer.latency import Latency
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.fronts.cost_table import UnsureError
from onchip.scheduling.fronts.mappers import UnmappableError
from onchip.scheduling.fronts.roomier import Roomier
from onchip.transform.groups.stacks import LayerSpan, StackChoice, stack_of

PROVEN: Final = (OURS, DEFINES)
"""Conventions with proven bounds."""


@dataclass(slots=True)
class StackCosts:
    """The costs of choices, cached, with the reasons why others are infeasible; `mapper` must cache its answers.

    `sharing` restricts the unrollings of the mapper; by default any mapping is possible, in the interpreter's
    accounting. With a `rehearsal` of the mapper, single choices have tighter bounds.
    """

    network: FusableNetwork
    accelerator: Accelerator
    objective: FusionObjective
    mapper: Mapper
    conventions: Conventions = OURS
    sharing: Sharing | None = None
    rehearsal: Rehearsal | None = None
    known_bounds: StackBounds | None = None
    found: dict[StackChoice, StackCost] = field(default_factory=dict)
    refusals: dict[StackChoice, InputError] = field(default_factory=dict)
    _tiled: dict[tuple[LayerSpan, Tiling], TiledStack] = field(default_factory=dict)

    @property
    def bounds(self) -> StackBounds:
        """Return the lower bounds of choices: the given ones, or new ones on first use."""
        if self.known_bounds is None:
            sharing = self.sharing or AnyUnrolling(self.accelerator)
            self.known_bounds = StackBounds(self.network, self.accelerator, self.objective, sharing)
        return self.known_bounds

    def bound(self, choice: StackChoice) -> Criteria | None:
        """Return a lower bound; zero for conventions without a proof (ours and DeFiNES's have one)."""
        try:
            bound = self.bounds.bound(choice)
        except InputError as error:
            self.refusals[choice] = error
            return None
        return bound if self.conventions in PROVEN else self.objective.zero

    def closer(self, choice: StackChoice) -> Criteria | None:
        """Return a tighter bound: the group's cost with lower bounds in place of mappings; None if nothing fits.

        Raises UnsureError if no bound is known.
        """
        if self.rehearsal is None or choice.box is not None or self.network.layers[choice.span.start].runs_alone:
            raise UnsureError
        try:
            sums = self._run(choice, self.rehearsal).sums
        except InputError as error:
            self.refusals[choice] = error
            return None
        return self.bounds.rounded_down(sums.energy_pj, sums.cycles, dram_bits_of(sums))

    def floor(self) -> Criteria:
        """Return a lower bound on any strategy, with a rounding allowance per group; zero for other conventions."""
        layers = self.network.layers
        if self.conventions not in PROVEN or not layers:
            return self.objective.zero
        together = self.bounds.floor(LayerSpan(0, len(layers)))
        return tuple(max(part - len(layers), 0) for part in together)

    def least(self, choices: Sequence[StackChoice]) -> Criteria:
        """Return a lower bound over groups that differ only in their tiles; zero for other conventions."""
        return self.bounds.least(choices) if self.conventions in PROVEN else self.objective.zero

    def parts(self, choice: StackChoice) -> Sequence[StackChoice]:
        """Return the parts of a box of tilings."""
        return choice.parts()

    def by_bound(self, choice: StackChoice) -> Iterator[StackChoice]:
        """Yield the choice itself, or all choices of its box, least bound first."""
        if choice.box is None:
            yield choice
            return
        in_order = self.bounds.in_order(choice) if self.conventions in PROVEN else None
        if in_order is not None:
            yield from (replace(choice, tiling=one, box=None) for one in in_order)
            return
        bounds = [(bound, one) for one in choice.singly() if (bound := self.bound(one)) is not None]
        yield from (one for _, one in sorted(bounds, key=lambda pair: value_of(pair[0])))

    def costs(self, choices: Sequence[StackChoice]) -> list[Criteria | None]:
        """Return the cost of each choice, None for an infeasible one, computed serially."""
        return [self._criteria(choice) for choice in choices]

    def _criteria(self, choice: StackChoice) -> Criteria | None:
        try:
            self.found[choice] = self.cost(choice)
        except UnmappableError:
            raise
        except InputError as error:
            self.refusals[choice] = error
            return None
        return criteria_of(self.objective, self.found[choice].sums)

    def cost(self, choice: StackChoice) -> StackCost:
        """Return the cost of a choice; raises InputError if nothing fits."""
        return self._run(choice, self.mapper)

    def _run(self, choice: StackChoice, mapper: Mapper) -> StackCost:
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
            mapper,
            self.conventions,
            {name: memory for name, memory in homes.items() if name in read},
            choice.output_home,
            resident_bits,
            tiled,
        )


def criteria_of(objective: FusionObjective, sums: FusedSums) -> Criteria:
    """Return the cost of a group in whole numbers, one per criterion of the objective."""
    return objective.criteria(sums.stated_energy_pj, sums.cycles, dram_bits_of(sums))


def dram_bits_of(sums: FusedSums) -> int:
    """Return the bits that DRAM reads and writes."""
    return sums.moved_bits.get(DRAM, 0)


@dataclass(slots=True)
class Rehearsal:
    """A dry-run mapper: known costs unchanged, otherwise a lower bound on energy and zero cycles.

    With `by_energy`, `known` has minimum energies; then less capacity never costs less. The placement of maps, caches
    and weights, and the copies, do not depend on the mappings, provided that every tile has one. So a group costed with
    lower bounds has a much tighter bound than the sum over its layers, in a fiftieth of the time: it accounts for the
    capacity that on-chip maps leave. Raises UnsureError if a tile's feasibility is unknown.
    """

    floors: ProblemFloors
    known: Mapping[LayerProblem, LayerCost | None]
    by_energy: bool
    _floors_pj: dict[LayerProblem, float | None] = field(default_factory=dict)
    """Lower bounds without `known`; infinite if surely unmappable, None if unknown."""
    _roomier: Roomier = field(init=False)

    def __post_init__(self) -> None:
        self._roomier = Roomier(self.known)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return a cost whose energy in pJ is a lower bound over mappings, or None if there is no mapping.

        Raises UnsureError if feasibility is unknown: then its operands may have other homes.
        """
        if problem in self.known:
            return self.known[problem]
        if problem not in self._floors_pj:
            self._floors_pj[problem] = self._floor_pj(problem)
        floor_pj, roomier_pj = self._floors_pj[problem], self._with_more_room_pj(problem)
        if inf in (floor_pj, roomier_pj):
            return None
        if floor_pj is None:
            raise UnsureError
        energy_pj = {(DRAM, str(Operand.INPUT)): max(floor_pj, roomier_pj)}
        return LayerCost(LayerMapping(()), 0, (), energy_pj, 0.0, Latency(0, 0, 0, 0, 0, 0), 1)

    def _floor_pj(self, problem: LayerProblem) -> float | None:
        if surely_maps_not(problem):
            return inf
        return self.floors.energy_pj(problem) if surely_maps(problem) else None

    def _with_more_room_pj(self, problem: LayerProblem) -> float:
        """Return the greatest known cost of the same layer at the same homes with more capacity for tiles."""
        if not self.by_energy:
            return 0.0
        return max((inf if one is None else one.energy_pj for one in self._roomier.of(problem)), default=0.0)
