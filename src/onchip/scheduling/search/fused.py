"""Fused stacks as a start for schedules: the best strategy of the fusion search, with the places that it assumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.fusion_options import FusionOptions
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.bounds.layer.needed import JOINS, VIEWS, is_view
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.model.group.cost import StackCost
from onchip.ops.fusable import MATRIX_RANKS, FusableNetwork, Layout, layout_needed
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.candidates.spaces import GivenStacks
from onchip.scheduling.choice.anytime import solve_in_time
from onchip.scheduling.fronts.mappers import EXACT, UnmappableError
from onchip.scheduling.fronts.workers import Costing
from onchip.scheduling.program.from_strategy import places_of_strategy, stacks_of_strategy
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Run
from onchip.search.strategy.pool import TaskPool
from onchip.transform.groups.stacks import StackChoice
from onchip.transform.groups.tile_graph import part_of_network

FUSION_OBJECTIVES: Final = {
    ScheduleObjective.ENERGY: FusionObjective.ENERGY,
    ScheduleObjective.LATENCY: FusionObjective.LATENCY,
    ScheduleObjective.EDP: FusionObjective.EDP,
    ScheduleObjective.TRAFFIC: FusionObjective.DRAM,
}


@dataclass(frozen=True, slots=True)
class FusionStart:
    """Stacks, and the places of their feature maps by the cost model of stacks.

    `left_alone` holds the first and last operator of each run for which no stacks as requested fit. Each operator of
    such a run is a separate stack.
    """

    stacks: Sequence[ScheduledStack]
    places: Places
    left_alone: tuple[tuple[str, str], ...] = ()


_Strategy: TypeAlias = tuple[tuple[StackChoice, StackCost], ...]


@dataclass(frozen=True, slots=True)
class FusableRun:
    """Consecutive operators as a separate graph, and the same operators as a fusable network."""

    graph: Graph
    network: FusableNetwork


@dataclass(frozen=True, slots=True)
class _FoundRun:
    part: FusableRun
    strategy: _Strategy


@dataclass(frozen=True, slots=True)
class FusionSearch:
    """Finds fused stacks of a network, for each run of fusable operators; the workers of a pool map layers of tiles.

    The `given` stacks replace those that the options name.
    """

    network: Graph
    accelerator: Accelerator
    precision: Precision
    objective: ScheduleObjective
    options: FusionOptions
    uses_cache: bool
    pool: TaskPool | None = None
    given: GivenStacks | None = None

    def start(self, run: Run) -> FusionStart | None:
        """Return the best strategies found in time; None if there are none.

        The time is shared among the runs in proportion to their layers. Raises UsageError for a given stack outside all
        runs.
        """
        found: dict[str, _FoundRun] = {}
        runs = tuple(self._runs())
        if self.given is not None:
            self.given.ensure_runs_have_them([one.network for one in runs])
        for at, part in enumerate(runs):
            left = sum(len(one.network.layers) for one in runs[at:])
            share = len(part.network.layers) / left
            strategy = self._strategy(
                part.network, run.within(share * run.seconds_left) if run.deadline.is_set else run
            )
            if strategy:
                found[part.graph.operators[0].name] = _FoundRun(part, strategy)
        if not found:
            return None
        ends = [(one.graph.operators[0].name, one.graph.operators[-1].name) for one in runs]
        return replace(self._joined(found), left_alone=tuple(pair for pair in ends if pair[0] not in found))

    def _strategy(self, network: FusableNetwork, run: Run) -> _Strategy:
        costing = Costing(network, self.accelerator, FUSION_OBJECTIVES[self.objective], EXACT, self.uses_cache)
        stacks = self.options.groups if self.given is None else self.given.of_run(network)
        try:
            return solve_in_time(costing, replace(self.options, groups=stacks), run, self.pool).found.stacks
        except (InputError, UnmappableError):
            return ()

    def _runs(self) -> Iterator[FusableRun]:
        """Yield runs of consecutive operators that can be fused; runs of one layer are left out."""
        names: list[str] = []
        layout: Layout | None = None
        for operator in self.network.operators:
            is_inside = self._is_view_inside(operator) or self._may_be_fused(operator)
            own = layout_needed(self.network, operator.name) if is_inside else None
            if not is_inside or (own is not None and layout not in (None, own)):
                yield from self._cut(names)
                names, layout = [], None
            if is_inside:
                names.append(operator.name)
                layout = layout or own
        yield from self._cut(names)

    def _is_view_inside(self, operator: Operator) -> bool:
        """Return True if the operator is a view through which groups may see: not one that reshapes a matrix."""
        if operator.kind == "Transpose":
            return is_view(self.network, operator)
        if operator.kind not in VIEWS:
            return False
        shapes = {self.network.tensor[name].shape or () for name in (*operator.inputs[:1], *operator.outputs)}
        return len(shapes) == 1 or not any(len(one) in MATRIX_RANKS and one[-2] > 1 for one in shapes)

    def _may_be_fused(self, operator: Operator) -> bool:
        """Return True if the operator can be fused; a concatenation or sum is tested together with its readers."""
        readers = self.network.readers[operator.outputs[0]] if operator.kind in JOINS else ()
        return self._fusable([operator.name, *(one.name for one in readers)]) is not None

    def _cut(self, names: Sequence[str]) -> Iterator[FusableRun]:
        """Yield the run of these operators; if they cannot be fused together, the runs of each half."""
        found = self._fusable(names) if names else None
        if found is not None and len(found.network.layers) > 1:
            yield found
        elif found is None and len(names) > 1:
            middle = len(names) // 2
            yield from self._cut(names[:middle])
            yield from self._cut(names[middle:])

    def _fusable(self, names: Sequence[str]) -> FusableRun | None:
        part = part_of_network(self.network, names)
        try:
            return FusableRun(part, fusable_of(part, self.precision))
        except InputError:
            return None

    def _joined(self, found: Mapping[str, _FoundRun]) -> FusionStart:
        """Return the stacks of all runs, and a separate stack for every other operator."""
        stacks: list[ScheduledStack] = []
        inside: set[str] = set()
        for operator in self.network.operators:
            if operator.name in found:
                one = found[operator.name]
                choices = [choice for choice, _ in one.strategy]
                stacks += stacks_of_strategy(one.part.graph, one.part.network, choices)
                inside |= {each.name for each in one.part.graph.operators}
            elif operator.name not in inside:
                stacks.append(ScheduledStack((operator.name,)))
        places = Places()
        for one in found.values():
            places = places.with_all(places_of_strategy(one.part.graph, stacks, one.part.network, one.strategy))
        return FusionStart(tuple(stacks), places)
