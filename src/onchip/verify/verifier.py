"""Is the plan legal? Checked by code that shares data types, and nothing else, with whoever made it."""

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
    """The plan is legal, and the claim true, exactly when there are no violations."""

    violations: tuple[Violation, ...]
    figures: Figures

    @property
    def is_legal(self) -> bool:
        """Whether nothing is wrong with the plan, or with its claim."""
        return not self.violations


def verify(problem: Problem, plan: Plan, claim: Claim | None = None) -> Verdict:
    """Replay `plan` in the scratchpads of `problem` (the plan's own do not count) and recompute `claim`.

    Raises nothing for whatever a Plan can say. That a claimed bound is proven, or that the order
    is one of least peak, is not checked.
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
    """Yield what is wrong with what the maker of a plan says of it."""
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
