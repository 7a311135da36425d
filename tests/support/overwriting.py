"""Plans whose outputs overwrite inputs, and the nearest problems where they may not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onchip.answer.problem import Problem
from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_ORDERS, SEEN_PARTS, SEEN_SHAPES, AttributeValue, InPlace
from support.programs import Case, graph, sram


def _in_place(plain: Graph, **pairs: tuple[InPlace, ...]) -> Graph:
    return replace(plain, operators=tuple(replace(one, in_place=pairs.get(one.name, ())) for one in plain.operators))


APART = Case(
    Problem(
        graph("x:input:8 y:activation:8 z:output:8 side:output:4", f="x -> y", g="y -> z", h="x -> side"), sram(16)
    ),
    """
    allocate x sram 0
    copy x dram sram
    allocate y sram 8
    compute f
    free x sram
    allocate z sram 0
    compute g
    free y sram
    copy z sram dram
    free z sram
    allocate x sram 0
    copy x dram sram
    allocate side sram 12
    compute h
    copy side sram dram
    """,
)
"""The same operators, with separate addresses for all tensors."""
OVERWRITING = Case(
    replace(APART.problem, graph=_in_place(APART.problem.graph, f=(InPlace("x", "y"),))),
    APART.program.replace("allocate y sram 8", "allocate y sram 0").replace("allocate z sram 0", "allocate z sram 8"),
)
"""y overwrites x, which is loaded again for h."""
JOINED = Case(
    Problem(
        _in_place(
            graph("x:input:4 w:input:3 y:output:9 z:output:1", join="x w -> y", last="y -> z"),
            join=(InPlace("x", "y", -1), InPlace("w", "y", -6)),
        ),
        sram(14),
    ),
    """
    allocate x sram 3
    copy x dram sram
    allocate w sram 8
    copy w dram sram
    allocate y sram 2
    compute join
    free x sram
    free w sram
    copy y sram dram
    allocate z sram 11
    compute last
    copy z sram dram
    """,
)
"""x and w are within y, at its bytes 1 and 6."""
CUT = Case(
    Problem(
        _in_place(
            graph("x:input:10 low:output:3 high:output:4 z:output:1", cut="x -> low high", last="low high -> z"),
            cut=(InPlace("x", "low", 1), InPlace("x", "high", 5)),
        ),
        sram(14),
    ),
    """
    allocate x sram 2
    copy x dram sram
    allocate low sram 3
    allocate high sram 7
    compute cut
    free x sram
    copy low sram dram
    copy high sram dram
    allocate z sram 2
    compute last
    copy z sram dram
    """,
)
"""low and high are within x, with a byte before, between and behind; z takes one of them after x has left."""
EARLY = Case(
    OVERWRITING.problem,
    """
    allocate x sram 0
    copy x dram sram
    allocate side sram 12
    compute h
    copy side sram dram
    free side sram
    allocate y sram 0
    compute f
    free x sram
    allocate z sram 8
    compute g
    free y sram
    copy z sram dram
    """,
)
"""h runs first, so that x is dead when it is overwritten."""
UNREAD_OVER = Case(
    Problem(_in_place(graph("x:input:4 y:output:4 s:activation:4", f="x -> y s"), f=(InPlace("x", "s"),)), sram(8)),
    """
    allocate x sram 0
    copy x dram sram
    allocate y sram 4
    allocate s sram 0
    compute f
    free x sram
    copy y sram dram
    """,
)
"""An unread output overwrites x."""

_ADDED = Case(
    Problem(_in_place(graph("x:input:8 w:input:8 y:output:8", f="x x w -> y"), f=(InPlace("x", "y"),)), sram(16)),
    """
    allocate x sram 0
    copy x dram sram
    allocate w sram 8
    copy w dram sram
    allocate y sram 0
    compute f
    free x sram
    copy y sram dram
    """,
)


def _added_as(attributes: Mapping[str, AttributeValue]) -> Case:
    """Return the sum of x, x and w over the bytes of x, with these views of the three."""
    plain = _ADDED.problem.graph
    operators = tuple(replace(one, attributes=attributes) for one in plain.operators)
    return replace(_ADDED, problem=replace(_ADDED.problem, graph=replace(plain, operators=operators)))


_WHOLE: list[AttributeValue] = [4, 2]
_TURNED: list[AttributeValue] = [2, 4]
_FIRST_ROW: list[AttributeValue] = [0, 2, 1]
PART_OF_ANOTHER = _added_as({SEEN_PARTS: [[], [], _FIRST_ROW], SEEN_SHAPES: [_WHOLE, _WHOLE, [1, 2]]})
"""The partial view is of w, not of x."""
PART_OF_ITSELF = _added_as({SEEN_PARTS: [[], _FIRST_ROW, []]})
ALIKE = _added_as({SEEN_SHAPES: [_WHOLE, _WHOLE, _TURNED], SEEN_ORDERS: [[0, 1], [0, 1], [1, 0]]})
"""Both views of x are equal."""
OTHER_SHAPE = _added_as({SEEN_SHAPES: [_WHOLE, _TURNED, _WHOLE]})
OTHER_ORDER = _added_as({SEEN_ORDERS: [[0, 1], [1, 0], [0, 1]]})
