"""Audit of a plan's bound: relaxations first, which can only confirm, then the exact model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from onchip.answer.problem import Order, Problem
from onchip.answer.program import Plan
from onchip.audits.crossings import CrossingsModel, ProblemFacts
from onchip.audits.finding import Answered, Finding, OutOfTimeError, Ruling, searched
from onchip.audits.moments import MomentModel, MomentsModel, Solution
from onchip.search.budget.clock import Deadline
from onchip.verify.verifier import verify

GREATEST_PLACES = 60_000
"""Limit of (tensor, scratchpad, moment) triples; larger exact models would not be decided."""
GREATEST_TRANSITS = 2
SHARE_OF_A_STAGE = 0.5


def audit_plan(problem: Problem, bound: int, seconds: float, workers: int = 1) -> Finding:
    """Rule on whether any plan of the problem has an objective value below the bound.

    The order is free or given; for Order.MIN_PEAK pass the problem with the plan's order given. CONFIRMED comes from a
    proof of infeasibility, REFUTED with a verified plan; UNDECIDED is the ruling after `seconds`.
    """
    return PlanAudit(problem, bound, Deadline.after(seconds), workers).finding()


@dataclass
class PlanAudit:
    """An audit of one plan: each stage confirms, refutes, or defers to the next."""

    problem: Problem
    bound: int
    deadline: Deadline
    workers: int

    def finding(self) -> Finding:
        """Run the stages until one of them decides."""
        if self.bound <= 0:
            return self._ruled(Ruling.CONFIRMED, "nothing costs less than 0")
        if self.problem.graph.shares_bytes:
            return self._ruled(Ruling.UNDECIDED, "no model of outputs in bytes of inputs")
        if self.problem.graph.states:
            return self._ruled(Ruling.UNDECIDED, "no model of states that stay on the chip")
        try:
            return self._by_crossings() or self._by_moments() or self._undecided()
        except OutOfTimeError:
            return self._undecided()

    @cached_property
    def _facts(self) -> ProblemFacts:
        return ProblemFacts(self.problem)

    @property
    def _seconds_left(self) -> float:
        return self.deadline.seconds_left

    def _by_crossings(self) -> Finding | None:
        """Run the crossings relaxation, first over all orders, then with the order as a decision of the solver."""
        for orders in (False, True) if self.problem.order is Order.FREE else (False,):
            model = CrossingsModel(self._facts, self.bound, self.deadline, orders=orders).model
            seconds = self._seconds_left * (SHARE_OF_A_STAGE if self._may_go_on else 1)
            if searched(model, seconds, self.workers)[0] is Answered.NONE:
                named = "orders" if orders else "in every order"
                return self._ruled(Ruling.CONFIRMED, f"relaxation: what crosses each operator, {named}")
        return None

    def _by_moments(self) -> Finding | None:
        """Run the exact model, first with residencies in bytes, then with addresses."""
        if not self._may_go_on:
            return None
        links = bool(self.problem.transfers.links)
        chain = len(self.problem.memories) - 1 if links else 0
        relaxed = MomentModel(self.bound, with_addresses=False, transits=chain, room_between=not links)
        model = MomentsModel(self._facts, relaxed, self.deadline)
        answered, solver = searched(model.model, self._seconds_left * SHARE_OF_A_STAGE, self.workers)
        if answered is Answered.NONE:
            return self._ruled(Ruling.CONFIRMED, "relaxation: residencies at each step, without addresses")
        if answered is Answered.SOLUTION and self.problem.order is Order.FREE:
            order = Solution(model, solver).order
            operators = tuple(self._facts.operators[operator] for operator in order)
            graph = replace(self.problem.graph, operators=operators)
            settled = replace(self.problem, graph=graph, order=Order.GIVEN)
            found = self._with_addresses(ProblemFacts(settled), 0, self._seconds_left * SHARE_OF_A_STAGE)
            if found is not None and found.ruling is Ruling.REFUTED:
                return found
        for transits in range(GREATEST_TRANSITS + 1 if links else 1):
            found = self._with_addresses(self._facts, transits, self._seconds_left)
            if found is not None:
                return found
        return None

    @property
    def _may_go_on(self) -> bool:
        """Return True if the exact model may be built."""
        return self._seconds_left > 0 and self._places <= GREATEST_PLACES

    @cached_property
    def _places(self) -> int:
        """Return the approximate number of places in the model without addresses and transits."""
        lives = (
            max(self._facts.positions[use].stop for use in uses) - min(self._facts.positions[use].start for use in uses)
            for uses in self._facts.uses
            if uses
        )
        return sum(lives) * len(self.problem.memories)

    def _with_addresses(self, facts: ProblemFacts, transits: int, seconds: float) -> Finding | None:
        """Run the model with addresses: a solution is a plan, infeasibility is a proof if there are no links."""
        if seconds <= 0:
            return None
        model = MomentsModel(facts, MomentModel(self.bound, with_addresses=True, transits=transits), self.deadline)
        answered, solver = searched(model.model, seconds, self.workers)
        if answered is Answered.NONE and not self.problem.transfers.links:
            return self._ruled(Ruling.CONFIRMED, "exact model: order, residencies and addresses")
        if answered is Answered.SOLUTION:
            return self._refuted(Solution(model, solver).plan())
        return None

    def _refuted(self, plan: Plan) -> Finding | None:
        """Return the refutation by a verified plan below the bound; None for any other plan."""
        verdict = verify(self.problem, plan)
        value = verdict.figures.objective_value(self.problem.objective)
        if verdict.violations or value >= self.bound:
            return None
        detail = "exact model: a better plan, which passes the verifier"
        return replace(self._ruled(Ruling.REFUTED, detail), better_value=value, better=plan)

    def _undecided(self) -> Finding:
        if self._places > GREATEST_PLACES:
            return self._ruled(Ruling.UNDECIDED, "the relaxations allow less, and the exact model would be too large")
        return self._ruled(Ruling.UNDECIDED, "neither a proof nor a better plan in time")

    def _ruled(self, ruling: Ruling, detail: str) -> Finding:
        return Finding(ruling, self.bound, None, None, self.deadline.seconds, detail)
