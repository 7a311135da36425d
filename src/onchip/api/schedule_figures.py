"""The cost of a legal schedule from its document: each Compute is priced by its mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.document import ScheduleDocument
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes, ScheduledMapping
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.ir.layer import Layer
from onchip.model.program.compute_cost import (
    ComputeCost,
    NestCost,
    OperandAtHome,
    cost_of_nests,
    cost_without_nest,
    nest_cost,
    with_declared,
)
from onchip.model.program.figures import ScheduleFigures, homes_of_computes, schedule_figures
from onchip.scheduling.program.runs import NestPlace, Step, step_of
from onchip.transform.groups.tile_graph import TileGraph


@dataclass(frozen=True, slots=True)
class PricedSchedule:
    """The cost of each Compute of a legal schedule, by tile operator, and all figures."""

    costs: Mapping[str, ComputeCost]
    figures: ScheduleFigures


@phase("pricing")
def priced_schedule(document: ScheduleDocument, tiles: TileGraph) -> PricedSchedule:
    """Price a verified schedule by its own mappings, without any search."""
    schedule, accelerator = document.answer, document.accelerator
    steps = {operator.name: step_of(tiles, operator) for operator in tiles.graph.operators}
    prices = _Prices(accelerator, schedule.mappings)
    operands = {name: step.operands for name, step in steps.items()}
    homes = homes_of_computes(accelerator.addressed, schedule.program, operands)
    costs = {name: prices.of(steps[name], at) for name, at in homes}
    return PricedSchedule(costs, schedule_figures(tiles.graph, accelerator, schedule.program, costs))


@dataclass(slots=True)
class _Prices:
    """A price table of Computes; each nest is priced once, by its mapping."""

    accelerator: Accelerator
    mappings: Sequence[ScheduledMapping]
    _nests: dict[NestPlace, NestCost] = field(default_factory=dict)
    _mapping_of: dict[tuple[int, Layer, Homes], ScheduledMapping] = field(init=False)

    def __post_init__(self) -> None:
        self._mapping_of = {(one.stack, one.layer, one.homes): one for one in self.mappings}

    def of(self, step: Step, homes: Sequence[str | None]) -> ComputeCost:
        """Return the cost of a Compute whose operands have these homes."""
        found = self._alone(step, homes)
        return with_declared(found, self.accelerator, step.declared_bytes)

    def _alone(self, step: Step, homes: Sequence[str | None]) -> ComputeCost:
        """Return the cost without the workspace that the operator declares."""
        if step.nests or step.filled_bits:
            costs = [self._nest(nest) for nest in step.nest_places(homes)]
            return cost_of_nests(costs, step.filled(homes, self.accelerator))
        operands = [
            OperandAtHome(one.operand, one.bits, one.row_bits, home)
            for one, home in zip(step.operands, homes, strict=True)
        ]
        return cost_without_nest(operands, self.accelerator, step.declared_bytes)

    def _nest(self, nest: NestPlace) -> NestCost:
        if nest not in self._nests:
            one = self._mapping_of[nest.stack, nest.layer, nest.homes]
            problem = LayerProblem(one.layer, self.accelerator, one.homes, weight_is_an_input=nest.weight_is_an_input)
            self._nests[nest] = nest_cost(problem, one.mapping)
        return self._nests[nest]
