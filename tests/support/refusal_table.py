"""The nearest legal case and the nearest illegal one for each rule of the verifier."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.document import Claim
from onchip.answer.problem import Count, Objective, Order, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Operand
from onchip.verify.rules import Rule
from support.plan_states import (
    KEPT_STATES_REFUSALS,
    OVERWRITING_REFUSALS,
    RECOMPUTATION_REFUSALS,
    RECOMPUTED,
    SPILLED_INSTEAD,
    UNSPILLED,
    Refusal,
)
from support.programs import (
    CHAIN,
    CHAIN_WITH_PARAMETER,
    HELD,
    LEFT_AND_RIGHT,
    MOVED,
    RATED,
    SPILLED,
    TWO_OUTPUTS,
    TWO_SCRATCHPADS,
    UNREAD,
    Case,
    graph,
    least_peak,
    linked,
    sram,
    static,
)


def _claimed(case: Case, status: Status, objective: Objective, value: int, bound: int) -> Case:
    return replace(case, claim=Claim("any", status, objective, value, bound))


LATER_FIRST = replace(
    TWO_OUTPUTS,
    program="""
    allocate x sram 0
    copy x dram sram
    allocate z sram 4
    compute g
    copy z sram dram
    allocate y sram 8
    compute f
    copy y sram dram
    """,
)
THREE_OUTPUTS = Case(
    Problem(
        graph("x:input:1 p:activation:1 q:activation:1 r:activation:1", f="x -> p", g="x -> q", h="x -> r"), sram(4)
    ),
    """
    allocate x sram 0
    copy x dram sram
    allocate p sram 1
    compute f
    allocate q sram 2
    compute g
    allocate r sram 3
    compute h
    """,
)
THREE_OUTPUTS_LAST_FIRST = replace(
    THREE_OUTPUTS,
    program="""
    allocate x sram 0
    copy x dram sram
    allocate p sram 1
    allocate q sram 2
    allocate r sram 3
    compute h
    compute f
    compute g
    """,
)
SPILLED_LATE = replace(
    SPILLED,
    program="""
    allocate x sram 0
    copy x dram sram
    allocate a sram 4
    compute f
    copy a sram dram
    allocate b sram 8
    compute g
    free a sram
    free x sram
    allocate a sram 4
    copy a dram sram
    allocate y sram 0
    compute h
    copy y sram dram
    """,
)
RELOADED_EARLY = replace(
    SPILLED,
    program="""
    allocate x sram 0
    copy x dram sram
    allocate a sram 4
    compute f
    copy a sram dram
    free a sram
    allocate b sram 4
    allocate a sram 8
    copy a dram sram
    compute g
    free x sram
    allocate y sram 0
    compute h
    copy y sram dram
    """,
)

_NAMES = (
    Refusal(
        Rule.UNKNOWN_TENSOR,
        "a wrong name used three times is said once",
        CHAIN,
        CHAIN.edited(9, "allocate ghost sram 0", "copy ghost dram sram", "free ghost sram"),
        9,
        2,
    ),
    Refusal(Rule.UNKNOWN_OPERATOR, "one more", CHAIN, CHAIN.edited(9, "free y sram", "compute ghost"), 10, 2),
    Refusal(
        Rule.UNKNOWN_MEMORY,
        "the plan's name for its scratchpad is not the problem's",
        CHAIN,
        replace(CHAIN, program=CHAIN.program.replace("sram", "chip")),
        0,
        0,
    ),
    Refusal(
        Rule.UNKNOWN_MEMORY, "the only write of a network output", CHAIN, CHAIN.edited(8, "copy y chip dram"), 8, 2
    ),
    Refusal(
        Rule.UNCOUNTED_PARAMETER,
        "the same plan when only activations count",
        CHAIN_WITH_PARAMETER,
        CHAIN_WITH_PARAMETER.of(count=Count.ACTIVATIONS),
        2,
        0,
    ),
)

_RESIDENCIES = (
    Refusal(Rule.DRAM_ALLOCATED, "an address in DRAM", CHAIN, CHAIN.edited(0, "allocate x dram 0"), 0, 0),
    Refusal(Rule.DRAM_ALLOCATED, "freeing DRAM", CHAIN, CHAIN.edited(4, "free x sram", "free x dram"), 5, 1),
    Refusal(Rule.NEGATIVE_OFFSET, "one byte below", CHAIN, CHAIN.edited(0, "allocate x sram -1"), 0, 0),
    Refusal(
        Rule.MISALIGNED,
        "a multiple of 2 where 4 is asked",
        CHAIN.edited(5, "allocate y sram 8").of(memories=sram(16, alignment_bytes=4)),
        CHAIN.edited(5, "allocate y sram 10").of(memories=sram(16, alignment_bytes=4)),
        5,
        1,
    ),
    Refusal(Rule.BEYOND_CAPACITY, "one byte less", CHAIN, CHAIN.of(memories=sram(11)), 5, 1),
    Refusal(Rule.OVERLAP, "one byte, from above", CHAIN, CHAIN.edited(2, "allocate a sram 3"), 2, 0),
    Refusal(
        Rule.OVERLAP,
        "one byte, from below",
        CHAIN.edited(0, "allocate x sram 3").edited(2, "allocate a sram 0"),
        CHAIN.edited(0, "allocate x sram 2").edited(2, "allocate a sram 0"),
        2,
        0,
    ),
    Refusal(Rule.OVERLAP, "inside another", CHAIN, CHAIN.edited(2, "allocate a sram 0"), 2, 0),
    Refusal(
        Rule.OVERLAP,
        "around another",
        CHAIN.edited(2, "allocate a sram 8").edited(5, "allocate y sram 0"),
        CHAIN.edited(2, "allocate a sram 8").edited(5, "allocate y sram 7"),
        5,
        1,
    ),
    Refusal(
        Rule.OVERLAP,
        "a tensor nobody needs any more but that is not freed",
        CHAIN.edited(9, "allocate x sram 0"),
        CHAIN.edited(9, "allocate x sram 4"),
        9,
        2,
    ),
    Refusal(
        Rule.ALLOCATED_TWICE,
        "at the same offset, the bytes staying",
        CHAIN,
        CHAIN.edited(1, "copy x dram sram", "allocate x sram 0"),
        2,
        0,
    ),
    Refusal(Rule.FREED_NOT_RESIDENT, "twice", CHAIN, CHAIN.edited(4, "free x sram", "free x sram"), 5, 1),
    Refusal(
        Rule.PLACEMENT_NOT_STATIC,
        "the first of two residencies is over two operators",
        static(SPILLED),
        static(SPILLED_LATE),
        says="it has 2 residencies, one of them over 2 operators",
    ),
    Refusal(
        Rule.PLACEMENT_NOT_STATIC,
        "the last of two residencies, which does not end, is over two operators",
        static(SPILLED),
        static(RELOADED_EARLY),
    ),
)

_TRANSFERS = (
    Refusal(Rule.COPY_TO_ITSELF, "a scratchpad", CHAIN, CHAIN.edited(1, "copy x dram sram", "copy x sram sram"), 2, 0),
    Refusal(
        Rule.SOURCE_UNDEFINED,
        "a move of what is not there yet",
        MOVED,
        MOVED.edited(1, "allocate x right 8", "copy x left right", "copy x dram left").without(5, 6),
        2,
        0,
    ),
    Refusal(Rule.TARGET_NOT_ALLOCATED, "a move to nowhere", MOVED, MOVED.without(3), 3, 0),
    Refusal(
        Rule.NOT_IN_DRAM,
        "two loads of it are one violation",
        SPILLED.edited(10, "copy a dram sram", "copy a dram sram"),
        SPILLED.edited(10, "copy a dram sram", "copy a dram sram").edited(4),
        9,
        2,
    ),
    Refusal(
        Rule.SOURCE_NOT_RESIDENT,
        "freed before it is written",
        CHAIN,
        CHAIN.edited(8, "free y sram").edited(9, "copy y sram dram"),
        9,
        2,
    ),
    Refusal(
        Rule.SOURCE_UNDEFINED,
        "two spills of nothing are one violation",
        SPILLED.edited(4, "copy a sram dram", "copy a sram dram"),
        SPILLED.edited(4).edited(3, "copy a sram dram", "copy a sram dram", "compute f"),
        3,
        0,
    ),
    Refusal(
        Rule.OUTPUT_WRITTEN_AGAIN,
        "where an activation may be written again",
        SPILLED.edited(4, "copy a sram dram", "copy a sram dram"),
        SPILLED.edited(13, "copy y sram dram", "copy y sram dram"),
        14,
        3,
    ),
    Refusal(
        Rule.NON_COMPULSORY_TRAFFIC,
        "a reload of a network input",
        least_peak(CHAIN),
        least_peak(CHAIN.edited(1, "copy x dram sram", "copy x dram sram")),
        2,
        0,
    ),
    Refusal(
        Rule.NON_COMPULSORY_TRAFFIC,
        "a load of a network input nobody reads",
        least_peak(UNREAD),
        least_peak(UNREAD.edited(5, "allocate u sram 9", "copy u dram sram", "free u sram", "allocate z sram 8")),
        6,
        1,
    ),
    Refusal(
        Rule.NON_COMPULSORY_TRAFFIC,
        "least peak is what is claimed, not what the problem asks",
        _claimed(CHAIN, Status.FEASIBLE, Objective.PEAK, 12, 8),
        _claimed(CHAIN.edited(6, "copy a sram dram", "compute g"), Status.FEASIBLE, Objective.PEAK, 12, 8),
        6,
        1,
    ),
    Refusal(
        Rule.NON_COMPULSORY_TRAFFIC,
        "least peak is what the problem asks, not what is claimed",
        _claimed(least_peak(CHAIN), Status.FEASIBLE, Objective.TRAFFIC, 0, 0),
        _claimed(
            least_peak(CHAIN.edited(6, "copy a sram dram", "compute g")), Status.FEASIBLE, Objective.TRAFFIC, 3, 0
        ),
        6,
        1,
    ),
    Refusal(
        Rule.NO_LINK,
        "between scratchpads, said alone even for least peak",
        least_peak(TWO_SCRATCHPADS),
        least_peak(TWO_SCRATCHPADS.edited(3, "allocate x right 8", "copy x left right", "compute f")),
        4,
        0,
    ),
    Refusal(Rule.NON_COMPULSORY_TRAFFIC, "a move along a link", least_peak(MOVED.without(4)), least_peak(MOVED), 4, 0),
)

_OPERATORS = (
    Refusal(
        Rule.OPERAND_NOT_RESIDENT,
        "freed before it is read",
        CHAIN,
        CHAIN.edited(4).edited(3, "free x sram", "compute f"),
        4,
        0,
    ),
    Refusal(Rule.OPERAND_UNDEFINED, "allocated but not loaded", CHAIN, CHAIN.edited(1), 2, 0),
    Refusal(
        Rule.OPERAND_UNDEFINED, "undefined at two readers is one violation", TWO_OUTPUTS, TWO_OUTPUTS.edited(1), 2, 0
    ),
    Refusal(
        Rule.OPERAND_NOT_HELD,
        "an input left where outputs are",
        HELD,
        HELD.without(6, 7, 8),
        7,
        1,
        "reads it as input, but it is only in 'outputs' at [5, 8); scratchpads that hold inputs: 'inputs'",
    ),
    Refusal(
        Rule.OPERAND_NOT_HELD,
        "a weight where no scratchpad holds weights",
        CHAIN_WITH_PARAMETER,
        CHAIN_WITH_PARAMETER.of(
            memories=(replace(CHAIN_WITH_PARAMETER.problem.memories[0], holds=(Operand.INPUT, Operand.OUTPUT)),)
        ),
        5,
        0,
        "scratchpads that hold weights: none",
    ),
    Refusal(
        Rule.OUTPUT_NOT_HELD,
        "a place among the inputs alone",
        HELD,
        HELD.without(6, 7, 8).edited(4, "allocate a inputs 4"),
        5,
        0,
    ),
    Refusal(
        Rule.OUTPUT_NOT_HELD,
        "it waits among the inputs before it is written elsewhere, or is to be written there",
        TWO_SCRATCHPADS.of(memories=(replace(LEFT_AND_RIGHT[0], holds=(Operand.INPUT,)), LEFT_AND_RIGHT[1])),
        TWO_SCRATCHPADS.of(memories=(replace(LEFT_AND_RIGHT[0], holds=(Operand.INPUT,)), LEFT_AND_RIGHT[1]))
        .without(5, 6)
        .edited(6, "copy y left dram"),
        5,
        1,
    ),
    Refusal(
        Rule.OUTPUT_IN_SEVERAL,
        "the other place is free again before it is written, or after",
        TWO_SCRATCHPADS,
        TWO_SCRATCHPADS.edited(7, "compute g", "free y left").without(6),
        6,
        1,
        "writes it, and it is allocated in 'left', 'right': one is written",
    ),
    Refusal(
        Rule.OUTPUT_IN_SEVERAL,
        "a copy may follow",
        linked(TWO_SCRATCHPADS, ("right", "left")).edited(
            8, "allocate y left 4", "copy y right left", "copy y left dram"
        ),
        linked(TWO_SCRATCHPADS, ("right", "left")).edited(8, "copy y right left", "copy y left dram").without(6),
        6,
        1,
    ),
    Refusal(Rule.OUTPUT_NOT_RESIDENT, "no place for it", CHAIN, CHAIN.edited(2), 2, 0),
    Refusal(Rule.OPERATOR_NEVER_RUN, "nobody reads what it writes", UNREAD, UNREAD.edited(6)),
    Refusal(
        Rule.OUT_OF_ORDER,
        "where the order is given",
        TWO_OUTPUTS.of(order=Order.GIVEN),
        LATER_FIRST.of(order=Order.GIVEN),
        6,
        1,
    ),
    Refusal(
        Rule.OUT_OF_ORDER,
        "the one moved early is the one violation",
        THREE_OUTPUTS.of(order=Order.GIVEN),
        THREE_OUTPUTS_LAST_FIRST.of(order=Order.GIVEN),
        6,
        1,
    ),
)


def _claims(objective: Objective, case: Case, value: int) -> tuple[Refusal, ...]:
    """Return refusals of wrong claims; `value` is the true value of `case`."""

    def claimed(status: Status, value: int, bound: int) -> Case:
        return _claimed(case, status, objective, value, bound)

    proven, found = claimed(Status.OPTIMAL, value, value), claimed(Status.FEASIBLE, value, value - 1)
    return (
        Refusal(Rule.OBJECTIVE_DIFFERS, f"{objective} less", found, claimed(Status.FEASIBLE, value - 1, value - 1)),
        Refusal(Rule.OBJECTIVE_DIFFERS, f"{objective} more", proven, claimed(Status.OPTIMAL, value + 1, value + 1)),
        Refusal(Rule.BOUND_ABOVE_OBJECTIVE, objective, proven, claimed(Status.OPTIMAL, value, value + 1)),
        Refusal(Rule.OPTIMAL_UNPROVEN, objective, found, claimed(Status.OPTIMAL, value, value - 1)),
        Refusal(Rule.ANSWER_DENIED, f"{objective} infeasible", proven, claimed(Status.INFEASIBLE, value, value)),
        Refusal(Rule.ANSWER_DENIED, f"{objective} unknown", found, claimed(Status.UNKNOWN, value, value - 1)),
    )


REFUSALS = (
    *_NAMES,
    *_RESIDENCIES,
    *OVERWRITING_REFUSALS,
    *KEPT_STATES_REFUSALS,
    *_TRANSFERS,
    *_OPERATORS,
    *RECOMPUTATION_REFUSALS,
    *_claims(Objective.TRAFFIC, SPILLED, 8),
    *_claims(Objective.TRAFFIC, SPILLED_INSTEAD, 8),
    *_claims(Objective.TRAFFIC, RECOMPUTED, 3),
    *_claims(Objective.RECOMPUTATION, UNSPILLED, 3),
    *_claims(Objective.PEAK, CHAIN, 12),
    *_claims(Objective.TRAFFIC, MOVED, 4),
    *_claims(Objective.DMA_CYCLES, RATED, 12),
    *_claims(Objective.DMA_ENERGY, RATED.of(objective=Objective.DMA_ENERGY), 12),
)
