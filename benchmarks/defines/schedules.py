"""Schedules by onchip next to DeFiNES's best points: FSRCNN and MC-CNN on `meta-prototype-df`.

DeFiNES's points are the 108 of its case study 1 (36 tile sizes, three modes, all layers in one stack), costed with its
mapper, accounting and conventions: they have no addresses and no timeline. The best of them by energy, and by latency,
is compared with a schedule in the same tiling, and with a schedule without given choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from defines.fsrcnn import MILLION, PJ_OF_MJ, case, case_study_tilings, conventions_of, costs_of_all
from defines.mappers import PARTIAL_BITS, Answers, TileMapper
from defines.published import CASE_STUDY_MACHINE
from shared.runner import Row, onchip

from onchip.answer.options.mapping_objective import MappingObjective

NETWORKS: Final = ("mc-cnn-defines", "fsrcnn-defines")


def schedules(seconds: float, workers: int) -> Iterator[Row]:
    """Yield DeFiNES's best points, and schedules found in the given seconds each."""
    for name in NETWORKS:
        for objective in (MappingObjective.ENERGY, MappingObjective.LATENCY):
            stack, accelerator = case(name)
            mapper = TileMapper("loma", objective)
            tilings, conventions = case_study_tilings(), conventions_of(mapper)
            costs = costs_of_all(stack, accelerator, tilings, Answers(mapper), conventions, workers)
            best = min(costs, key=lambda one: objective.of(costs[one].sums.energy_pj, costs[one].sums.cycles))
            cut, sums = best.within(stack.output.columns, stack.output.rows), costs[best].sums
            head = {"network": name, "objective": str(objective)}
            figures = {"mj": sums.energy_pj / PJ_OF_MJ, "mcycles": sums.cycles / MILLION}
            yield head | {"what": "DeFiNES", "tiling": str(cut)} | figures
            given = ("--groups", "one", "--tile", f"{cut.columns}x{cut.rows}", "--mode", cut.mode)
            for what, options in (("its tiling as a schedule", given), ("schedule", ())):
                asked = ("--objective", objective, "--bits", 8, "--partial-bits", PARTIAL_BITS, *options)
                limits = ("--time-limit", seconds, "--workers", 1, "--no-cache", "--json")
                ended = onchip("schedule", name, "--accelerator", CASE_STUDY_MACHINE, *asked, *limits)
                answer = ended.answer
                stacks = answer.get("stacks") or ()
                tiled = [one for one in stacks if one["tile"]]
                tiling = ", ".join(f"{len(one['operators'])} in {one['tile']} {one['mode']}" for one in tiled)
                energy, cycles = answer.get("energy_pj"), answer.get("latency_cycles")
                found = {
                    "mj": energy and energy / PJ_OF_MJ,
                    "mcycles": cycles and cycles / MILLION,
                    "lower_bound": answer.get("lower_bound"),
                    "gap": answer.get("gap"),
                    "cpu_seconds": ended.cpu_seconds,
                }
                yield head | {"what": what, "tiling": tiling or answer.get("error") or "whole"} | found
