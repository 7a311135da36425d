"""Plans with states, overwritten inputs and operators that run again, and the nearest illegal plan of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onchip.answer.problem import Objective, Problem, Recomputation
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph, State
from onchip.ir.operator import SEEN_ORDERS, SEEN_PARTS, SEEN_SHAPES, AttributeValue, InPlace
from onchip.verify.rules import Rule
from support.programs import SPILLED, Case, graph, sram


@dataclass(frozen=True)
class Refusal:
    """`illegal` breaks `rule` once and nothing else, at `instruction` and `step` (None: the whole plan).

    The reported text contains `says`.
    """

    rule: Rule
    what: str
    legal: Case
    illegal: Case
    instruction: int | None = None
    step: int | None = None
    says: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}".replace(" ", "-")


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


PRICES = Recomputation({"f": 3, "g": 5, "h": 7})

RECOMPUTED = replace(
    SPILLED.of(recomputation=PRICES),
    program="""
    allocate x sram 0
    copy x dram sram
    allocate a sram 4
    compute f
    free a sram
    allocate b sram 4
    compute g
    allocate a sram 8
    compute f
    free x sram
    allocate y sram 0
    compute h
    copy y sram dram
    """,
)
"""The first operator's output is evicted, and the operator runs again at another offset: that costs 3."""

UNSPILLED = RECOMPUTED.of(objective=Objective.RECOMPUTATION)
"""The same without spills."""

ROOMY = RECOMPUTED.of(memories=sram(16))
"""The same with capacity for a second copy."""


def of_kind(case: Case, operator: str, kind: str) -> Case:
    """Return the same network with an operator of another kind."""
    graph = case.problem.graph
    operators = tuple(replace(one, kind=kind) if one.name == operator else one for one in graph.operators)
    return case.of(graph=Graph(graph.name, graph.tensors, operators, graph.states))


def _with_state(case: Case, old: str, new: str) -> Case:
    return case.of(graph=replace(case.problem.graph, states=(State(old, new),)))


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
    Refusal(
        Rule.OUTPUT_WRITTEN_AGAIN,
        "what ran again is written once",
        ROOMY.edited(12, "copy y sram dram", "free y sram", "allocate y sram 0", "compute h"),
        ROOMY.edited(12, "copy y sram dram", "free y sram", "allocate y sram 0", "compute h", "copy y sram dram"),
        16,
        5,
    ),
)

SPILLED_INSTEAD = SPILLED.of(recomputation=PRICES, objective=Objective.TRAFFIC)
"""A plan in which no operator runs again, although it may."""
