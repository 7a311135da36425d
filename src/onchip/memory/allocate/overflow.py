"""The fewest bytes outside when not all buffers fit.

Benders' decomposition, as for the residencies of one order (`memory/retention/kept_gaps.py`): a CP-SAT model selects
the buffers to keep, addresses aside, so its value is a lower bound. A selection that does not pack returns as a cut.
`pools.py` answers the same for several memories, and for buffers with gaps or demands of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from onchip.answer.packing import (
    Buffer,
    Overflow,
    PackingProblem,
)
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.construct import Filling
from onchip.memory.allocate.exact import Attempt, Knowledge, clipped, finding_of, unpackable_stretches
from onchip.memory.allocate.sections import core_of, greatest_sum, has_too_many_pairs, lives_of, sections_of
from onchip.memory.effort import STEP
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result
from onchip.search.strategy.portfolio import Incumbent, Portfolio, Stepped

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


MODEL = "kept buffers"

Kept: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Parts of buffers, cut to a stretch of steps, that have no addresses together."""

    stretch: range
    parts: tuple[Buffer, ...]

    def shapes(self) -> Iterable[tuple[range, int, int]]:
        """Yield life, bytes, and how many parts of this life have at least so many bytes."""
        for start, stop in sorted({(part.start, part.stop) for part in self.parts}):
            sizes = sorted((p.size_bytes for p in self.parts if (p.start, p.stop) == (start, stop)), reverse=True)
            for size_bytes, count in Counter(sizes).items():
                yield range(start, stop), size_bytes, sizes.index(size_bytes) + count


