"""Claims of a fusion strategy that hold for every strategy and schedule, not only for the stacks and tiles searched."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import Final

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.result import Result, Status
from onchip.answer.strategy import FusionStrategy
from onchip.api.networks import taken_apart
from onchip.arch.accelerator import Accelerator
from onchip.bounds.group.bounds import ROUNDING
from onchip.bounds.group.network_floor import least_macs
from onchip.bounds.layer.needed import needed_pixels
from onchip.bounds.layer.nest_work import work_of
from onchip.ir.graph import Graph
from onchip.model.layer.limits import array_of
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE
from onchip.ops.derive.fusable import FusableNetwork
from onchip.ops.derive.layers_of import Precision
from onchip.ops.derive.nests import NestsOfNetwork

NONE_OF_THESE: Final = "no strategy of these stacks and tiles fits; another may"


def bound_of_any(
    objective: FusionObjective, graph: Graph, network: FusableNetwork, accelerator: Accelerator, precision: Precision
) -> int:
    """Return a lower bound for every strategy of `fuse` and every schedule of `schedule`, by any mappings.

    It counts multiply-accumulates alone: their energy, and their cycles on all units. Of DRAM traffic nothing is said.
    The energy of one is rounded down to femtojoules and the cycles of a layer are rounded down, since stacks and
    Computes are rounded before they are added.
    """
    array = array_of(accelerator)
    by_layer, in_schedules = least_macs(network), macs_of_schedules(graph, precision)
    mac_fj = floor(Fraction(str(array.mac_energy_pj or 0.0)) * FEMTOJOULES_PER_PICOJOULE)
    energy_fj = floor(min(sum(by_layer), in_schedules) * mac_fj * (1 - Fraction(str(ROUNDING))))
    cycles = min(sum(macs // array.macs for macs in by_layer), in_schedules // array.macs)
    bounds = {FusionObjective.ENERGY: energy_fj, FusionObjective.LATENCY: cycles, FusionObjective.DRAM: 0}
    return bounds.get(objective, energy_fj * cycles)


def macs_of_schedules(graph: Graph, precision: Precision) -> int:
    """Return the multiply-accumulates that every schedule of a network does at least."""
    apart = taken_apart(graph)
    nests = NestsOfNetwork(apart, precision)
    whole = {operator.name: nests.whole(operator) for operator in apart.operators}
    operands = {
        operator.name: frozenset(filter(None, (read.input, read.weight)))
        for operator in apart.operators
        if (read := nests.operands(operator)) is not None
    }
    needed = needed_pixels(apart, whole, operands)
    return sum(
        work_of(layer, needed[operator.outputs[0]], apart.tensor[operator.outputs[0]]).macs
        for operator in apart.operators
        for layer in whole[operator.name]
    )


def for_all_strategies(result: Result[FusionStrategy], bound: int, space: str) -> Result[FusionStrategy]:
    """Return a result of the strategies in `space` with a status and a bound that hold for all strategies.

    `optimal_among` and `bound_among` keep what is proven of `space`.
    """
    if result.status is Status.INFEASIBLE:
        return replace(result, status=Status.UNKNOWN, lower_bound=bound, space=None, why_not=NONE_OF_THESE)
    status = result.status
    if result.answer is not None:
        status = Status.OPTIMAL if result.objective_value == bound else Status.FEASIBLE
    return replace(
        result,
        status=status,
        lower_bound=bound,
        space=None,
        optimal_among=space if result.status is Status.OPTIMAL else None,
        bound_among=max(result.lower_bound, bound),
    )
