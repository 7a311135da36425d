"""Plans in which operators may run again: what nobody need run again for, an exact search, then guided replays.

1. The plan in which nothing runs again, by the exact method: its cost is the first to beat, its bound is none.
2. Of small graphs the search over everything proves the least cost in bytes.
3. Moments of the order bound the cost and say what should stay; replays guided by them are the plans. Where a replay
   could not keep what it should, a moment is added.
4. Weights of single tensors are changed at random as long as that helps.

Addresses are packed for the best plan; where they are not found, the same is done in a little less room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Final

from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status, Stop
from onchip.memory.allocate.exact.pack import pack_schedule
from onchip.memory.decisions.compose import SearchMove, schedule_of_moves
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.effort import STEP
from onchip.memory.remat.needs import NEVER, FirstRuns
from onchip.memory.remat.replay import Guide, GuidedReplay, Replayed
from onchip.memory.remat.search import RecomputationSearch
from onchip.memory.retention.stages import Moment, StageModel, StagesAnswer, moment_of_any_order, moments_of_order
from onchip.memory.spill.best_first.exact import solve_exactly
from onchip.memory.spill.best_first.given import with_order_settled
from onchip.memory.spill.large.components import solve_in_components
from onchip.model.capacity.fitting import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.budget import Budget
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Portfolio, Stepped
from onchip.search.strategy.stage import without_bound

METHOD: Final = "exact"
OPERATORS_TO_SEARCH: Final = 60
SETS_TO_SEARCH: Final = 300_000
STATES_WITHOUT_RECOMPUTATION: Final = 20_000
FIRST_MOMENTS: Final = 5
MOST_MOMENTS: Final = 40
ROUNDS_OF_MOMENTS: Final = 6
MOMENTS_A_ROUND: Final = 3
DISTANCES: Final = (0.0, 0.5, 1.0, 2.0)
FIRMNESSES: Final = (float("inf"), 10.0, 2.0)
PATIENCES: Final = (1.0, 1.0005, 1.003, 1.01, 1.03, 1.1)
"""Little more, where exactly what fits is asked for: of 645 MB a plan in all of it waits in 0.1 MB more."""
ROUNDS_WITHOUT_LIMIT: Final = 300
TENSORS_CHANGED: Final = 3
FACTORS: Final = (0.1, 0.5, 2.0, 10.0)
SHRINKING: Final = (1.0, 0.995, 0.98, 0.95, 0.9, 0.8)
"""Shares of the room that plans are made for until one packs."""


def solve_with_recomputation(problem: Problem, run: Run) -> Result[Plan]:
    """Find a plan of least cost, runs again included, and bound what every such plan costs, as far as limits allow.

    INFEASIBLE if a single operator does not fit, or if nothing may be spilled and no plan is proven to be there.
    """
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    apart = solve_in_components(problem, run, solve_with_recomputation, METHOD)
    if apart is not None:
        return apart
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
            nodes_without_limit=ROUNDS_WITHOUT_LIMIT * self.indexed.operator_count,
        )
        stop = Portfolio(self.incumbent, [*strategies, weights], Budget(self.run)).solve()
        if not self.incumbent.is_infeasible:
            self.incumbent.stopped_by = Stop.NODE_LIMIT if stop is Stop.COMPLETED else stop

    def _once(self, turn: Stepped) -> Iterator[None]:
        """Plan without recomputation by the exact method, whose bound is none of this problem."""
        problem = self.indexed.problem
        is_spilling = self.first_runs.may_spill
        if not is_spilling and problem.order is Order.GIVEN and self._units < max(self.first_runs.live_units()):
            return
        asked = replace(problem, recomputation=None, objective=problem.objective if is_spilling else Objective.PEAK)
        limits = replace(self.run.limits, node_limit=self.run.limits.node_limit or STATES_WITHOUT_RECOMPUTATION)
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
        if self.indexed.operator_count > OPERATORS_TO_SEARCH:
            return
        for share in SHRINKING:
            units = None if share == 1.0 else int(self.indexed.room.capacity_units * share)
            search = RecomputationSearch(self.indexed, turn.run, SETS_TO_SEARCH, units)
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
        for number in range(ROUNDS_OF_MOMENTS):
            if not steps:
                return
            more = self._round(steps, turn) if number else [*first, *self._round(steps, turn)]
            yield
            if not more or len(steps) >= MOST_MOMENTS:
                return
            steps = sorted({*steps, *more})

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
        """Some of the steps in which not all fits, the fullest among them."""
        full = [step for step, units in enumerate(self.first_runs.live_units()) if units > self._units]
        if not full:
            return []
        spread = {full[at * (len(full) - 1) // (FIRST_MOMENTS - 1)] for at in range(FIRST_MOMENTS)}
        return sorted(spread | {self._peak_step})

    def _round(self, steps: list[int], turn: Stepped) -> list[int]:
        """Bound and guide by moments at these steps; return steps at which a replay could not keep what it should."""
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
        return new[:MOMENTS_A_ROUND]

    def _replay_each(self, guide: Guide, phase: str, turn: Stepped) -> None:
        """Offer the best of the replays of a guide at each distance, and as firmly as there is something to keep."""
        best: tuple[Replayed, Guide] | None = None
        firmnesses = FIRMNESSES if guide.kept else FIRMNESSES[:1]
        for patience, distance, firmness in product(PATIENCES, DISTANCES, firmnesses):
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
        """Keep it, or the same in less room where it does not pack."""
        for share in SHRINKING:
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
            for tensor in random.sample(tensors, min(TENSORS_CHANGED, len(tensors))):
                weights[tensor] = weights.get(tensor, 1.0) * random.choice(FACTORS)
            guide = replace(self.guide, patience=random.choice(PATIENCES), weights=tuple(sorted(weights.items())))
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
