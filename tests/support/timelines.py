"""Plans timed on a small accelerator."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dma, Dram, Link, Port
from onchip.model.timeline.plan_timeline import Timeline, time_plan
from onchip.verify.verifier import verify
from support.programs import Case, graph, sram

BOTH = (Port(Direction.READ_WRITE, 8),)
"""One byte per cycle, in or out."""


def chip(case: Case, ports: tuple[Port, ...] = BOTH, queues: int = 1, setup_cycles: int = 0) -> Accelerator:
    return Accelerator(
        "chip",
        case.problem.memories,
        array=ComputeArray(free=4, mac_energy_pj=2.0),
        dram=Dram(Access(32, 8.0, 16.0), ports),
        dma=Dma(queues, setup_cycles),
        links=tuple(Link(source, target, 16) for source, target in case.problem.transfers.links),
    )


def timed(case: Case, accelerator: Accelerator | None = None, **cycles: int) -> Timeline:
    """Return the timing of a legal plan; operators take 10 cycles by default."""
    assert verify(case.problem, case.plan).is_legal
    return time_plan(
        case.problem,
        case.plan,
        accelerator or chip(case),
        lambda operator: cycles.get(operator.name, 10),
        lambda operator: 4 * cycles.get(operator.name, 10),
    )


def intervals(timeline: Timeline) -> list[str]:
    return [f"{activity.subject} {activity.start}-{activity.stop}" for activity in timeline.activities]


def clock(problem: Problem, plan: Plan, accelerator: Accelerator, cycles: Mapping[str, int]) -> Timeline:
    return time_plan(problem, plan, accelerator, lambda operator: cycles[operator.name], lambda _: 1)


TWO_LOADS = Case(
    Problem(graph("x:input:4 u:input:4 y:output:4", f="x u -> y"), sram(12)),
    """
    allocate x sram 0
    copy x dram sram
    allocate u sram 4
    copy u dram sram
    allocate y sram 8
    compute f
    copy y sram dram
    """,
)


LOAD_BESIDE_WRITE = Case(
    Problem(graph("x:input:4 u:input:4 y:output:4 z:output:4", f="x -> y", g="u -> z"), sram(16)),
    """
    allocate x sram 0
    copy x dram sram
    allocate y sram 4
    compute f
    copy y sram dram
    free x sram
    allocate u sram 0
    copy u dram sram
    allocate z sram 8
    compute g
    copy z sram dram
    """,
)
