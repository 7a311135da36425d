"""Plans whose states stay on the chip, or are loaded and written back."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory
from onchip.ir.graph import State
from support.programs import Case, graph, sram

_APART = graph("x:input:4 s:input:4 y:activation:4 n:output:4 z:output:4", f="x s -> y", g="y -> n", h="n y -> z")
KEPT = Case(
    Problem(replace(_APART, states=(State("s", "n"),)), sram(16)),
    """
    allocate s sram 0 state
    allocate x sram 4
    copy x dram sram
    allocate y sram 8
    compute f
    free x sram
    free s sram
    allocate n sram 0
    compute g
    allocate z sram 4
    compute h
    copy z sram dram
    free z sram
    free y sram
    """,
)
"""The old tensor is freed, and the new one takes its place."""
LOADED = Case(
    KEPT.problem,
    """
    allocate s sram 0
    copy s dram sram
    allocate x sram 4
    copy x dram sram
    allocate y sram 8
    compute f
    free x sram
    free s sram
    allocate n sram 12
    compute g
    copy n sram dram
    allocate z sram 4
    compute h
    copy z sram dram
    """,
)
"""The same problem; the state is loaded and written as a network input and an output."""
_IN_TWO = (Memory("sram", 16), Memory("other", 4))
BESIDE = KEPT.of(memories=_IN_TWO)
"""The same plan with a second scratchpad."""
BOTH = Case(
    Problem(
        replace(
            graph("s:input:4 t:input:4 n:output:4 m:output:4", f="s -> n", g="t -> m"),
            states=(State("s", "n", in_place=True), State("t", "m", in_place=True)),
        ),
        sram(8),
    ),
    """
    allocate s sram 0 state
    allocate t sram 4 state
    allocate n sram 0
    compute f
    free s sram
    allocate m sram 4
    compute g
    free t sram
    """,
)
"""Two states that fill the scratchpad."""
UPDATED = Case(
    Problem(
        replace(
            graph("x:input:4 s:input:4 n:output:4 z:output:4", f="x s -> n", h="n -> z"),
            states=(State("s", "n", in_place=True),),
        ),
        sram(8),
    ),
    """
    allocate s sram 0 state
    allocate x sram 4
    copy x dram sram
    allocate n sram 0
    compute f
    free s sram
    free x sram
    allocate z sram 4
    compute h
    copy z sram dram
    """,
)
"""The new tensor overwrites the old one, which its operator reads."""
