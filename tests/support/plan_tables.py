"""Plans with their verdicts and figures, worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onchip.answer.document import Claim
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor
from onchip.verify.figures import Figures
from onchip.verify.rules import Rule
from support.plan_states import APART, BESIDE, BOTH, CUT, EARLY, JOINED, KEPT, LOADED, OVERWRITING, RECOMPUTED, UPDATED
from support.programs import (
    CHAIN,
    CHAIN_WITH_PARAMETER,
    HELD,
    MOVED,
    RATED,
    READ_TWICE,
    SPILLED,
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
        ((Rule.STATE_MOVED, "s", 7, 1), (Rule.OUTPUT_NOT_RESIDENT, "n", 7, 1)),
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
        "freeing what overlaps leaves the other where it is",
        CHAIN.edited(2, "allocate a sram 0", "free a sram", "allocate a sram 0"),
        ((Rule.OVERLAP, "a", 2, 0), (Rule.OVERLAP, "a", 4, 0)),
    ),
    Mistakes(
        "the place of an allocation repeated is the new one",
        CHAIN.edited(2, "allocate x sram 8", "allocate a sram 0").edited(5).edited(5, "allocate y sram 7"),
        ((Rule.ALLOCATED_TWICE, "x", 2, 0), (Rule.OVERLAP, "y", 5, 1)),
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


class CyclesProblem(Problem):
    """A problem where a load into `left` costs 2 cycles per byte, into `right` 3; a write costs 10 and 20."""

    def transfer_cost(self, tensor: Tensor, source: str, target: str) -> int:
        cycles_per_byte = {("dram", "left"): 2, ("dram", "right"): 3, ("left", "dram"): 10, ("right", "dram"): 20}
        return cycles_per_byte[source, target] * tensor.size_bytes


@dataclass(frozen=True)
class Worked:
    """A plan with its figures, its non-compulsory traffic, and its legality."""

    what: str
    case: Case
    figures: Figures
    non_compulsory: int = 0
    is_legal: bool = True

    def agrees_with(self, figures: Figures, *, is_legal: bool) -> bool:
        """Compare field by field, so that the figures may be of another class."""
        names = tuple(self.figures.__dataclass_fields__)
        total = figures.loads + figures.write_backs
        return (
            all(getattr(figures, name) == getattr(self.figures, name) for name in names)
            and (figures.total, figures.non_compulsory) == (total, self.non_compulsory)
            and is_legal is self.is_legal
        )

    def __str__(self) -> str:
        return self.what.replace(" ", "-")


def _in_bytes(
    loads: int,
    write_backs: int,
    reloads: int,
    compulsory: int,
    peak: int,
    *,
    moved: int = 0,
    again: tuple[int, int] = (0, 0),
    **arenas: int,
) -> Figures:
    """Return figures where a transfer costs its bytes; `again` are the number and cost of rematerialisations."""
    return Figures(
        loads=loads,
        write_backs=write_backs,
        reloads=reloads,
        moved=moved,
        compulsory=compulsory,
        transfer_cost=loads + write_backs + moved,
        compulsory_cost=compulsory,
        peak_bytes=peak,
        arenas=tuple(arenas.items()),
        runs_again=again[0],
        recomputation_cost=again[1],
    )


_CYCLES = CyclesProblem(TWO_SCRATCHPADS.problem.graph, TWO_SCRATCHPADS.problem.memories)

WORKED = (
    # x(4) in, z(4) out; s or n (4) together with x and y, or y and z.
    Worked("a state that stays", KEPT, replace(_in_bytes(4, 4, 0, 8, 12, sram=12), states_on_chip=("s",))),
    # s(4) in and n(4) out as well, which is compulsory here, but not for every plan.
    Worked(
        "a state that is loaded",
        LOADED,
        replace(_in_bytes(8, 8, 0, 16, 12, sram=16), compulsory_cost=8, states_loaded=("s",)),
    ),
    Worked(
        "an input overwritten without a pair",
        replace(OVERWRITING, problem=APART.problem),
        _in_bytes(16, 12, 8, 20, 16, sram=16),
        non_compulsory=8,
        is_legal=False,
    ),
    # low(3) and high(4) within x(10), which ends at 12.
    Worked("a whole around its parts", CUT, _in_bytes(10, 8, 0, 18, 10, sram=12)),
    # The same while x is still resident, with z(1).
    Worked(
        "room beside a whole around its parts",
        CUT.without(8).edited(5, "allocate z sram 12", "free x sram"),
        _in_bytes(10, 8, 0, 18, 11, sram=13),
    ),
    Worked("a chain in time", TIMED, replace(_in_bytes(4, 5, 0, 9, 8, sram=12), latency_cycles=13)),
    Worked(
        "a chain in time, asked for its traffic",
        replace(TIMED, problem=replace(TIMED.problem, objective=Objective.TRAFFIC)),
        _in_bytes(4, 5, 0, 9, 8, sram=12),
    ),
    Worked(
        "a plan in time that is not legal",
        TIMED.edited(8),
        _in_bytes(4, 0, 0, 9, 8, sram=12),
        non_compulsory=-5,
        is_legal=False,
    ),
    # a(4) is spilled and reloaded: 8 beyond the compulsory x(4) and y(4); a, b and y at once.
    Worked("a spill and a reload", SPILLED, _in_bytes(8, 8, 4, 8, 12, sram=12), non_compulsory=8),
    # f costs 3 for its second run; x(4) stays for it, with b(4) and y(4).
    Worked("an operator that runs again", RECOMPUTED, _in_bytes(4, 4, 0, 8, 12, again=(1, 3), sram=12)),
    # u(3) and z(2) have no readers: loading u is not compulsory, and z is never moved.
    Worked("unread tensors", UNREAD, _in_bytes(4, 4, 0, 8, 10, sram=10)),
    Worked(
        "an output dropped and reloaded",
        CHAIN.edited(9, "free y sram", "allocate y sram 0", "copy y dram sram"),
        _in_bytes(9, 5, 5, 9, 8, sram=12),
        non_compulsory=5,
    ),
    Worked(
        "a scratchpad that is not used",
        Case(TWO_SCRATCHPADS.problem, CHAIN.program.replace("sram", "right")),
        _in_bytes(4, 5, 0, 9, 8, left=0, right=12),
    ),
    # x(4) is moved, which costs its bytes; it is in both scratchpads while y(5) and a(3) are resident.
    Worked("a move along a link", MOVED, _in_bytes(4, 5, 0, 9, 21, moved=4, left=9, right=12)),
    # x: 2 cycles per byte, y from `right` 20; the least for y would be 10 from `left`.
    Worked(
        "costs that are no bytes",
        Case(_CYCLES, TWO_SCRATCHPADS.program),
        Figures(4, 5, 0, 0, 9, 8 + 100, 8 + 50, 17, (("left", 9), ("right", 8)), 0, 0),
    ),
    # x is loaded for 5 and moved for 10, y is stored for 16; the least for x and y are 5 and 14.
    Worked(
        "a move that has a price",
        RATED,
        Figures(4, 5, 0, 4, 9, 5 + 10 + 16, 5 + 14, 21, (("left", 9), ("right", 12)), 0, 0),
    ),
    Worked(
        "a copy between scratchpads is no traffic",
        TWO_SCRATCHPADS.edited(3, "allocate x right 8", "copy x left right", "compute f"),
        _in_bytes(4, 5, 0, 9, 21, left=9, right=12),
        is_legal=False,
    ),
    Worked(
        "a copy to a memory that is not there is no traffic",
        CHAIN.edited(1, "copy x dram sram", "copy x dram chip"),
        _in_bytes(4, 5, 0, 9, 8, sram=12),
        is_legal=False,
    ),
    Worked(
        "a copy from a memory to itself is no traffic",
        CHAIN.edited(1, "copy x dram sram", "copy x dram dram", "copy x sram sram"),
        _in_bytes(4, 5, 0, 9, 8, sram=12),
        is_legal=False,
    ),
)
