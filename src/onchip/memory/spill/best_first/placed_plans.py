"""The least cost with addresses, of the plans of a graph: the cheapest plan in bytes first, as far as it packs.

A beginning of a plan that has no addresses is left out with all that follows; one that leaves the same residents,
which have met the same others, as another one is left out beside it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count, pairwise

from onchip.memory.allocate.construct.chains import packing_problem
from onchip.memory.allocate.exact.attempt import Attempt
from onchip.memory.allocate.exact.branching import Knowledge
from onchip.memory.allocate.exact.windows import finding_of
from onchip.memory.decisions.compose import OperatorSchedule, SearchMove, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.spill.best_first.histories import START as NOTHING
from onchip.memory.spill.best_first.histories import Histories, ResidencyHistory
from onchip.memory.spill.best_first.plan_graph import START, PlanGraph, PlanState
from onchip.model.lifetimes.bit_masks import bits
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run


@dataclass(frozen=True, slots=True)
class PlacedPlan:
    """A schedule with the offset in bytes of each of its residencies."""

    schedule: OperatorSchedule
    offsets_bytes: tuple[int, ...]
    cost: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first steps of a plan: they pack, and cost so much."""

    cost: int
    step: int
    state: PlanState
    history: ResidencyHistory
    before: Beginning | None
    operator: int


class PlacedPlans:
    """Goes through the plans of a graph. `lower_bound` holds for all plans with addresses; `plan` attains it."""

    def __init__(self, indexed: IndexedProblem, graph: PlanGraph, run: Run) -> None:
        self._indexed = indexed
        self._graph = graph
        self._run = run
        self._histories = Histories(indexed)
        self._waiting: list[tuple[int, int, int, Beginning]] = []
        self._number = count()
        self._seen: set[object] = set()
        self.lower_bound = 0
        self.plan: PlacedPlan | None = None

    def solve(self, most_beginnings: int) -> None:
        """Search until a plan is found, or none is left, or so many beginnings did not do, or the run has to stop."""
        self._wait(Beginning(0, 0, START, NOTHING, None, -1))
        for _ in range(most_beginnings):
            if not self._waiting:
                self.lower_bound = max(0, self._graph.most_cost + 1)
                return
            self.lower_bound, _, _, beginning = heapq.heappop(self._waiting)
            if self._run.stop is not None:
                return
            if beginning.state.executed == self._indexed.all_operators:
                self.plan = self._placed(beginning)
                return
            if not self._is_new(beginning) or self._go_on(beginning):
                continue
            return

    def _wait(self, beginning: Beginning) -> None:
        """Let a beginning wait for its turn, if some plan goes on from it; of equals the longest is first."""
        rest = self._graph.least_rest.get(beginning.state)
        if rest is not None and beginning.cost + rest <= self._graph.most_cost:
            least_cost = beginning.cost + rest
            heapq.heappush(self._waiting, (least_cost, -beginning.step, next(self._number), beginning))

    def _is_new(self, beginning: Beginning) -> bool:
        """Whether none as cheap has left the same: it would have come before."""
        key = beginning.state, beginning.history.pairs(beginning.step)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _go_on(self, beginning: Beginning) -> bool:
        """Let each operator run that can, beside what is there; False if it stays open whether that packs."""
        step = beginning.step
        for operator, passages in self._graph.passages[beginning.state].items():
            history = self._histories.with_operands(beginning.history, operator, step)
            finding = finding_of(self._histories.packing_problem(history, step + 1), self._run, STEP.check_nodes)
            if finding is Knowledge.OPEN:
                return False
            if finding is Knowledge.UNPACKABLE:
                continue
            for more, target in passages:
                after = self._histories.after(history, target.kept, step + 1)
                self._wait(Beginning(beginning.cost + more, step + 1, target, after, beginning, operator))
        return True

    def _placed(self, last: Beginning) -> PlacedPlan | None:
        """Give the whole of a plan its addresses."""
        schedule = schedule_of_moves(self._indexed, self._moves(last))
        attempt = Attempt(packing_problem(self._indexed, schedule), self._run)
        attempt.go_on(float("inf"))
        return None if attempt.offsets_bytes is None else PlacedPlan(schedule, attempt.offsets_bytes, last.cost)

    def _moves(self, last: Beginning) -> list[SearchMove]:
        """What does not stay is gone before the next operator runs."""
        path = [last]
        while path[-1].before is not None:
            path.append(path[-1].before)
        moves, evicted = [], 0
        for before, after in pairwise(reversed(path)):
            moves.append(SearchMove(after.operator, tuple(bits(evicted))))
            present = before.state.kept | self._indexed.operands[after.operator]
            live = sum(1 << t for t, readers in enumerate(self._indexed.readers) if readers & ~after.state.executed)
            evicted = present & live & ~after.state.kept
        return moves
