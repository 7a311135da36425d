"""Real plans for several scratchpads: three with roles, two equal ones, and two with links; whole, tiled, static."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Count, Objective, Placement, Problem
from onchip.answer.program import Plan
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.reports.program.outcome import Outcome

LINKED = str(Path(__file__).with_name("linked.yaml"))

REQUESTS = {
    "roles": Request("lenet5", target=Target(accelerator="nvdla-like")),
    "alike, in tiles": Request(
        "lenet5", target=Target(accelerator="hifi4-like"), method="onsram", tiles=TilesOption.AUTO
    ),
    "static, in tiles": Request(
        "minerva",
        Reading(bits=8, count=Count.ALL),
        Target(accelerator="nvdla-like"),
        method="onsram",
        placement=Placement.STATIC,
        tiles=TilesOption.AUTO,
    ),
    "linked": Request("lenet5", Reading(bits=8), Target(accelerator=LINKED)),
    "linked, least energy": Request(
        "lenet5", Reading(bits=8), Target(accelerator=LINKED), objective=Objective.DMA_ENERGY
    ),
    "linked, least cycles": Request(
        "lenet5", Reading(bits=8), Target(accelerator=LINKED), objective=Objective.DMA_CYCLES
    ),
}


@cache
def outcome_of(name: str) -> Outcome:
    """Return the outcome of one of REQUESTS; each has a plan."""
    return plan_network(REQUESTS[name])


def real_plan(name: str) -> tuple[Problem, Plan]:
    """Return the problem and the plan of one of REQUESTS."""
    outcome = outcome_of(name)
    assert outcome.result.answer is not None
    return outcome.problem, outcome.result.answer
