"""Plans whose figures were worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onchip.answer.problem import Objective, Problem
from onchip.ir.tensor import Tensor
from onchip.verify.figures import Figures
from support.kept_states import KEPT, LOADED
from support.overwriting import APART, CUT, JOINED, OVERWRITING
from support.programs import (
    CHAIN,
    CHAIN_WITH_PARAMETER,
    HELD,
    MOVED,
    RATED,
    SPILLED,
    TWO_OUTPUTS,
    TWO_SCRATCHPADS,
    UNREAD,
    Case,
    graph,
    sram,
)
from support.recomputed import RECOMPUTED
from support.timed_problems import TIMED


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
    # y(8) overwrites x(8), which is reloaded: z(8) is live with y, side(4) with x.
    Worked("an input overwritten", OVERWRITING, _in_bytes(16, 12, 8, 20, 16, sram=16), non_compulsory=8),
    Worked(
        "an input overwritten without a pair",
        replace(OVERWRITING, problem=APART.problem),
        _in_bytes(16, 12, 8, 20, 16, sram=16),
        non_compulsory=8,
        is_legal=False,
    ),
    # x(4) and w(3) within y(9), which ends at 11; z(1) is live with it.
    Worked("parts within a whole", JOINED, _in_bytes(7, 10, 0, 17, 10, sram=12)),
    # low(3) and high(4) within x(10), which ends at 12.
    Worked("a whole around its parts", CUT, _in_bytes(10, 8, 0, 18, 10, sram=12)),
    # The same while x is still resident, with z(1).
    Worked(
        "room beside a whole around its parts",
        CUT.without(8).edited(5, "allocate z sram 12", "free x sram"),
        _in_bytes(10, 8, 0, 18, 11, sram=13),
    ),
    # x(4) in, y(5) out; a(3) and y are the peak, y ends at 12.
    Worked("a chain", CHAIN, _in_bytes(4, 5, 0, 9, 8, sram=12)),
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
    # w(2) is loaded too: x, w and a at once; w ends at 14.
    Worked("all counted", CHAIN_WITH_PARAMETER, _in_bytes(6, 5, 0, 11, 9, sram=14)),
    # a(4) is spilled and reloaded: 8 beyond the compulsory x(4) and y(4); a, b and y at once.
    Worked("a spill and a reload", SPILLED, _in_bytes(8, 8, 4, 8, 12, sram=12), non_compulsory=8),
    # f costs 3 for its second run; x(4) stays for it, with b(4) and y(4).
    Worked("an operator that runs again", RECOMPUTED, _in_bytes(4, 4, 0, 8, 12, again=(1, 3), sram=12)),
    Worked("one input for two outputs", TWO_OUTPUTS, _in_bytes(4, 8, 0, 12, 12, sram=12)),
    # u(3) and z(2) have no readers: loading u is not compulsory, and z is never moved.
    Worked("unread tensors", UNREAD, _in_bytes(4, 4, 0, 8, 10, sram=10)),
    Worked(
        "an unread network input loaded, which is no reload",
        UNREAD.edited(0, "allocate u sram 9", "copy u dram sram", "free u sram", "allocate x sram 0"),
        _in_bytes(7, 4, 0, 8, 10, sram=12),
        non_compulsory=3,
    ),
    Worked(
        "an output dropped and reloaded",
        CHAIN.edited(9, "free y sram", "allocate y sram 0", "copy y dram sram"),
        _in_bytes(9, 5, 5, 9, 8, sram=12),
        non_compulsory=5,
    ),
    Worked(
        "a network input written back",
        CHAIN.edited(1, "copy x dram sram", "copy x sram dram"),
        _in_bytes(4, 9, 0, 9, 8, sram=12),
        non_compulsory=4,
    ),
    Worked(
        "a network input loaded twice",
        CHAIN.edited(1, "copy x dram sram", "copy x dram sram"),
        _in_bytes(8, 5, 4, 9, 8, sram=12),
        non_compulsory=4,
    ),
    Worked(
        "an input named twice is one tensor",
        Case(
            Problem(graph("x:input:4 y:output:7", f="x x -> y"), sram(20)),
            "allocate x sram 0\ncopy x dram sram\nallocate y sram 5\ncompute f\ncopy y sram dram",
        ),
        _in_bytes(4, 7, 0, 11, 11, sram=12),
    ),
    Worked(
        "a peak between two steps",
        CHAIN.edited(4).edited(4, "allocate y sram 7", "free x sram"),
        _in_bytes(4, 5, 0, 9, 12, sram=12),
    ),
    # x(4) and a(3), then y(5) twice.
    Worked("two scratchpads", TWO_SCRATCHPADS, _in_bytes(4, 5, 0, 9, 17, left=9, right=8)),
    Worked(
        "a scratchpad that is not used",
        Case(TWO_SCRATCHPADS.problem, CHAIN.program.replace("sram", "right")),
        _in_bytes(4, 5, 0, 9, 8, left=0, right=12),
    ),
    # x: 2 cycles per byte, y from `right` 20; the least for y would be 10 from `left`.
    Worked(
        "costs that are no bytes",
        Case(_CYCLES, TWO_SCRATCHPADS.program),
        Figures(4, 5, 0, 0, 9, 8 + 100, 8 + 50, 17, (("left", 9), ("right", 8)), 0, 0),
    ),
    # x is loaded into `right` at 3 cycles per byte although 2 is possible; y is stored from `left`.
    Worked(
        "a compulsory load where it costs more",
        Case(
            _CYCLES,
            TWO_SCRATCHPADS.program.replace("copy y right", "copy y left").replace("free y left", "free y right"),
        )
        .edited(0, "allocate x right 8")
        .edited(1, "copy x dram right"),
        Figures(4, 5, 0, 0, 9, 12 + 50, 8 + 50, 17, (("left", 9), ("right", 12)), 0, 0),
    ),
    # x(4) is moved, which costs its bytes; it is in both scratchpads while y(5) and a(3) are resident.
    Worked("a move along a link", MOVED, _in_bytes(4, 5, 0, 9, 21, moved=4, left=9, right=12)),
    # x is loaded for 5 and moved for 10, y is stored for 16; the least for x and y are 5 and 14.
    Worked(
        "a move that has a price",
        RATED,
        Figures(4, 5, 0, 4, 9, 5 + 10 + 16, 5 + 14, 21, (("left", 9), ("right", 12)), 0, 0),
    ),
    # x(4) and w(2) are loaded, a(3) is moved; then x, w, a and y(5) at once.
    Worked(
        "a scratchpad for each kind of operand",
        HELD,
        _in_bytes(6, 5, 0, 11, 14, moved=3, weights=2, inputs=7, outputs=8),
    ),
    Worked(
        "an allocation repeated is one residency",
        CHAIN.edited(1, "copy x dram sram", "allocate x sram 0"),
        _in_bytes(4, 5, 0, 9, 8, sram=12),
        is_legal=False,
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
    Worked(
        "what an operator wrote without a place had been on chip",
        CHAIN.edited(2).edited(4, "allocate a sram 4", "copy a dram sram", "allocate y sram 7"),
        _in_bytes(7, 5, 3, 9, 8, sram=12),
        non_compulsory=3,
        is_legal=False,
    ),
    Worked(
        "freeing what is not there frees nothing",
        CHAIN.edited(4, "free x sram", "free x sram"),
        _in_bytes(4, 5, 0, 9, 8, sram=12),
        is_legal=False,
    ),
    Worked(
        "a copy that is missing", CHAIN.edited(8), _in_bytes(4, 0, 0, 9, 8, sram=12), non_compulsory=-5, is_legal=False
    ),
)
