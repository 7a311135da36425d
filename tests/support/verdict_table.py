"""Plans that are legal although they may not look it, and plans with several mistakes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onchip.answer.document import Claim
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.verify.rules import Rule
from support.kept_states import BESIDE, BOTH, KEPT, LOADED, UPDATED
from support.overwriting import APART, CUT, EARLY, JOINED, OVERWRITING
from support.programs import (
    CHAIN,
    CHAIN_WITH_PARAMETER,
    HELD,
    MOVED,
    RATED,
    READ_TWICE,
    SPILLED,
    TWO_OUTPUTS,
    TWO_SCRATCHPADS,
    UNREAD,
    Case,
    graph,
    least_peak,
    sram,
    static,
)
from support.timed_problems import TIMED


@dataclass(frozen=True)
class Mistakes:
    """Several mistakes in one plan, each reported once: (rule, subject, instruction, step)."""

    what: str
    case: Case
    violations: tuple[tuple[Rule, str, int | None, int | None], ...]

    def __str__(self) -> str:
        return self.what.replace(" ", "-")


MISTAKES = (
    Mistakes(
        "of a plan that is not legal no latency is known",
        replace(TIMED.edited(8), claim=Claim("any", Status.FEASIBLE, Objective.LATENCY, 0, 0)),
        ((Rule.OUTPUT_NEVER_WRITTEN, "y", None, None),),
    ),
    Mistakes(
        "a state leaves, and its next value never comes",
        KEPT.edited(7, "compute g").edited(8, "allocate z sram 4").edited(9, "compute h").without(10),
        (
            (Rule.STATE_MOVED, "s", 7, 1),
            (Rule.OUTPUT_NOT_RESIDENT, "n", 7, 1),
        ),
    ),
    Mistakes(
        "the plan ends when a state has left",
        KEPT.without(*range(7, 14)),
        (
            (Rule.OPERATOR_NEVER_RUN, "g", None, None),
            (Rule.OPERATOR_NEVER_RUN, "h", None, None),
            (Rule.OUTPUT_NEVER_WRITTEN, "z", None, None),
            (Rule.STATE_MOVED, "s", None, None),
        ),
    ),
    Mistakes(
        "what is overwritten leaves before its operator has run",
        OVERWRITING.without(4).edited(3, "free x sram", "compute f"),
        ((Rule.OVERWRITTEN_NOT_FREED, "x", 3, 0), (Rule.OPERAND_NOT_RESIDENT, "x", 4, 0)),
    ),
    Mistakes(
        "after its free a tensor is missing anew",
        CHAIN.edited(9, "free x sram").edited(0),
        ((Rule.TARGET_NOT_ALLOCATED, "x", 0, 0), (Rule.FREED_NOT_RESIDENT, "x", 8, 2)),
    ),
    Mistakes(
        "after its allocation a tensor is missing anew",
        TWO_SCRATCHPADS.edited(0, "copy x dram right", "copy x dram right", "allocate x left 0", "copy x dram right"),
        ((Rule.TARGET_NOT_ALLOCATED, "x", 0, 0), (Rule.TARGET_NOT_ALLOCATED, "x", 3, 0)),
    ),
    Mistakes(
        "a tensor with an address in DRAM is in no scratchpad",
        CHAIN.edited(0, "allocate x dram 0", "allocate ghost dram 0").edited(2, "copy x dram sram"),
        ((Rule.DRAM_ALLOCATED, "x", 0, 0), (Rule.UNKNOWN_TENSOR, "ghost", 1, 0), (Rule.DRAM_ALLOCATED, "ghost", 1, 0)),
    ),
    Mistakes(
        "both ends of a copy may be wrong",
        CHAIN.edited(1, "copy x dram sram", "copy ghost here there", "copy a dram left"),
        (
            (Rule.UNKNOWN_TENSOR, "ghost", 2, 0),
            (Rule.UNKNOWN_MEMORY, "here", 2, 0),
            (Rule.UNKNOWN_MEMORY, "there", 2, 0),
            (Rule.UNKNOWN_MEMORY, "left", 3, 0),
            (Rule.NOT_IN_DRAM, "a", 3, 0),
        ),
    ),
    Mistakes(
        "what goes to a memory that is not there is not in DRAM",
        CHAIN.edited(8, "copy y sram chip"),
        ((Rule.UNKNOWN_MEMORY, "chip", 8, 2), (Rule.OUTPUT_NEVER_WRITTEN, "y", None, None)),
    ),
    Mistakes(
        "a copy of nothing to nowhere",
        CHAIN.edited(1, "copy x dram sram", "copy y dram sram"),
        ((Rule.NOT_IN_DRAM, "y", 2, 0), (Rule.TARGET_NOT_ALLOCATED, "y", 2, 0)),
    ),
    Mistakes(
        "every wrong address is named",
        CHAIN.edited(0, "allocate x sram -2").edited(2, "allocate a sram 1").of(memories=sram(11, 2)),
        (
            (Rule.NEGATIVE_OFFSET, "x", 0, 0),
            (Rule.MISALIGNED, "a", 2, 0),
            (Rule.OVERLAP, "a", 2, 0),
            (Rule.MISALIGNED, "y", 5, 1),
            (Rule.BEYOND_CAPACITY, "y", 5, 1),
        ),
    ),
    Mistakes(
        "a residency that overlaps two others is two violations",
        TWO_OUTPUTS.edited(5, "allocate z sram 2"),
        ((Rule.OVERLAP, "z", 5, 1), (Rule.OVERLAP, "z", 5, 1)),
    ),
    Mistakes(
        "nothing overlaps what overlaps itself",
        CHAIN.edited(2, "allocate a sram 0").edited(5, "allocate y sram 2"),
        ((Rule.OVERLAP, "a", 2, 0),),
    ),
    Mistakes(
        "freeing what overlaps leaves the other where it is",
        CHAIN.edited(2, "allocate a sram 0", "free a sram", "allocate a sram 0"),
        ((Rule.OVERLAP, "a", 2, 0), (Rule.OVERLAP, "a", 4, 0)),
    ),
    Mistakes(
        "the place of an allocation repeated is the new one",
        CHAIN.edited(2, "allocate x sram 8", "allocate a sram 0").edited(5).edited(5, "allocate y sram 7"),
        ((Rule.ALLOCATED_TWICE, "x", 2, 0), (Rule.OVERLAP, "y", 5, 1)),
    ),
    Mistakes(
        "an allocation repeated does not begin another residency",
        static(
            CHAIN.without(4)
            .edited(4, "allocate x sram 0", "allocate y sram 7")
            .edited(9, "free y sram", "free x sram", "allocate x sram 0")
        ),
        ((Rule.ALLOCATED_TWICE, "x", 4, 1), (Rule.PLACEMENT_NOT_STATIC, "x", None, None)),
    ),
    Mistakes(
        "what is read where it is not held is missing anew after its allocation",
        READ_TWICE.edited(0, "allocate x outputs 0")
        .edited(1, "copy x dram outputs")
        .edited(4, "copy y outputs dram", "free x outputs", "allocate x outputs 0", "copy x dram outputs"),
        ((Rule.OPERAND_NOT_HELD, "x", 3, 0), (Rule.OPERAND_NOT_HELD, "x", 9, 1)),
    ),
    Mistakes(
        "an empty plan",
        replace(TWO_OUTPUTS, program=""),
        (
            (Rule.OPERATOR_NEVER_RUN, "f", None, None),
            (Rule.OPERATOR_NEVER_RUN, "g", None, None),
            (Rule.OUTPUT_NEVER_WRITTEN, "y", None, None),
            (Rule.OUTPUT_NEVER_WRITTEN, "z", None, None),
        ),
    ),
)


LEGAL = {
    "a plan that ends when it is claimed": replace(
        TIMED, claim=Claim("any", Status.FEASIBLE, Objective.LATENCY, 13, 0)
    ),
    "no operators, no instructions": Case(Problem(Graph("empty", (), ()), sram(1)), ""),
    "the chain": CHAIN,
    "a state that stays": KEPT,
    "a state that is loaded": LOADED,
    "a state that is updated": UPDATED,
    "two states that stay": BOTH,
    "a state that stays in one of two scratchpads": BESIDE,
    "an output over its input": OVERWRITING,
    "an output over an input that nobody needs": EARLY,
    "an output over another than its input": APART,
    "an output around its inputs": JOINED,
    "an output around one of its inputs": JOINED.edited(2, "allocate w sram 11").edited(9, "allocate z sram 0"),
    "outputs within their input": CUT,
    "one output within its input": CUT.edited(2, "allocate low sram 0")
    .of(memories=sram(20))
    .edited(8, "allocate z sram 19")
    .edited(0, "allocate x sram 4")
    .edited(3, "allocate high sram 9"),
    "all counted": CHAIN_WITH_PARAMETER,
    "the chain in the given order": CHAIN.of(order=Order.GIVEN),
    "the chain at least peak": least_peak(CHAIN),
    "all counted at least peak": least_peak(CHAIN_WITH_PARAMETER),
    "leftovers resident at the end": CHAIN.edited(9),
    "allocated early": CHAIN.edited(5).edited(0, "allocate y sram 7", "allocate x sram 0"),
    "allocated, never filled, freed": UNREAD.edited(4, "copy y sram dram", "allocate u sram 8", "free u sram"),
    "a redundant reload": CHAIN.edited(1, "copy x dram sram", "copy x dram sram"),
    "a network input written back": CHAIN.edited(4, "copy x sram dram", "free x sram"),
    "an activation spilled early and twice": SPILLED.edited(4, "copy a sram dram", "copy a sram dram"),
    "a network output dropped and reloaded": CHAIN.edited(9, "free y sram", "allocate y sram 0", "copy y dram sram"),
    "a network input nobody reads is loaded": UNREAD.edited(
        4, "copy y sram dram", "allocate u sram 9", "copy u dram sram"
    )
    .edited(7)
    .edited(7, "free u sram", "allocate z sram 8", "compute g"),
    "two scratchpads": TWO_SCRATCHPADS,
    "two scratchpads at least peak": least_peak(TWO_SCRATCHPADS),
    "read where it is written, undefined elsewhere": TWO_SCRATCHPADS.edited(3, "allocate x right 8", "compute f"),
    "an input twice": Case(
        Problem(graph("x:input:4 y:output:4", f="x x -> y"), sram(8)),
        "allocate x sram 0\ncopy x dram sram\nallocate y sram 4\ncompute f\ncopy y sram dram",
    ),
    "a move along a link": MOVED,
    "a move along a link that has a price": RATED,
    "a scratchpad for each kind of operand": HELD,
    "two readers of a scratchpad for inputs": READ_TWICE,
    "what merely waits may lie anywhere": HELD.edited(
        1, "allocate x outputs 8", "copy x dram outputs", "copy x outputs inputs"
    ),
    "a network output written out of where it merely waits": HELD.edited(
        11, "allocate y inputs 7", "copy y outputs inputs", "copy y inputs dram"
    ),
    "read where one of two scratchpads holds it": MOVED.of(
        memories=(replace(MOVED.problem.memories[0], holds=(Operand.OUTPUT,)), MOVED.problem.memories[1])
    ),
    "one residency each": static(CHAIN),
    "one residency for each operator": static(SPILLED),
    "one residency for each operator, and freed": static(
        SPILLED.edited(6, "free x sram", "allocate x sram 0", "copy x dram sram", "allocate b sram 4")
    ),
    "static in two scratchpads": static(TWO_SCRATCHPADS),
    "static with a move": static(MOVED.edited(5, "compute f", "free x left", "free x right")),
    "offsets at the alignment": CHAIN.edited(5, "allocate y sram 8").of(memories=sram(13, 4)),
}
