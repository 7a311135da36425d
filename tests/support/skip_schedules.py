"""Schedules of the chain with a skip connection: its stacks, and their builders for chips of any units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.ir.graph import Graph
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.attempt import AttemptMaker, ScheduleAttempt
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Run
from onchip.transform.groups.tile_graph import part_of_network
from support.skip_network import PRECISION, skip_chip

ALONE = tuple(ScheduledStack((name,)) for name in ("first", "second", "add", "soft"))
FULLY = OverlapMode.FULLY_CACHED
TILED = ScheduledStack(("first", "second", "add"), Tiling(3, 2, FULLY))


def maker(accelerator: Accelerator, network: Graph) -> AttemptMaker:
    question = ScheduleQuestion(network, accelerator, PRECISION, ScheduleObjective.LATENCY, uses_cache=False)
    mapper = BestMapper(accelerator, MappingObjective.LATENCY, Run())
    return AttemptMaker(question, KnownMappings(mapper), mapper, Run())


def alone(making: AttemptMaker, stack: ScheduledStack, places: Places) -> ScheduleAttempt:
    part = replace(making.question, network=part_of_network(making.question.network, stack.operators))
    return AttemptMaker(part, making.mappings, making.mapper, Run()).made((stack,), places)


def grid_chip(units: Mapping[str, int], far_bytes: int = 4000) -> Accelerator:
    return replace(skip_chip(200, far_bytes), array=ComputeArray(dict(units), None, 0.5))
