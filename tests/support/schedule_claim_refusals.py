"""The nearest legal and the nearest illegal schedule for each rule of mappings and of claims."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.result import Status
from onchip.answer.schedule import Homes
from onchip.verify.rules import Rule
from support.schedule_cases import (
    CONV1,
    HALF,
    RESIDENT,
    STREAMED,
    STREAMED_HOMES,
    mapped,
)
from support.schedule_refusal import refusal

TOO_SHORT = LayerMapping((Loop("P", 4), Loop("Q", 4)))

_MAPPINGS = (
    refusal(
        Rule.MAPPING_MISSING,
        "a mapping for every loop nest",
        (STREAMED, replace(STREAMED, mappings=STREAMED.mappings[:1])),
        "conv2",
    ),
    refusal(
        (Rule.MAPPING_MISSING, Rule.MAPPING_UNUSED),
        "a mapping of its stack",
        (STREAMED, replace(STREAMED, mappings=(STREAMED.mappings[0], replace(STREAMED.mappings[1], stack=0)))),
        "conv2",
    ),
    refusal(
        (Rule.MAPPING_MISSING, Rule.MAPPING_UNUSED),
        "a mapping at its homes",
        (STREAMED, STREAMED.edited(0, "allocate w1 far 0", "copy w1 dram far", "compute conv1")),
        "conv1",
    ),
    refusal(
        Rule.MAPPING_UNUSED,
        "mappings that something runs by",
        (STREAMED, replace(STREAMED, mappings=(*STREAMED.mappings, mapped(1, CONV1, STREAMED_HOMES)))),
        "mapping 2",
    ),
    refusal(
        Rule.TOO_FEW_ITERATIONS,
        "loops as long as the layer's",
        (
            STREAMED,
            replace(
                STREAMED,
                mappings=(
                    STREAMED.mappings[0],
                    replace(STREAMED.mappings[1], mapping=LayerMapping((Loop("P", 4), Loop("Q", 4)))),
                ),
            ),
        ),
        "mapping 1, C",
    ),
    refusal(
        Rule.MISPLACED,
        "tiles nearer the MACs than the home",
        (
            HALF,
            replace(
                HALF,
                mappings=(
                    mapped(0, CONV1, Homes(None, "far", "near"), input=[Kept("near", 4)], weight=[Kept("far", 5)]),
                    HALF.mappings[1],
                ),
            ),
        ),
        "mapping 0, weight",
    ),
)

_CLAIMS = (
    refusal(
        Rule.OBJECTIVE_DIFFERS,
        "the energy of the schedule",
        (RESIDENT, RESIDENT.claimed(objective_value=723_001, lower_bound=723_001)),
        "result.objective_value",
    ),
    refusal(
        Rule.OBJECTIVE_DIFFERS,
        "energy times latency",
        (
            RESIDENT.claimed(objective="edp", objective_value=723_000 * 80, lower_bound=723_000 * 80),
            RESIDENT.claimed(objective="edp", objective_value=723_000 * 81, lower_bound=723_000 * 81),
        ),
        "result.objective_value",
    ),
    refusal(
        Rule.FIGURE_DIFFERS,
        "the energy in picojoules",
        (RESIDENT, RESIDENT.claimed(figures={"energy_pj": 723.001, "latency_cycles": 80, "traffic_bytes": 52})),
        "result.energy_pj",
    ),
    refusal(
        Rule.FIGURE_DIFFERS,
        "the end of the timeline",
        (RESIDENT, RESIDENT.claimed(figures={"energy_pj": 723.0, "latency_cycles": 79, "traffic_bytes": 52})),
        "result.latency_cycles",
    ),
    refusal(
        Rule.FIGURE_DIFFERS,
        "the bytes from and to DRAM",
        (RESIDENT, RESIDENT.claimed(figures={"energy_pj": 723.0, "latency_cycles": 80, "traffic_bytes": 53})),
        "result.traffic_bytes",
    ),
    refusal(
        Rule.BOUND_ABOVE_OBJECTIVE,
        "a bound that is none",
        (RESIDENT, RESIDENT.claimed(lower_bound=723_001)),
        "result.lower_bound",
    ),
    refusal(
        Rule.OPTIMAL_UNPROVEN,
        "a bound that proves it",
        (RESIDENT, RESIDENT.claimed(lower_bound=722_999)),
        "result.status",
    ),
    refusal(
        Rule.ANSWER_DENIED,
        "a status that there is an answer",
        (RESIDENT, RESIDENT.claimed(status=Status.INFEASIBLE)),
        "result.status",
    ),
)


CLAIM_REFUSALS = (*_MAPPINGS, *_CLAIMS)
