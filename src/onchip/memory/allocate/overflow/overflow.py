"""The least bytes outside when all buffers do not fit: choose what is kept, pack it, learn from what does not pack.

Benders' decomposition, as for the residencies of one order (`memory/retention/learning.py`): the model of
what is kept is the master, and what it leaves outside is never more than any answer with addresses does.
"""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.packing import Buffer, Overflow, PackingProblem
from onchip.answer.result import Result, Stop
from onchip.memory.allocate.construct.best_fit import has_too_many_pairs
from onchip.memory.allocate.construct.filling import Filling
from onchip.memory.allocate.exact.attempt import Attempt
from onchip.memory.allocate.exact.branching import Knowledge
from onchip.memory.allocate.exact.conflicts import conflict_in, unpackable_stretches
from onchip.memory.allocate.exact.sections import lives_of
from onchip.memory.allocate.overflow.kept_buffers import Conflict, Kept, KeptBuffers
from onchip.memory.effort import STEP
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Run
from onchip.search.strategy.incumbent import Incumbent
from onchip.search.strategy.interruptible import cp_sat_is_within_reach

METHOD = "overflow"
NODES_GROWTH = 4
MOST_SET_ASIDE = 8
SLACK_PERCENTS = (1, 2, 4, 8, 16)


def least_overflow(problem: PackingProblem, run: Run) -> Result[Overflow]:
    """Keep whole buffers for their whole lives, so that the fewest bytes are outside.

    The objective value is the sum of the sizes outside, whatever their lives. There is always an
    answer: at worst all is outside.
    """
    search = OverflowSearch(in_sections(problem), run)
    search.solve()
    return search.result()


