"""Requests of the verbs that solve, from their options: the one place that the API, commands and sweeps go through."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from onchip.answer.document import Reading
from onchip.answer.options.choices import choice
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions, MapOptions, PlanOptions, ScheduleOptions
from onchip.answer.problem import Objective
from onchip.model.accounting.accounting import AccountingName
from onchip.search.budget.limits import Limits

if TYPE_CHECKING:
    from onchip.api.fuse import FusionRequest
    from onchip.api.map import MappingRequest
    from onchip.api.networks import Network
    from onchip.api.plan import Request
    from onchip.api.schedule import ScheduleRequest
    from onchip.api.target import Target
    from onchip.arch.accelerator import Accelerator
    from onchip.ir.layer import Layer

MINIMIZE = "minimize"
"""Name of the objective in errors."""


def plan_request(
    network: Network, reading: Reading, target: Target, minimize: str, options: PlanOptions, limits: Limits
) -> Request:
    """Return the request of a plan; raises UsageError for an unknown objective."""
    from onchip.api.plan import Request

    objective = choice(Objective, minimize, MINIMIZE)
    count = options.count or target.counted(objective)
    fitted = replace(reading, count=count, cap_tensors=options.cap_tensors)
    reading = replace(fitted, bands=options.bands, recompute=options.recompute)
    if options.alignment_bytes is not None:
        target = replace(target, alignment_bytes=options.alignment_bytes)
    method = options.method or ("timed" if objective is Objective.LATENCY else "exact")
    how = objective, options.order, method, options.placement, limits, options.share
    tiling = options.tiles, options.max_recompute / 100
    return Request(network, reading, target, *how, options.cost, options.recompute_price, *tiling)


def map_request(
    source: Network | Layer,
    reading: Reading,
    accelerator: str | Accelerator,
    minimize: str,
    options: MapOptions,
    limits: Limits,
) -> MappingRequest:
    """Return the request of a mapping; raises UsageError for an unknown objective."""
    from onchip.api.map import MappingRequest

    return MappingRequest(
        source,
        accelerator,
        choice(MappingObjective, minimize, MINIMIZE),
        options.method,
        reading.bits,
        reading.bindings,
        reading.granularity,
        limits,
        options.uses_cache,
        options.mapspace,
        options.partial_bits,
        choice(AccountingName, options.accounting, "accounting"),
    )


def fusion_request(
    network: Network,
    reading: Reading,
    accelerator: str | Accelerator,
    minimize: str,
    options: FusionOptions,
    limits: Limits,
) -> FusionRequest:
    """Return the request of fused groups; raises UsageError for an unknown objective."""
    from onchip.api.fuse import FusionRequest

    return FusionRequest(
        network,
        accelerator,
        choice(FusionObjective, minimize, MINIMIZE),
        options,
        options.mapper,
        reading.bits,
        options.partial_bits,
        reading.bindings,
        reading.granularity,
        limits,
        options.uses_cache,
        choice(AccountingName, options.accounting, "accounting"),
    )


def schedule_request(
    network: Network,
    reading: Reading,
    accelerator: str | Accelerator,
    minimize: str,
    options: ScheduleOptions,
    limits: Limits,
) -> ScheduleRequest:
    """Return the request of a schedule; raises UsageError for an unknown objective."""
    from onchip.api.schedule import ScheduleRequest

    return ScheduleRequest(
        network,
        accelerator,
        choice(ScheduleObjective, minimize, MINIMIZE),
        options,
        reading.bits,
        options.partial_bits,
        reading.bindings,
        reading.granularity,
        limits,
        options.uses_cache,
    )
