"""FSRCNN on `meta-prototype-df`: the points of DeFiNES's program, case study 1, and a search with any fuse depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import process_time
from typing import Final

from defines import published
from defines.mappers import Answers, TileMapper, asked_by, machine, network
from shared.runner import Row

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.verb_options import CASE_STUDY_COLUMNS, CASE_STUDY_ROWS, FusionOptions
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.cost import StackCost, stack_cost
from onchip.model.group.machine import Mapper
from onchip.ops.fusable import Stack
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.search.fusion import best_strategy
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, stack_of

NETWORK: Final = "fsrcnn-defines"
CAUSES: Final = (EnergyCause.COPY, EnergyCause.ACTIVATION, EnergyCause.WEIGHT)
PJ_OF_MJ: Final = 1e9
MILLION: Final = 1e6


def conventions_of(mapper: TileMapper) -> Conventions:
    """Return DeFiNES's conventions for the mappers that count as it does, so that nothing else differs."""
    return OURS if mapper.name == "exact" else DEFINES


def case(name: str = NETWORK) -> tuple[Stack, Accelerator]:
    """Return all layers of a network as one stack, and the machine."""
    layers = network(name)
    return stack_of(layers, LayerSpan(0, len(layers.layers))), machine(published.CASE_STUDY_MACHINE)


def points(mapper: TileMapper) -> Iterator[Row]:
    """Yield the reference points; `is_met` is True if the figures are equal or near, as `_is_met` says."""
    stack, accelerator = case()
    for point in published.POINTS:
        tiling, started = point.tiling.within(stack.output.columns, stack.output.rows), process_time()
        cost = stack_cost(stack, accelerator, tiling, Answers(mapper), conventions_of(mapper))
        yield {
            "tile": str(point.tiling),
            "mapper": mapper.name,
            "macs": cost.sums.macs,
            "tile_types": cost.tile_types,
            "mj": cost.sums.energy_pj / PJ_OF_MJ,
            "their_mj": point.energy_mj,
            "mcycles": cost.sums.cycles / MILLION,
            "their_mcycles": point.latency_mcycles,
            "cpu_seconds": process_time() - started,
            "their_seconds": point.seconds,
            "is_met": _is_met(point, cost, mapper),
        }


def _is_met(point: published.Point, cost: StackCost, mapper: TileMapper) -> bool:
    """Equal counts; near figures with DeFiNES's mapper, and no more energy with the best mapper of its accounting."""
    energy = cost.sums.energy_pj / PJ_OF_MJ / point.energy_mj - 1
    cycles = cost.sums.cycles / MILLION / point.latency_mcycles - 1
    is_met = cost.sums.macs == point.macs and cost.tile_types == point.tile_types
    for cause, millions in zip(CAUSES, point.accesses.get(DRAM, ()), strict=False):
        is_met &= abs(cost.sums.accesses_of(DRAM, cause) / MILLION / millions - 1) < 1e-3
    if mapper.name == "loma":
        is_met &= abs(energy) <= published.ENERGY_WITHIN and abs(cycles) <= published.LATENCY_WITHIN
    if mapper.name == "uneven":
        is_met &= energy <= published.ROUNDING
    return is_met


def case_study_tilings() -> list[Tiling]:
    """Return the 108 points of figure 12; some of them are equivalent."""
    return [
        Tiling(columns, rows, mode)
        for mode in OverlapMode
        for rows in CASE_STUDY_ROWS
        for columns in CASE_STUDY_COLUMNS
    ]


def costs_of_all(
    stack: Stack,
    accelerator: Accelerator,
    tilings: Iterable[Tiling],
    answers: Answers,
    conventions: Conventions,
    workers: int,
) -> dict[Tiling, StackCost]:
    """Return the cost of every tiling: collect the mapper's requests, map them in several processes, then add up."""
    output = stack.output
    alike = {tiling: tiling.within(output.columns, output.rows) for tiling in tilings}

    def all_of(mapper: Mapper) -> dict[Tiling, StackCost]:
        different = dict.fromkeys(alike.values())
        return {one: stack_cost(stack, accelerator, one, mapper, conventions) for one in different}

    if workers > 1:
        answers.learn(asked_by(all_of), workers)
    found = all_of(answers)
    return {tiling: found[one] for tiling, one in alike.items()}


def case_study_1(mapper: TileMapper, workers: int) -> Iterator[Row]:
    """Yield figure 12: energy and latency of each tiling."""
    stack, accelerator = case()
    costs = costs_of_all(stack, accelerator, case_study_tilings(), Answers(mapper), conventions_of(mapper), workers)
    for tiling, cost in costs.items():
        figures = {"mj": cost.sums.energy_pj / PJ_OF_MJ, "mcycles": cost.sums.cycles / MILLION}
        yield {"mapper": mapper.name, "tiling": str(tiling)} | figures


def sweep(mapper: TileMapper) -> Iterator[Row]:
    """Yield the best stacks of 110 tile sizes, three modes and any cuts."""
    layers, accelerator = network(NETWORK), machine(published.CASE_STUDY_MACHINE)
    costs = StackCosts(layers, accelerator, FusionObjective.ENERGY, Answers(mapper), OURS)
    found = best_strategy(costs, FusionOptions(), Run())
    status = {"status": str(found.result.status), "gap": found.result.gap}
    for choice, cost in found.stacks:
        figures = {"mj": cost.sums.energy_pj / PJ_OF_MJ, "mcycles": cost.sums.cycles / MILLION}
        yield {"mapper": mapper.name, "layers": choice.span.length, "tiling": str(choice.tiling)} | figures | status