class OverflowSearch:
    """Chooses what is kept by a model, packs it, and teaches the model what does not pack."""

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self._problem = problem
        self._run = run
        self._filling = Filling(problem)
        self._incumbent = Incumbent[Overflow](run, bytes_surely_outside(problem))
        self._incumbent.stopped_by = Stop.TIME_LIMIT if run.deadline.is_set else Stop.COMPLETED
        self._offer(Overflow((None,) * len(problem.buffers)), "nothing kept")
        self._open: list[tuple[Kept, Attempt]] = []

    @property
    def _value(self) -> int:
        assert self._incumbent.value is not None
        return self._incumbent.value

    def solve(self) -> None:
        """Raise the bound and offer answers until they meet."""
        self._offer(self._filling.sweep(), "filling")
        self._fill()
        if self._incumbent.is_proven or not cp_sat_is_within_reach(self._run):
            return
        if has_too_many_pairs(self._problem.buffers):
            self._incumbent.stopped_by = Stop.MEMORY_LIMIT
            return
        watch = Stopwatch()
        master = KeptBuffers(self._problem, self._run)
        # Loading the model, and listing the pairs of an attempt, take about as long as building it and do not stop.
        self._run = self._run.within(self._run.seconds_left - watch.seconds)
        while not self._incumbent.is_proven and self._run.stop is None:
            chosen = master.solve(self._run)
            if chosen.answer is None or chosen.objective_value is None:
                return
            is_time_to_settle = chosen.lower_bound > self._incumbent.lower_bound or len(self._open) == MOST_SET_ASIDE
            if self._open and is_time_to_settle and not self._all_open_are_settled():
                return
            self._incumbent.raise_bound(min(chosen.lower_bound, self._value))
            if chosen.objective_value < self._value:
                self._offer_or_learn(master, chosen.answer)

    def _all_open_are_settled(self) -> bool:
        """What was set aside leaves as little outside as the bound: pack it or prove that it does not pack.

        False if there is nothing left to choose: one of them packed, or has to be left open.
        """
        nodes = STEP.round_nodes
        while self._open and not self._incumbent.is_proven:
            nodes *= NODES_GROWTH
            findings = [attempt.go_on(nodes) for _, attempt in self._open]
            for (kept, attempt), finding in zip(self._open, findings, strict=True):
                if finding is Knowledge.PACKED:
                    self._offer_packed(kept, attempt)
            still_open = [pair for pair, finding in zip(self._open, findings, strict=True) if finding is Knowledge.OPEN]
            if still_open and self._has_to_stop(nodes):
                return False
            self._open = still_open
        return not self._incumbent.is_proven

    def _has_to_stop(self, nodes: float) -> bool:
        limit = self._run.limits.node_limit
        if limit is not None and nodes >= limit:
            self._incumbent.stopped_by = Stop.NODE_LIMIT
            return True
        return self._run.stop is not None

    def _offer_or_learn(self, master: KeptBuffers, kept: Kept) -> None:
        """Offer the choice if it packs; else the master is told why it does not, or not to choose it again."""
        problem = self._problem_of(kept)
        attempt = Attempt(problem, self._run)
        finding = attempt.go_on(STEP.round_nodes)
        if finding is Knowledge.PACKED:
            self._offer_packed(kept, attempt)
            return
        self._fill(kept)
        conflicts = self._conflicts(problem, attempt, finding)
        for conflict in conflicts:
            if self._run.stop is not None:
                return
            master.forbid(conflict)
        if not conflicts:
            if not self._open:
                self._offer_with_slack()
            self._open.append((kept, attempt))
            master.set_aside(kept)

    def _offer_with_slack(self) -> None:
        """Choose for a smaller capacity and pack into the whole: that leaves more outside and is only an answer."""
        capacity_bytes = self._problem.capacity_bytes
        for percent in SLACK_PERCENTS:
            smaller = replace(self._problem, capacity_bytes=capacity_bytes - capacity_bytes * percent // 100)
            kept = KeptBuffers(smaller, self._run).solve(self._run).answer
            if kept is None or self._run.stop is not None:
                return
            attempt = Attempt(self._problem_of(kept), self._run)
            if attempt.go_on(STEP.round_nodes) is Knowledge.PACKED:
                self._offer_packed(kept, attempt)
                return

    def _conflicts(self, problem: PackingProblem, attempt: Attempt, finding: Knowledge) -> list[Conflict]:
        if finding is Knowledge.UNPACKABLE:
            stretches = [attempt.stretch or problem.steps]
        else:
            stretches = unpackable_stretches(problem, self._run)
        return [conflict_in(problem, stretch, self._run) for stretch in stretches]

    def _problem_of(self, kept: Kept) -> PackingProblem:
        problem = self._problem
        return PackingProblem(
            tuple(problem.buffers[index] for index in kept), problem.capacity_bytes, problem.alignment_bytes
        )

    def _fill(self, first: Kept = (), given: Overflow | None = None, phase: str = "filling") -> None:
        """Offer the given answer, and what else finds a gap in it by each order, until the run has to stop."""
        offsets: tuple[int | None, ...] = (None,) * len(self._problem.buffers)
        if given is not None:
            offsets = given.offsets_bytes
            self._offer(given, phase)
        orders = self._filling.orders(first)
        while self._run.stop is None and (order := next(orders, None)) is not None:
            self._offer(self._filling.fill(order, offsets, self._run), phase)

    def _offer_packed(self, kept: Kept, attempt: Attempt) -> None:
        """Offer the packing of an attempt, with whatever else finds a gap in it."""
        offsets: list[int | None] = [None] * len(self._problem.buffers)
        for index, offset in zip(kept, attempt.offsets_bytes or (), strict=True):
            offsets[index] = offset
        self._fill(given=Overflow(tuple(offsets)), phase="packing")

    def _offer(self, overflow: Overflow, phase: str) -> None:
        self._incumbent.keep(overflow, outside_bytes(self._problem, overflow), phase)

    def result(self) -> Result[Overflow]:
        """Return the state of the search as a result."""
        self._incumbent.stopped_by = self._run.stop or self._incumbent.stopped_by
        return self._incumbent.result(METHOD)


def in_sections(problem: PackingProblem) -> PackingProblem:
    """Return the same problem with lives counted in sections: the same pairs of buffers are alive together."""
    lives = zip(lives_of(problem).blocks(), problem.buffers, strict=True)
    return replace(problem, buffers=tuple(Buffer(one.first, one.stop, b.size_bytes) for one, b in lives))


def outside_bytes(problem: PackingProblem, overflow: Overflow) -> int:
    """Return the sum of the sizes outside."""
    return sum(problem.buffers[index].size_bytes for index in overflow.outside)


def bytes_surely_outside(problem: PackingProblem) -> int:
    """Return a bound that needs no solver: what is larger than the capacity, and the greatest excess of the rest."""
    too_large = sum(b.size_bytes for b in problem.buffers if b.size_bytes > problem.capacity_bytes)
    changes: dict[int, int] = {}
    for buffer in problem.buffers:
        if buffer.size_bytes <= problem.capacity_bytes:
            changes[buffer.start] = changes.get(buffer.start, 0) + buffer.size_bytes
            changes[buffer.stop] = changes.get(buffer.stop, 0) - buffer.size_bytes
    live = most = 0
    for step in sorted(changes):
        live += changes[step]
        most = max(most, live)
    return too_large + max(0, most - problem.capacity_bytes)
