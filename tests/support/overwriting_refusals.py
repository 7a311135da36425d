"""Outputs that overwrite inputs, each paired with the nearest that may not."""

from __future__ import annotations

from dataclasses import replace

from onchip.verify.rules import Rule
from support.overwriting import (
    ALIKE,
    APART,
    CUT,
    EARLY,
    JOINED,
    OTHER_ORDER,
    OTHER_SHAPE,
    OVERWRITING,
    PART_OF_ANOTHER,
    PART_OF_ITSELF,
    UNREAD_OVER,
)
from support.refusal import Refusal

_LENT = Rule.OVERWRITTEN_NOT_FREED
_COPIED = "copied while 'y' lies in the bytes of 'x'"

OVERWRITING_REFUSALS = (
    Refusal(
        Rule.OVERLAP, "over an input without a pair", OVERWRITING, replace(OVERWRITING, problem=APART.problem), 2, 0
    ),
    Refusal(Rule.OVERLAP, "what overwrites is there", OVERWRITING, OVERWRITING.edited(5, "allocate z sram 7"), 5, 1),
    Refusal(Rule.OVERLAP, "a byte behind the pair", OVERWRITING, OVERWRITING.edited(2, "allocate y sram 1"), 2, 0),
    Refusal(Rule.OVERLAP, "one part a byte behind", JOINED, JOINED.edited(2, "allocate w sram 9"), 4, 0, "'w'"),
    *(
        Refusal(
            Rule.OVERLAP,
            f"byte {at} of what is overwritten in part",
            CUT.edited(8, f"allocate z sram {at}"),
            CUT.without(8).edited(5, f"allocate z sram {at}", "free x sram"),
            5,
            1,
            "'x'",
        )
        for at in (2, 6, 11)
    ),
    Refusal(Rule.OVERLAP, "a part is read, too", PART_OF_ANOTHER, PART_OF_ITSELF, 4, 0, "'x'"),
    Refusal(Rule.OVERLAP, "read in another shape, too", ALIKE, OTHER_SHAPE, 4, 0, "'x'"),
    Refusal(Rule.OVERLAP, "read in another order, too", ALIKE, OTHER_ORDER, 4, 0, "'x'"),
    Refusal(
        _LENT,
        "the output is copied",
        OVERWRITING.edited(4, "free x sram", "copy y sram dram"),
        OVERWRITING.edited(4, "copy y sram dram", "free x sram"),
        4,
        1,
        _COPIED,
    ),
    Refusal(
        _LENT,
        "the input is copied",
        OVERWRITING.edited(2, "copy x sram dram", "allocate y sram 0"),
        OVERWRITING.edited(2, "allocate y sram 0", "copy x sram dram"),
        3,
        0,
        _COPIED,
    ),
    Refusal(
        _LENT,
        "another operator runs first",
        EARLY,
        EARLY.without(6).edited(2, "allocate side sram 12", "allocate y sram 0"),
        4,
        0,
        "'h' runs while 'y' lies in its bytes for 'f'",
    ),
    Refusal(
        _LENT,
        "the next operator runs first",
        OVERWRITING,
        OVERWRITING.without(4).edited(5, "compute g", "free x sram"),
        5,
        1,
        "'g' runs while 'y' lies in its bytes for 'f'",
    ),
    Refusal(
        _LENT, "never freed", UNREAD_OVER, UNREAD_OVER.without(5), says="the plan ends while 's' lies in its bytes"
    ),
)