class KeptBuffers:
    """The least bytes outside under the conflicts learnt so far: never more than with addresses.

    Rows are missing, which leaves a weaker relaxation, if the run has to stop while the model is built.
    """

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        from ortools.sat.python import cp_model

        self._problem = problem
        self._model = cp_model.CpModel()
        self._is_kept = {
            index: self._model.new_bool_var(f"kept_{index}")
            for index, buffer in enumerate(problem.buffers)
            if buffer.size_bytes <= problem.capacity_bytes
        }
        self._each_section_holds_what_is_kept(run)
        self._minimise()

    # Constraints

    def _each_section_holds_what_is_kept(self, run: Run) -> None:
        fitting = list(self._is_kept)
        spans, steps = sections_of([self._problem.buffers[index] for index in fitting])
        begins: list[list[int]] = [[] for _ in steps]
        stops = dict(zip(fitting, (stop for _, stop in spans), strict=True))
        for index, (first, _) in zip(fitting, spans, strict=True):
            begins[first].append(index)
        living: list[int] = []
        for section, beginning in enumerate(begins):
            if run.stop is not None:
                return
            living = sorted([*(index for index in living if stops[index] > section), *beginning])
            self._a_section_holds(living)

    def _a_section_holds(self, indices: Sequence[int]) -> None:
        """Require at most the greatest sum of sizes within the capacity.

        A buffer that ends within the last, partial unit of alignment may lie there: one unit more if such a buffer is
        kept.
        """
        buffers, alignment = self._problem.buffers, self._problem.alignment_bytes
        whole, partial = divmod(self._problem.capacity_bytes, alignment)
        sizes = [-(-buffers[index].size_bytes // alignment) for index in indices]
        unit = gcd(*sizes)
        sizes = [size // unit for size in sizes]
        limit, higher_limit = (greatest_sum(sizes, units // unit) for units in (whole, whole + 1))
        short = [index for index in indices if 0 < buffers[index].size_bytes % alignment <= partial]
        if sum(sizes) <= limit:
            return
        used = sum(size * self._is_kept[index] for size, index in zip(sizes, indices, strict=True))
        if not short or limit == higher_limit:
            self._model.add(used <= limit)
            return
        ends_short = self._model.new_bool_var("")
        self._model.add(used <= limit + (higher_limit - limit) * ends_short)
        self._model.add_bool_or(*(self._is_kept[index] for index in short), ends_short.negated())

    def forbid(self, conflict: Conflict) -> None:
        """Require that some shape of the conflict is kept less often.

        Buffers of the same life within the stretch that are at least as large may replace a part, so one conflict
        forbids all that are alike.
        """
        self._model.add_bool_or(
            self._is_kept_less_than(count, self._with_shape(conflict.stretch, life, size_bytes))
            for life, size_bytes, count in conflict.shapes()
        )

    def set_aside(self, kept: Kept) -> None:
        """Do not choose these together again, though it is not known whether they have addresses."""
        self._model.add_bool_or(self._is_kept[index].negated() for index in kept)

    def _with_shape(self, stretch: range, life: range, size_bytes: int) -> list[int]:
        buffers = self._problem.buffers
        return [
            index
            for index in self._is_kept
            if buffers[index].size_bytes >= size_bytes
            and max(buffers[index].start, stretch.start) == life.start
            and min(buffers[index].stop, stretch.stop) == life.stop
        ]

    def _is_kept_less_than(self, count: int, indices: Sequence[int]) -> cp_model.LiteralT:
        if len(indices) == 1:
            return self._is_kept[indices[0]].negated()
        is_less = self._model.new_bool_var("")
        self._model.add(sum(self._is_kept[index] for index in indices) < count).only_enforce_if(is_less)
        return is_less

    # Objective

    def _minimise(self) -> None:
        """Minimise the bytes outside, those above the capacity included."""
        buffers = self._problem.buffers
        kept_bytes = sum(buffers[index].size_bytes * is_kept for index, is_kept in self._is_kept.items())
        self._model.minimize(sum(buffer.size_bytes for buffer in buffers) - kept_bytes)

    # Extract

    def solve(self, run: Run) -> SearchResult[Kept]:
        """Return what is kept where the fewest bytes are outside."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2

        def kept() -> Kept:
            return tuple(index for index, is_kept in self._is_kept.items() if solver.boolean_value(is_kept))

        return solve_for_result(solver, self._model, run, MODEL, kept)


METHOD = "overflow"


def conflict_in(problem: PackingProblem, stretch: range, run: Run) -> Conflict:
    """Return the parts in a stretch without a packing that the proof needs."""
    cut = clipped(problem, stretch)
    parts = [cut.buffers[index] for index in core_of(cut).kept] or list(cut.buffers)
    for part in sorted(parts, key=lambda part: part.size_bytes * (part.stop - part.start)):
        rest = list(parts)
        rest.remove(part)
        if (
            run.stop is None
            and finding_of(replace(cut, buffers=tuple(rest)), run, STEP.stretch_nodes) is Knowledge.UNPACKABLE
        ):
            parts = rest
    return Conflict(stretch, tuple(parts))


def least_overflow(problem: PackingProblem, run: Run) -> SearchResult[Overflow]:
    """Keep whole buffers for their whole lives, so that the fewest bytes are outside.

    The objective value is the sum of the sizes outside. There is always an answer, at worst with all buffers outside.
    """
    search = OverflowSearch(in_sections(problem), run)
    search.solve()
    return search.result()


@dataclass(eq=False)
class _OpenChoice:
    """Buffers whose packing stays open; keeping them, or them and more, leaves at least `lower_bound` bytes outside."""

    kept: Kept
    attempt: Attempt
    lower_bound: int


class OverflowSearch:
    """Selects buffers by a model, packs them, and teaches the model which selections do not pack.

    A selection that stays open is set aside, and packed for longer by a strategy of its own. The bound is the least of
    the model's and of those set aside.
    """

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self._problem = problem
        self._run = run
        self._filling = Filling(problem)
        self._incumbent = Incumbent[Overflow](run, bytes_surely_outside(problem))
        self._incumbent.stopped_by = Stop.TIME_LIMIT if run.deadline.is_set else Stop.COMPLETED
        self._offer(Overflow((None,) * len(problem.buffers)), "nothing kept")
        self._open: list[_OpenChoice] = []
        self._least_of_model = 0

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
        self._master = KeptBuffers(self._problem, self._run)
        # Loading the model, and listing the pairs of an attempt, take about as long as building it and do not stop.
        self._run = self._run.within(self._run.seconds_left - watch.seconds)
        strategies = [
            Stepped("model", self._incumbent, self._run, self._select),
            Stepped("packing", self._incumbent, self._run, self._pack_open, is_ready=lambda: bool(self._open)),
            Stepped("slack", self._incumbent, self._run, self._leave_slack, is_ready=lambda: bool(self._open)),
        ]
        self._incumbent.stopped_by = Portfolio(self._incumbent, strategies, Budget(self._run)).solve()

    def _raise_bound(self) -> None:
        bounds = (one.lower_bound for one in self._open)
        self._incumbent.raise_bound(min(self._least_of_model, self._value, *bounds))

    def _select(self, turn: Stepped) -> Iterator[float]:
        """Select by the model until it has nothing better but what was set aside; yield the nodes of packing."""
        while True:
            chosen = self._master.solve(turn.run)
            least = self._value if chosen.status is Status.INFEASIBLE else chosen.lower_bound
            self._least_of_model = max(self._least_of_model, least)
            self._raise_bound()
            nodes = 0
            if chosen.answer is not None and (chosen.objective_value or 0) < self._value:
                nodes = self._offer_or_learn(chosen.answer)
            elif chosen.status in (Status.OPTIMAL, Status.INFEASIBLE):
                return
            yield float(max(1, nodes))

    def _pack_open(self, _turn: Stepped) -> Iterator[float]:
        """Pack what was set aside, or prove that it does not pack, with more nodes in each round."""
        nodes = STEP.plan_nodes
        while True:
            nodes *= STEP.node_growth
            for one in [*self._open]:
                before = one.attempt.nodes
                finding = one.attempt.go_on(nodes)
                if finding is Knowledge.PACKED:
                    self._offer_packed(one.kept, one.attempt)
                if finding is not Knowledge.OPEN:
                    self._open.remove(one)
                    self._raise_bound()
                yield float(max(1, one.attempt.nodes - before))

    def _offer_or_learn(self, kept: Kept) -> int:
        """Offer the selection if it packs; otherwise teach the model why it does not, or set it aside. Return nodes."""
        problem = self._problem_of(kept)
        attempt = Attempt(problem, self._run)
        finding = attempt.go_on(STEP.plan_nodes)
        if finding is Knowledge.PACKED:
            self._offer_packed(kept, attempt)
            return attempt.nodes
        self._fill(kept)
        conflicts = self._conflicts(problem, attempt, finding)
        for conflict in conflicts:
            self._master.forbid(conflict)
        if not conflicts:
            self._open.append(_OpenChoice(kept, attempt, self._least_of_model))
            self._master.set_aside(kept)
        return attempt.nodes

    def _leave_slack(self, turn: Stepped) -> Iterator[None]:
        """Select for a smaller capacity and pack into the whole: that leaves more outside and is only an answer."""
        capacity_bytes = self._problem.capacity_bytes
        for part in (64, 32, 16, 8, 4):
            smaller = replace(self._problem, capacity_bytes=capacity_bytes - capacity_bytes // part)
            kept = KeptBuffers(smaller, turn.run).solve(turn.run).answer
            if kept is not None:
                attempt = Attempt(self._problem_of(kept), self._run)
                if attempt.go_on(STEP.plan_nodes) is Knowledge.PACKED:
                    self._offer_packed(kept, attempt)
                    return
            yield

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

    def result(self) -> SearchResult[Overflow]:
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
    """Return a lower bound without a solver: buffers above the capacity, and the greatest excess of the others."""
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
