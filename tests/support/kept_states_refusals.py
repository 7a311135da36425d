"""States that stay on the chip, each paired with the nearest illegal plan."""

from __future__ import annotations

from dataclasses import replace

from onchip.ir.graph import State
from onchip.verify.rules import Rule
from support.kept_states import BESIDE, KEPT, LOADED, UPDATED
from support.programs import Case, sram
from support.refusal import Refusal


def _read_by_its_writer(case: Case, *, in_place: bool) -> Case:
    return case.of(graph=replace(case.problem.graph, states=(State("s", "n", in_place=in_place),)))


_ROOMY = KEPT.of(memories=sram(20)).edited(9, "allocate z sram 16")

KEPT_STATES_REFUSALS = (
    Refusal(Rule.NO_STATE, "an input that is none", KEPT, KEPT.edited(1, "allocate x sram 4 state"), 1, 0),
    Refusal(Rule.NO_STATE, "the new one", KEPT, KEPT.edited(7, "allocate n sram 0 state"), 7, 1),
    Refusal(
        Rule.STATE_NOT_FIRST,
        "behind another",
        KEPT,
        KEPT.edited(0, "allocate x sram 4").edited(1, "allocate s sram 0 state"),
        1,
        0,
    ),
    Refusal(
        Rule.STATE_MOVED,
        "it lies in two places",
        BESIDE,
        BESIDE.edited(1, "allocate s other 0 state", "allocate x sram 4"),
        1,
        0,
        "allocated at 0 of 'other'",
    ),
    Refusal(Rule.STATE_COPIED, "the new one written", LOADED, KEPT.edited(8, "compute g", "copy n sram dram"), 9, 2),
    Refusal(
        Rule.STATE_COPIED, "the old one loaded", LOADED, KEPT.edited(1, "copy s dram sram", "allocate x sram 4"), 1, 0
    ),
    Refusal(
        Rule.STATE_COPIED, "the old one written", KEPT, KEPT.edited(1, "copy s sram dram", "allocate x sram 4"), 1, 0
    ),
    Refusal(Rule.STATE_MOVED, "the new one elsewhere", KEPT, KEPT.edited(7, "allocate n sram 12"), 7, 1, "at 0"),
    Refusal(
        Rule.STATE_MOVED,
        "the new one a byte behind",
        _ROOMY,
        _ROOMY.edited(7, "allocate n sram 1"),
        7,
        1,
        "at 1 of 'sram', and its state lies at 0 of 'sram'",
    ),
    Refusal(
        Rule.STATE_MOVED,
        "something comes between",
        KEPT,
        KEPT.edited(6, "free s sram", "allocate z sram 4").without(10),
        7,
        1,
        "does not allocate 'n'",
    ),
    Refusal(
        Rule.STATE_MOVED, "the new one leaves", KEPT, KEPT.edited(13, "free y sram", "free n sram"), 14, 3, "freed"
    ),
    Refusal(
        Rule.OVERLAP,
        "before the old one leaves",
        KEPT,
        KEPT.edited(6, "allocate n sram 0").edited(7, "free s sram"),
        6,
        1,
    ),
    Refusal(Rule.OVERLAP, "its writer cannot", UPDATED, _read_by_its_writer(UPDATED, in_place=False), 3, 0),
    Refusal(
        Rule.OVERLAP,
        "loaded, and not kept",
        UPDATED,
        UPDATED.edited(0, "allocate s sram 0", "copy s dram sram").edited(10, "copy z sram dram", "copy n sram dram"),
        4,
        0,
    ),
    Refusal(
        Rule.OVERWRITTEN_NOT_FREED,
        "the old one stays, too",
        UPDATED,
        UPDATED.without(5).edited(7, "compute h", "free s sram"),
        7,
        1,
        "'h' runs",
    ),
    Refusal(
        Rule.OUTPUT_NEVER_WRITTEN, "loaded, and not written back", LOADED, LOADED.without(10), None, None, "copied"
    ),
)
