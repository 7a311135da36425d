"""Checks that a plan is legal; the code shares data types, and nothing else, with the solvers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from onchip.answer.document import Claim
from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Plan
from onchip.answer.result import Status
from onchip.verify.figures import Figures
from onchip.verify.latency import latency_cycles
from onchip.verify.replay import Replay
from onchip.verify.rules import Rule, Violation


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification: the plan is legal and its claim true exactly when there are no violations."""

    violations: tuple[Violation, ...]
    figures: Figures

    @property
    def is_legal(self) -> bool:
        """Return True if neither the plan nor its claim has a violation."""
        return not self.violations


def verify(problem: Problem, plan: Plan, claim: Claim | None = None) -> Verdict:
    """Replay `plan` in the scratchpads of `problem`, ignoring the plan's own list, and recompute `claim`.

    Never raises, whatever the Plan contains. Not checked: that a claimed bound is valid, and that the order has the
    least peak.
    """
    claimed = Objective(claim.objective) if claim else problem.objective
    replay = Replay(problem, forbids_spills=problem.objective.forbids_spills or claimed.forbids_spills)
    for index, instruction in enumerate(plan.instructions):
        replay.execute(index, instruction)
    replay.finish()
    figures = replay.meter.figures(replay.states.stays)
    durations = problem.durations if problem.objective is Objective.LATENCY else None
    if durations is not None and not replay.report.violations:
        figures = replace(figures, latency_cycles=latency_cycles(problem, durations, plan))
    about_claim = tuple(claim_violations(claim, figures)) if claim else ()
    return Verdict((*replay.report.violations, *about_claim), figures)


def claim_violations(claim: Claim, figures: Figures) -> Iterator[Violation]:
    """Yield the differences between a plan's claim and its recomputed figures."""
    recomputed = figures.objective_value(Objective(claim.objective))
    value, bound = claim.objective_value, claim.lower_bound
    if value != recomputed:
        detail = f"{value} is claimed for {claim.objective}, the plan has {recomputed}"
        yield Violation(Rule.OBJECTIVE_DIFFERS, "objective_value", detail)
    if bound > value:
        detail = f"{bound} is claimed, above the claimed objective value {value}"
        yield Violation(Rule.BOUND_ABOVE_OBJECTIVE, "lower_bound", detail)
    if claim.status is Status.OPTIMAL and bound < value:
        detail = f"OPTIMAL is claimed, but the lower bound {bound} is below the objective value {value}"
        yield Violation(Rule.OPTIMAL_UNPROVEN, "status", detail)
    if claim.status in (Status.INFEASIBLE, Status.UNKNOWN):
        yield Violation(Rule.ANSWER_DENIED, "status", f"{claim.status} is claimed, but there is a plan")
