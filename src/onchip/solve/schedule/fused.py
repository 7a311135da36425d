"""Stacks in tiles as a start for schedules: the best of the fusion search, with maps where it has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onchip.answer.schedule import ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.lower.layers.fusable_of import fusable_of
from onchip.lower.layers.layers_of import Precision
from onchip.solve.run.limits import Run
from onchip.solve.schedule.from_strategy import places_of_strategy, stacks_of_strategy
from onchip.solve.schedule.objective import ScheduleObjective
from onchip.solve.schedule.places import Places
from onchip.solve.stacks.anytime import solve_in_time
from onchip.solve.stacks.mappers import EXACT, UnmappableError
from onchip.solve.stacks.objective import FusionObjective
from onchip.solve.stacks.options import FusionOptions
from onchip.solve.stacks.workers import Costing

FUSION_OBJECTIVES = {
    ScheduleObjective.ENERGY: FusionObjective.ENERGY,
    ScheduleObjective.LATENCY: FusionObjective.LATENCY,
    ScheduleObjective.EDP: FusionObjective.EDP,
    ScheduleObjective.TRAFFIC: FusionObjective.DRAM,
}


@dataclass(frozen=True, slots=True)
class FusionStart:
    """Stacks, and where their maps lie by the model of stacks."""

    stacks: Sequence[ScheduledStack]
    places: Places


def fusion_start(
    network: Graph,
    accelerator: Accelerator,
    precision: Precision,
    objective: ScheduleObjective,
    options: FusionOptions,
    run: Run,
    *,
    uses_cache: bool,
) -> FusionStart | None:
    """The best strategy that is found in time; None for a network that cannot be fused, or where nothing fits."""
    try:
        fusable = fusable_of(network, precision)
        costing = Costing(fusable, accelerator, FUSION_OBJECTIVES[objective], EXACT, uses_cache)
        found = solve_in_time(costing, options, run).found
    except (InputError, UnmappableError):
        return None
    if found.result.answer is None:
        return None
    stacks = stacks_of_strategy(network, fusable, [choice for choice, _ in found.stacks])
    return FusionStart(stacks, places_of_strategy(network, stacks, fusable, found.stacks))
