"""Plans with recomputation: the plan without reruns, an exact search, then guided replays.

1. The exact method finds the plan without reruns: its cost is the first incumbent, but its bound does not hold here.
2. On small graphs, the full search proves the minimum cost in bytes.
3. Moments of the order bound the cost and name the tensors to keep; replays guided by them are the plans. If a replay
   cannot keep one of these tensors, a moment is added.
4. Weights of single tensors are changed at random as long as that helps.

Addresses are packed for the best plan; if none are found, the steps are repeated with a little less capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from random import Random
from typing import Final

from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.pack import pack_schedule
from onchip.memory.decisions import PlanIncumbent, SearchMove, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.remat.replay import NEVER, FirstRuns, Guide, GuidedReplay, Replayed
from onchip.memory.remat.search import (
    Moment,
    RecomputationSearch,
    StageModel,
    StagesAnswer,
    moment_of_any_order,
    moments_of_order,
)
from onchip.memory.spill.exact import solve_exactly
from onchip.memory.spill.min_peak import with_order_settled
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Portfolio, Stepped
from onchip.search.strategy.start import without_bound

METHOD: Final = "exact"


@dataclass(frozen=True, slots=True)
class RecomputationParams:
    """Constants of plans in which operators may run again."""

    searched_operators: int = 60
    """Operators up to which a search of everything is tried."""
    sets: int = 300_000
    """Sets of tensors of that search: seconds."""
    first_moments: int = 5
    """Moments of the first model, spread over the steps in which not all fits."""
    moments: int = 24
    """Moments of the last model."""
    moments_a_round: int = 3
    """Moments added where a guided replay missed a tensor."""
    distances: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)
    """Powers of the distance to the next use in the price of a tensor."""
    firmnesses: tuple[float, ...] = (inf, 10.0, 2.0)
    """Factors of the price of a tensor that a guide keeps."""
    patiences: tuple[float, ...] = (1.0, 1.0005, 1.003, 1.01, 1.03, 1.1)
    """Ratios of the room that may be taken before a tensor leaves; it fits if others leave with their last use."""
    rounds_without_limit: int = 300
    """Replays with changed weights, without a limit."""
    tensors_changed: int = 3
    """Weights changed for one replay."""
    factors: tuple[float, ...] = (0.1, 0.5, 2.0, 10.0)
    """Factors of a changed weight."""
    shrinking: tuple[float, ...] = (1.0, 0.995, 0.98, 0.95, 0.9, 0.8)
    """Parts of the room that plans are made for until one packs."""


PARAMS: Final = RecomputationParams()


def solve_with_recomputation(problem: Problem, run: Run) -> SearchResult[Plan]:
    """Find a plan of minimum cost, runs again included, and a lower bound on every such plan, within the limits.

    INFEASIBLE if a single operator does not fit, or if nothing may be spilled and no plan exists.
    """
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    indexed = IndexedProblem.of(with_order_settled(problem, run))
    planner = _Planner(indexed, run)
    planner.plan()
    return planner.incumbent.result(METHOD)


@dataclass
class _Planner:
    indexed: IndexedProblem
    run: Run
    incumbent: PlanIncumbent = field(init=False)
    first_runs: FirstRuns = field(init=False)

    def __post_init__(self) -> None:
        self.incumbent = PlanIncumbent(self.indexed, self.run)
        self.first_runs = FirstRuns(self.indexed, tuple(range(self.indexed.operator_count)))

    def plan(self) -> None:
        """Leave the best plan and the best bound with the incumbent."""
        strategies = [
            Stepped(name, self.incumbent, self.run, steps)
            for name, steps in (("once", self._once), ("search", self._search), ("moments", self._by_moments))
        ]
        weights = Stepped(
            "weights",
            self.incumbent,
            self.run,
            self._change_weights,
            end_turn=self._offer_better,
            nodes_without_limit=PARAMS.rounds_without_limit * self.indexed.operator_count,
        )
        stop = Portfolio(self.incumbent, [*strategies, weights], Budget(self.run)).solve()
        if not self.incumbent.is_infeasible:
            self.incumbent.stopped_by = Stop.NODE_LIMIT if stop is Stop.COMPLETED else stop

    def _once(self, turn: Stepped) -> Iterator[None]:
        """Plan without recomputation by the exact method, whose bound does not hold for this problem."""
        problem = self.indexed.problem
        is_spilling = self.first_runs.may_spill
        if not is_spilling and problem.order is Order.GIVEN and self._units < max(self.first_runs.live_units()):
            return
        asked = replace(problem, recomputation=None, objective=problem.objective if is_spilling else Objective.PEAK)
        limits = replace(self.run.limits, node_limit=self.run.limits.node_limit or STEP.part_states)
        result = solve_exactly(asked, without_bound(replace(turn.run, limits=limits)))
        if result.answer is not None and result.objective_value is not None:
            value = result.objective_value if is_spilling else 0
            self.incumbent.keep(result.answer, value, "nothing runs again")
        yield

    @property
    def _units(self) -> int:
        room = self.indexed.room
        return room.capacity_units + bool(room.may_end_short)

    # The search over everything

    def _search(self, turn: Stepped) -> Iterator[None]:
        if self.indexed.operator_count > PARAMS.searched_operators:
            return
        for share in PARAMS.shrinking:
            units = None if share == 1.0 else int(self.indexed.room.capacity_units * share)
            search = RecomputationSearch(self.indexed, turn.run, PARAMS.sets, units)
            answer = search.search()
            if units is None:
                self.incumbent.is_infeasible = answer.lower_bound is None
                self.incumbent.raise_bound(answer.lower_bound or 0)
            if answer.lower_bound is None or not self._is_better(answer.lower_bound):
                return
            if answer.moves is None or self._offer(answer.moves, answer.lower_bound, "search"):
                return
            yield

    def _is_better(self, cost: int) -> bool:
        return self.incumbent.value is None or cost < self.incumbent.value

    def _offer(self, moves: tuple[SearchMove, ...], cost: int, phase: str) -> bool:
        """Keep the plan if its residencies are given addresses."""
        schedule = schedule_of_moves(self.indexed, moves)
        run = self.run.within(self.run.seconds_left / 2) if self.run.deadline.is_set else self.run
        packed = pack_schedule(self.indexed, schedule, run)
        if packed is not None:
            self.incumbent.offer(*packed, cost, phase)
        return packed is not None

    # Moments

    def _by_moments(self, turn: Stepped) -> Iterator[None]:
        self._replay_each(Guide(), "plain replay", turn)
        yield
        if not cp_sat_is_within_reach(turn.run):
            return
        if self.indexed.problem.order is not Order.GIVEN:
            self._solve_moments((moment_of_any_order(self.first_runs, self._peak_step),), turn.run, is_bound=True)
            yield
        first = self._first_steps()
        steps = [self._peak_step] if first else []
        more = first
        while more and len(steps) < PARAMS.moments:
            more = [step for step in {*first, *self._round(steps, turn)} if step not in steps]
            steps = sorted({*steps, *more})
            yield

    def _solve_moments(self, moments: tuple[Moment, ...], run: Run, *, is_bound: bool) -> StagesAnswer:
        answer = StageModel(self.first_runs, moments).solve(run, STEP.long_work)
        if is_bound:
            self.incumbent.is_infeasible = answer.is_infeasible
            self.incumbent.raise_bound(answer.lower_bound)
        return answer

    @property
    def _peak_step(self) -> int:
        units = self.first_runs.live_units()
        return units.index(max(units))

    def _first_steps(self) -> list[int]:
        """Return some of the steps whose live tensors exceed the capacity, among them the step of the peak."""
        full = [step for step, units in enumerate(self.first_runs.live_units()) if units > self._units]
        if not full:
            return []
        spread = {full[at * (len(full) - 1) // (PARAMS.first_moments - 1)] for at in range(PARAMS.first_moments)}
        return sorted(spread | {self._peak_step})

    def _round(self, steps: list[int], turn: Stepped) -> list[int]:
        """Bound and guide by moments at these steps; return steps at which a replay failed to keep a tensor."""
        moments, is_given = moments_of_order(self.first_runs, steps), self.indexed.problem.order is Order.GIVEN
        answer = self._solve_moments(moments, turn.run, is_bound=is_given)
        if not answer.kept:
            return []
        last = len(self.first_runs.order)
        kept = (*zip(steps, answer.kept, strict=True), (last, answer.kept[-1]))
        guide = Guide(kept)
        self._replay_each(guide, "guided replay", turn)
        return self._missed(guide, steps)

    def _missed(self, guide: Guide, steps: list[int]) -> list[int]:
        replay = GuidedReplay(self.first_runs, self._units, guide)
        replay.replay()
        new = [step for step in replay.missed_at if step not in steps]
        return new[: PARAMS.moments_a_round]

    def _replay_each(self, guide: Guide, phase: str, turn: Stepped) -> None:
        """Offer the best of the replays of a guide at each distance, and as firmly as there is something to keep."""
        best: tuple[Replayed, Guide] | None = None
        firmnesses = PARAMS.firmnesses if guide.kept else PARAMS.firmnesses[:1]
        for patience, distance, firmness in product(PARAMS.patiences, PARAMS.distances, firmnesses):
            if turn.run.stop is not None:
                break
            asked = replace(guide, distance=distance, firmness=firmness, patience=patience)
            found = GuidedReplay(self.first_runs, self._units, asked, self._most(best)).replay()
            if found is not None:
                best = found, asked
        if best is not None:
            self._offer_replayed(*best, phase)

    def _most(self, best: tuple[Replayed, Guide] | None) -> int:
        known = NEVER if self.incumbent.value is None else self.incumbent.value
        return known if best is None else min(known, best[0].cost)

    def _offer_replayed(self, found: Replayed, guide: Guide, phase: str) -> bool:
        """Offer the replayed plan, or replay it with less capacity if it does not pack."""
        for share in PARAMS.shrinking:
            if share < 1.0:
                again = GuidedReplay(self.first_runs, int(self._units * share), guide, self._most(None)).replay()
                if again is None:
                    return False
                found = again
            if self._offer(found.moves, found.cost, phase):
                self.guide = guide
                return True
            if self.run.stop is not None:
                return False
        return False

    # Weights

    guide: Guide = field(default_factory=Guide)
    better: list[tuple[Replayed, Guide]] = field(default_factory=list)

    def _change_weights(self, turn: Stepped) -> Iterator[float]:
        """Change the weights of a few tensors at a time, from the best guide on; an operator of a replay is a node."""
        random = Random(turn.run.limits.seed)
        tensors = sorted({tensor for step in self._first_steps() for tensor in self.first_runs.live(step)})
        while tensors:
            weights = dict(self.guide.weights)
            for tensor in random.sample(tensors, min(PARAMS.tensors_changed, len(tensors))):
                weights[tensor] = weights.get(tensor, 1.0) * random.choice(PARAMS.factors)
            guide = replace(
                self.guide, patience=random.choice(PARAMS.patiences), weights=tuple(sorted(weights.items()))
            )
            most = self._most(self.better[-1] if self.better else None)
            found = GuidedReplay(self.first_runs, self._units, guide, most).replay()
            if found is not None:
                self.better.append((found, guide))
                self.guide = guide
            yield float(self.indexed.operator_count)

    def _offer_better(self) -> None:
        """Offer the best that packs of what a turn has found."""
        for found, guide in reversed(self.better):
            if self._offer_replayed(found, guide, "changed weights") or self.run.stop is not None:
                break
        self.better.clear()
