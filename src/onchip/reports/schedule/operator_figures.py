"""What each operator of the network costs in a schedule, over all its tiles, and how its nests are mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes, ScheduledStack
from onchip.arch.energies import summed
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.schedule.stack_figures import MACS
from onchip.scheduling.program.runs import NestPlace


@dataclass
class OperatorFigures:
    """Of one operator of the network the sums over its tile operators; `nests` counts how often each nest runs.

    The energy is that of its Computes alone: Copies are of tensors. `energy_pj` are its parts, by memory and cause.
    """

    name: str
    kind: str
    stack: int
    scheduled: ScheduledStack
    written_bytes: int
    tile_operators: int = 0
    macs: int = 0
    stated_energy_fj: int | None = 0
    cycles: int = 0
    nests: dict[NestPlace, int] = field(default_factory=dict)
    energy_pj: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy in pJ, or None if it is unknown."""
        return None if self.stated_energy_fj is None else self.stated_energy_fj / FEMTOJOULES_PER_PICOJOULE


@dataclass(frozen=True, slots=True)
class MappedNestOfOperator:
    """One kind of loop nest of an operator, with its mapping, and how many of its tile operators run it."""

    problem: LayerProblem
    mapping: LayerMapping
    times: int


def figures_of_operators(network: Graph, history: ScheduleHistory) -> tuple[OperatorFigures, ...]:
    """The figures of each operator of the network, in the network's order."""
    stacks = history.schedule.stacks
    stack_of = {name: number for number, stack in enumerate(stacks) for name in stack.operators}
    found = {
        one.name: OperatorFigures(
            one.name,
            one.kind,
            stack_of[one.name],
            stacks[stack_of[one.name]],
            sum(network.tensor[name].size_bytes for name in one.outputs),
        )
        for one in network.operators
    }
    for name in history.operators:
        origin, cost = history.tiles.operators[name], history.compute_costs[name]
        one = found[origin.operator]
        one.tile_operators += 1
        one.macs += sum(nest.macs for nest in origin.nests)
        one.stated_energy_fj = summed((one.stated_energy_fj, cost.stated_energy_fj))
        one.cycles += cost.cycles
        for key, part in (((MACS, MACS), cost.mac_pj or 0.0), *cost.access_pj.items()):
            one.energy_pj[key] = one.energy_pj.get(key, 0.0) + part
        for nest in history.nest_places[name]:
            one.nests[nest] = one.nests.get(nest, 0) + 1
    return tuple(found.values())


def mapped_nests(one: OperatorFigures, history: ScheduleHistory) -> Sequence[MappedNestOfOperator]:
    """The kinds of nests of an operator, those that run most often first."""
    mappings = _mappings(history)
    by_times = sorted(one.nests.items(), key=lambda nest: -nest[1])
    return [
        MappedNestOfOperator(
            LayerProblem(nest.layer, history.accelerator, nest.homes, {}, nest.weight_is_an_input),
            mappings[nest.stack, nest.layer, nest.homes],
            times,
        )
        for nest, times in by_times
    ]


def _mappings(history: ScheduleHistory) -> Mapping[tuple[int, Layer, Homes], LayerMapping]:
    return {(one.stack, one.layer, one.homes): one.mapping for one in history.schedule.mappings}
