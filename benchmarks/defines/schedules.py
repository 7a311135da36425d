"""Schedules by onchip next to DeFiNES's best points: FSRCNN and MC-CNN on `meta-prototype-df`.

DeFiNES's points are the 108 of its case study 1 (36 tile sizes, three modes, all layers in one stack), costed with its
mapper, accounting and conventions: they have no addresses and no timeline. The best of them by energy, and by latency,
is compared with a program in the same tiling, and with a program without given choices.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from defines.fsrcnn import MILLION, PJ_OF_MJ, case, case_study_tilings, conventions_of, costs_of_all
from defines.mappers import PARTIAL_BITS, Answers, Clock, TileMapper
from defines.published import CASE_STUDY_MACHINE
from schedule import WARMING_SECONDS, of_another_process

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import Tiling
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.errors import OnchipError
from onchip.search.budget.limits import Limits

NETWORKS: Final = ("mc-cnn-defines", "fsrcnn-defines")
OBJECTIVES: Final = (MappingObjective.ENERGY, MappingObjective.LATENCY)
FEMTOJOULES_OF_MJ: Final = 10**12
PATIENCE: Final = 30
"""Wall-clock limit of a search on a busy machine, as a multiple of its CPU seconds."""
TITLES: Final = ("network, least", "what", "tiling", "mJ", "Mcycles", "bound", "gap", "stacks", "processor s")


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """Energy in mJ, latency in millions of cycles, and the bound in the unit of the objective; None if not stated.

    `what` names the source of the figures, `tiling` the given or found tiling.
    """

    network: str
    objective: str
    what: str
    tiling: str
    energy_mj: float | None = None
    mcycles: float | None = None
    bound: float | None = None
    gap: float | None = None
    stacks: int | None = None
    cpu_seconds: float = 0.0


def schedules(seconds: float, workers: int) -> Iterator[ScheduleRow]:
    """Print DeFiNES's best points, and schedules found in the given CPU seconds each."""
    print(f"\n| {' | '.join(TITLES)} |\n{'|---' * len(TITLES)}|", flush=True)
    for network in NETWORKS:
        for objective in OBJECTIVES:
            for row in _rows(network, objective, seconds, workers):
                print(_table_line(row), flush=True)
                yield row


def _rows(network: str, objective: MappingObjective, seconds: float, workers: int) -> Iterator[ScheduleRow]:
    best, row = _best_point(network, objective, workers)
    yield row
    given = ScheduleOptions("one", (best.columns, best.rows), best.mode)
    for what, options in (("its tiling as a schedule", given), ("schedule", ScheduleOptions())):
        work = partial(_scheduled, network, objective, what, options, seconds)
        found = of_another_process(work, PATIENCE * seconds)
        yield ScheduleRow(network, objective, what, found) if isinstance(found, str) else found


def _best_point(network: str, objective: MappingObjective, workers: int) -> tuple[Tiling, ScheduleRow]:
    """Return the best of the 108 points by the objective, with DeFiNES's mapper for it."""
    stack, accelerator = case(network)
    mapper, clock = TileMapper("loma", objective), Clock()
    conventions = conventions_of(mapper)
    costs = costs_of_all(stack, accelerator, case_study_tilings(), Answers(mapper), conventions, workers)
    best = min(costs, key=lambda one: objective.of(costs[one].sums.energy_pj, costs[one].sums.cycles))
    sums, cut = costs[best].sums, best.within(stack.output.columns, stack.output.rows)
    figures = sums.energy_pj / PJ_OF_MJ, sums.cycles / MILLION
    return cut, ScheduleRow(network, objective, "DeFiNES", str(cut), *figures, cpu_seconds=clock.cpu_seconds)


def _scheduled(
    network: str, objective: MappingObjective, what: str, options: ScheduleOptions, seconds: float
) -> ScheduleRow:
    """Return the schedule found in the given CPU seconds, or the reason for its absence; runs in a separate process."""
    warming = ScheduleRequest(
        "lenet5",
        CASE_STUDY_MACHINE,
        ScheduleObjective(objective),
        partial_bits=PARTIAL_BITS,
        limits=Limits(WARMING_SECONDS),
        uses_cache=False,
        bits=8,
    )
    schedule_network(warming)
    vars(time)["perf_counter"] = time.process_time
    request = ScheduleRequest(
        network,
        CASE_STUDY_MACHINE,
        ScheduleObjective(objective),
        options,
        partial_bits=PARTIAL_BITS,
        limits=Limits(seconds),
        uses_cache=False,
        bits=8,
    )
    begun = time.process_time()
    try:
        outcome = schedule_network(request)
    except OnchipError as error:
        return ScheduleRow(network, objective, what, f"{type(error).__name__}: {error}")
    took, result, figures = time.process_time() - begun, outcome.result, outcome.figures
    if result.answer is None or figures is None:
        return ScheduleRow(network, objective, what, outcome.why_not or str(result.status), cpu_seconds=took)
    unit = FEMTOJOULES_OF_MJ if objective is MappingObjective.ENERGY else MILLION
    return ScheduleRow(
        network,
        objective,
        what,
        _tilings(result.answer.stacks),
        figures.energy_fj / FEMTOJOULES_OF_MJ,
        figures.latency_cycles / MILLION,
        result.lower_bound / unit,
        result.gap,
        len(result.answer.stacks),
        took,
    )


def _tilings(stacks: tuple[ScheduledStack, ...]) -> str:
    """Return the number of operators and the tiling of each stack in tiles, as text."""
    tiled = [f"{len(one.operators)} in {one.tiling}" for one in stacks if one.tiling is not None]
    return ", ".join(tiled) or "whole"


def _table_line(row: ScheduleRow) -> str:
    cells = (
        f"{row.network}, {row.objective}",
        row.what,
        row.tiling,
        _number(row.energy_mj, ".4f"),
        _number(row.mcycles, ".3f"),
        _number(row.bound, ".4f"),
        _number(row.gap, ".1%"),
        _number(row.stacks, "d"),
        f"{row.cpu_seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
