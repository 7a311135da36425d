"""Operators that run again, each paired with the nearest that may not."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.problem import Objective, Order
from onchip.ir.graph import State
from onchip.verify.rules import Rule
from support.programs import SPILLED, Case
from support.recomputed import PRICES, RECOMPUTED, ROOMY, UNSPILLED, of_kind
from support.refusal import Refusal


def _with_state(case: Case, old: str, new: str) -> Case:
    return case.of(graph=replace(case.problem.graph, states=(State(old, new),)))


_LATE_G = replace(
    RECOMPUTED,
    program="""
    allocate x sram 0
    copy x dram sram
    allocate b sram 4
    compute g
    allocate a sram 8
    compute f
    free b sram
    allocate b sram 4
    compute g
    free x sram
    allocate y sram 0
    compute h
    copy y sram dram
    """,
)

RECOMPUTATION_REFUSALS = (
    Refusal(
        Rule.OPERATOR_RUN_TWICE,
        "where it is not allowed",
        RECOMPUTED,
        RECOMPUTED.of(recomputation=None),
        8,
        2,
        "ran in step 0 already, and recomputation is not allowed",
    ),
    Refusal(
        Rule.OPERATOR_RUN_TWICE,
        "what draws at random",
        of_kind(RECOMPUTED, "f", "Relu"),
        of_kind(RECOMPUTED, "f", "Dropout"),
        8,
        2,
        "ran in step 0 already, and it touches state or draws",
    ),
    Refusal(
        Rule.OPERATOR_RUN_TWICE,
        "what reads a state",
        RECOMPUTED,
        _with_state(RECOMPUTED, "x", "y"),
        8,
        2,
        "ran in step 0 already, and it touches state or draws",
    ),
    Refusal(
        Rule.RECOMPUTED_IN_USE,
        "what it wrote is there still",
        RECOMPUTED,
        ROOMY.without(4).edited(4, "allocate b sram 12").without(6),
        6,
        2,
        "is still there",
    ),
    Refusal(Rule.OUTPUT_NOT_RESIDENT, "again", RECOMPUTED, RECOMPUTED.without(7), 7, 2),
    Refusal(
        Rule.OPERAND_NOT_RESIDENT,
        "again",
        ROOMY,
        ROOMY.edited(6, "compute g", "free x sram").without(10),
        9,
        2,
    ),
    Refusal(
        Rule.OUTPUT_WRITTEN_AGAIN,
        "what ran again is written once",
        ROOMY.edited(12, "copy y sram dram", "free y sram", "allocate y sram 0", "compute h"),
        ROOMY.edited(12, "copy y sram dram", "free y sram", "allocate y sram 0", "compute h", "copy y sram dram"),
        16,
        5,
    ),
    Refusal(
        Rule.NON_COMPULSORY_TRAFFIC,
        "a spill beside a recomputation",
        UNSPILLED,
        UNSPILLED.edited(4, "copy a sram dram", "free a sram"),
        4,
        1,
    ),
    Refusal(
        Rule.OUT_OF_ORDER,
        "it matters who runs first",
        RECOMPUTED.of(order=Order.GIVEN),
        _LATE_G.of(order=Order.GIVEN),
        5,
        1,
    ),
)

SPILLED_INSTEAD = SPILLED.of(recomputation=PRICES, objective=Objective.TRAFFIC)
"""A plan in which no operator runs again, although it may."""
