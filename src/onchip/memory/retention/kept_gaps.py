"""Residencies of one order by CP-SAT, with addresses by Benders' decomposition.

The master has one boolean for each scratchpad and each use of a tensor or gap between two uses, and one row for each
scratchpad and step. It knows no links. Residencies that do not pack return as cuts.

Long orders are cut into windows: a lower bound on the cost in bytes, and a guide to a plan. Each gap between two uses
of a tensor belongs to the one window in which most of its idle steps lie, and takes capacity only there; the windows of
a tensor's gaps share its store cost. So a plan pays at least the minimum cost of each window, and in total at least the
sum. The minimum of a window is found by all choices, state by state, or by CP-SAT if the choices are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise, zip_longest
from math import inf
from typing import TYPE_CHECKING, Final

from onchip.answer.problem import Objective, Placement
from onchip.answer.result import SearchResult, Status
from onchip.ir.tensor import Role
from onchip.memory.allocate.exact import Attempt, Knowledge, pack_by_cp_sat
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.native import StayGap, StaySearch, StopToken
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, run_watched, solve_for_result
from onchip.search.strategy.portfolio import Portfolio, Stepped

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


METHOD: Final = "kept gaps"


@dataclass(frozen=True, slots=True)
class Gap:
    """Gap between two consecutive uses of a tensor, at the steps `last_use` < `next_use`."""

    tensor: int
    last_use: int
    next_use: int

    def splits(self, residency: PlannedResidency) -> bool:
        """True if leaving here would end the residency and begin another within it."""
        return (
            self.tensor == residency.tensor and self.last_use + 1 < residency.stop and self.next_use > residency.start
        )


class KeptGaps:
    """Least non-compulsory cost for one order, under the conflicts learnt so far."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int]) -> None:
        from ortools.sat.python import cp_model

        self._indexed = indexed
        self._order = tuple(order)
        self._uses = indexed.uses(order)
        self._gaps = [[Gap(t, *pair) for pair in pairwise(uses)] for t, uses in enumerate(self._uses)]
        self._model = cp_model.CpModel()
        self._at = {(t, step): self._places(t, step) for t, uses in enumerate(self._uses) for step in uses}
        self._kept = {gap: self._stays(gap) for gaps in self._gaps for gap in gaps}
        self._arenas = [self._model.new_int_var(0, view.room.capacity_units + 1, "") for view in indexed.views]
        self._each_step_holds_its_operands_and_what_stays()
        if indexed.problem.objective is Objective.PEAK:
            self._nothing_leaves()
        if indexed.problem.placement is Placement.STATIC:
            self._a_tensor_stays_for_its_whole_life_or_never()
        self._minimise()
        self.work_done = 0.0

    # Variables

    def _places(self, tensor: int, step: int) -> Mapping[int, cp_model.IntVar]:
        """Map each scratchpad that may take the tensor at a use to a boolean; exactly one is true."""
        indexed, model = self._indexed, self._model
        is_written = indexed.producer[tensor] == self._order[step]
        memories = tuple(bits((indexed.written_in if is_written else indexed.read_in)[tensor]))
        if len(memories) == 1:
            return {memories[0]: model.new_constant(1)}
        at = {memory: model.new_bool_var(f"at_{tensor}_{step}_{memory}") for memory in memories}
        model.add_exactly_one(at.values())
        return at

    def _stays(self, gap: Gap) -> Mapping[int, cp_model.IntVar]:
        """Map each scratchpad to a boolean that is true if the tensor stays in it from one use to the next."""
        before, after = self._at[gap.tensor, gap.last_use], self._at[gap.tensor, gap.next_use]
        kept = {}
        for memory in before.keys() & after.keys():
            kept[memory] = self._model.new_bool_var(f"kept_{gap.tensor}_{gap.last_use}_{memory}")
            self._model.add_implication(kept[memory], before[memory])
            self._model.add_implication(kept[memory], after[memory])
        return kept

    # Constraints

    def _each_step_holds_its_operands_and_what_stays(self) -> None:
        staying: list[list[Gap]] = [[] for _ in self._order]
        for gap in self._kept:
            for step in range(gap.last_use + 1, gap.next_use):
                staying[step].append(gap)
        for step, operator in enumerate(self._order):
            for memory, view in enumerate(self._indexed.views):
                present = [(t, self._at[t, step].get(memory)) for t in self._indexed.operand_lists[operator]]
                present += [(gap.tensor, self._kept[gap].get(memory)) for gap in staying[step]]
                there = [(t, literal) for t, literal in present if literal is not None]
                self._a_scratchpad_holds(view, there, self._arenas[memory])

    def _a_scratchpad_holds(
        self, view: IndexedProblem, present: list[tuple[int, cp_model.IntVar]], arena: cp_model.IntVar
    ) -> None:
        """Limit residents to the capacity; its last, partial unit counts for a tensor that may end within it."""
        room = view.room
        used = sum(room.units[tensor] * literal for tensor, literal in present)
        short = [literal for tensor, literal in present if room.may_end_short >> tensor & 1]
        one_more = self._model.new_bool_var("") if short else 0
        self._model.add(used <= room.capacity_units + one_more)
        if self._indexed.problem.objective is Objective.PEAK:
            self._model.add(used <= arena)
        if short:
            self._model.add(sum(short) >= one_more)

    def _nothing_leaves(self) -> None:
        for kept in self._kept.values():
            self._model.add_bool_or(kept.values())

    def _a_tensor_stays_for_its_whole_life_or_never(self) -> None:
        for gaps in self._gaps:
            for gap, following in pairwise(gaps):
                for memory in self._kept[gap].keys() | self._kept[following].keys():
                    self._model.add(self._kept[gap].get(memory, 0) == self._kept[following].get(memory, 0))

    def forbid(self, residencies: Iterable[PlannedResidency]) -> None:
        """Forbid residencies that together have no addresses in any such scratchpad: one leaves, or is elsewhere."""
        lives = tuple(residencies)
        alike = self._indexed.problem.memories[lives[0].memory]
        for memory, view in enumerate(self._indexed.views):
            if (view.memory.capacity_bytes, view.memory.alignment_bytes) == (
                alike.capacity_bytes,
                alike.alignment_bytes,
            ):
                self._model.add_bool_or(literal for life in lives for literal in self._ends(life, memory))

    def _ends(self, life: PlannedResidency, memory: int) -> list[cp_model.LiteralT]:
        """Return literals; some literal is true unless the tensor is in the scratchpad for the whole residency."""
        never = self._model.new_constant(1)
        gaps = [gap for gap in self._gaps[life.tensor] if gap.splits(life)]
        if gaps:
            return [self._kept[gap][memory].negated() if memory in self._kept[gap] else never for gap in gaps]
        uses = [step for step in self._uses[life.tensor] if life.start <= step < life.stop]
        return [self._at[life.tensor, step].get(memory, never.negated()).negated() for step in uses]

    def begin_with(self, schedule: OperatorSchedule) -> None:
        """Let the search begin with a schedule of the same order."""
        for residency in schedule.residencies:
            for step in self._uses[residency.tensor]:
                if residency.start <= step < residency.stop:
                    choices = self._at[residency.tensor, step]
                    for memory, at in choices.items() if len(choices) > 1 else ():
                        self._model.add_hint(at, memory == residency.memory)
            for gap in self._gaps[residency.tensor]:
                if residency.start <= gap.last_use and gap.next_use < residency.stop:
                    for memory, kept in self._kept[gap].items():
                        self._model.add_hint(kept, memory == residency.memory)
                elif residency.stop == gap.last_use + 1:
                    for kept in self._kept[gap].values():
                        self._model.add_hint(kept, value=False)

    # Objective

    def _minimise(self) -> None:
        """The arenas; or the reload of each gap left and one spill of each tensor that leaves (COSMA, Eq. 12)."""
        if self._indexed.problem.objective is Objective.PEAK:
            views = self._indexed.views
            self._model.minimize(sum(v.room.alignment_bytes * a for v, a in zip(views, self._arenas, strict=True)))
            return
        terms: list[cp_model.LinearExprT] = []
        for tensor, uses in enumerate(self._uses):
            if uses:
                terms += self._first_costs(tensor, uses[0])
                terms += self._reload_costs(tensor)
                if not self._indexed.backed >> tensor & 1:
                    terms += self._spill_costs(tensor, uses[0])
        self._model.minimize(sum(terms))

    def _first_costs(self, tensor: int, step: int) -> Iterable[cp_model.LinearExprT]:
        """Yield the cost of the compulsory transfer beyond its cheapest."""
        indexed = self._indexed
        for memory, at in self._at[tensor, step].items():
            view = indexed.views[memory]
            if indexed.tensors[tensor].role is Role.OUTPUT:
                yield (view.store_costs[tensor] - indexed.store_costs[tensor]) * at
            elif indexed.producer[tensor] < 0:
                yield (view.load_costs[tensor] - indexed.load_costs[tensor]) * at

    def _reload_costs(self, tensor: int) -> Iterable[cp_model.LinearExprT]:
        for gap in self._gaps[tensor]:
            for memory, at in self._at[tensor, gap.next_use].items():
                yield self._indexed.views[memory].load_costs[tensor] * (at - self._kept[gap].get(memory, 0))

    def _spill_costs(self, tensor: int, first_use: int) -> Iterable[cp_model.LinearExprT]:
        """Return the cost of spills, each from the scratchpad in which the tensor was written."""
        for memory, at in self._at[tensor, first_use].items():
            spilled = self._model.new_bool_var(f"spilled_{tensor}_{memory}")
            for gap in self._gaps[tensor]:
                self._model.add(spilled + sum(self._kept[gap].values()) >= at)
            yield self._indexed.views[memory].store_costs[tensor] * spilled

    # Extract

    def solve(self, run: Run, most_work: float = float("inf")) -> SearchResult[OperatorSchedule]:
        """Return a schedule of minimum cost; INFEASIBLE if the conflicts leave none. `work_done` is the work it took.

        CP-SAT needs its strongest linear relaxation to see that a kept tensor is resident at both uses.
        """
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2
        result = solve_for_result(solver, self._model, run, METHOD, lambda: self._schedule(solver), most_work)
        self.work_done = float(solver.deterministic_time)
        return result

    def _schedule(self, solver: cp_model.CpSolver) -> OperatorSchedule:
        residencies: list[PlannedResidency] = []
        for tensor, uses in enumerate(self._uses):
            start = uses[0] if uses else 0
            for step, gap in zip_longest(uses, self._gaps[tensor]):
                if gap is None or not any(solver.boolean_value(kept) for kept in self._kept[gap].values()):
                    at = self._at[tensor, step]
                    memory = next(memory for memory, literal in at.items() if solver.boolean_value(literal))
                    residencies.append(PlannedResidency(tensor, start, step + 1, memory))
                    start = gap.next_use if gap else step
        return OperatorSchedule(self._order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))


class ConflictLearning:
    """Benders' decomposition for one order: the model of residencies is the master, packing the subproblem.

    The master's value rises with each conflict, and bounds this order. The search ends after about `most_work` of
    CP-SAT, which is the same on every machine.
    """

    def __init__(
        self,
        incumbent: PlanIncumbent,
        order: Sequence[int],
        *,
        is_the_only_order: bool,
        most_work: float = float("inf"),
    ) -> None:
        self._incumbent = incumbent
        self._indexed: IndexedProblem = incumbent.indexed
        self._is_the_only_order = is_the_only_order
        self._most_work, self._work_done = most_work, 0.0
        self._master = KeptGaps(self._indexed, order)
        if incumbent.schedule is not None and incumbent.schedule.order == tuple(order):
            self._master.begin_with(incumbent.schedule)

    def solve(self, run: Run) -> None:
        """Learn conflicts until the run has to stop or nothing is left to learn."""
        Portfolio(self._incumbent, [Stepped("conflicts", self._incumbent, run, self.rounds)], Budget(run)).solve()

    def rounds(self, turn: Stepped) -> Iterator[float]:
        """Offer the first choice that packs; raise the bound if no other order is allowed; yield the nodes of rounds.

        A round that the end of the turn cuts short is repeated in the next turn.
        """
        while self._work_done < self._most_work and turn.whole_run.stop is None:
            before = self._work_done
            chosen = self._master.solve(turn.run, self._most_work - before)
            self._work_done += self._master.work_done
            if self._is_the_only_order:
                self._incumbent.raise_bound(chosen.lower_bound)
            cost, best = chosen.objective_value, self._incumbent.value
            is_final = chosen.status in (Status.OPTIMAL, Status.INFEASIBLE)
            if chosen.answer is not None and cost is not None and (best is None or cost < best):
                conflicts = self._offer_or_explain(chosen.answer, cost, turn.run)
                is_final = is_final and not conflicts and turn.run.stop is None
                for conflict in conflicts:
                    self._master.forbid(conflict)
            if is_final:
                return
            yield max(1.0, (self._work_done - before) * STEP.work_nodes)

    def _offer_or_explain(self, schedule: OperatorSchedule, cost: int, run: Run) -> list[list[PlannedResidency]]:
        """Offer the schedule if it packs; otherwise return sets of residencies that have no addresses, if found."""
        offsets_bytes: dict[PlannedResidency, int] = {}
        conflicts: list[list[PlannedResidency]] = []
        for memory, view in enumerate(self._indexed.views):
            part = schedule.in_memory(memory)
            packing = PackingOfPart(view, part, run)
            conflicts += packing.conflicts
            self._work_done += packing.nodes / STEP.work_nodes
            offsets_bytes |= zip(part.residencies, packing.offsets_bytes or (), strict=False)
        if len(offsets_bytes) == len(schedule.residencies):
            placed = [offsets_bytes[residency] for residency in schedule.residencies]
            self._incumbent.offer(schedule, placed, cost, "packed after conflicts")
        return conflicts


class PackingOfPart:
    """The residencies of one scratchpad with `offsets_bytes`, with `conflicts`, or with neither if that stays open.

    A conflict is a set of residencies that have no addresses together.
    """

    def __init__(self, view: IndexedProblem, part: OperatorSchedule, run: Run) -> None:
        self._view = view
        self._part = part
        self._run = run
        problem = packing_problem(view, part)
        attempt = Attempt(problem, run)
        finding = attempt.go_on(STEP.plan_nodes)
        stretches = [attempt.hard_stretch] if finding is Knowledge.UNPACKABLE else []
        self.offsets_bytes = attempt.offsets_bytes
        if finding is Knowledge.OPEN:
            stretches = attempt.unpackable_stretches()
        if finding is Knowledge.OPEN and not stretches:
            packing = pack_by_cp_sat(problem, run, STEP.short_work).answer
            finding = Knowledge.PACKED if packing else attempt.go_on(STEP.proof_nodes)
            self.offsets_bytes = packing.offsets_bytes if packing else attempt.offsets_bytes
            stretches = [attempt.hard_stretch] if finding is Knowledge.UNPACKABLE else []
        self.nodes = attempt.nodes
        self.conflicts = [self._core(stretch) for stretch in stretches]

    def _core(self, stretch: range) -> list[PlannedResidency]:
        """Return residencies, clipped to a stretch that does not pack, without those that always find a place."""
        lived = [
            PlannedResidency(r.tensor, max(r.start, stretch.start), min(r.stop, stretch.stop), r.memory)
            for r in self._part.residencies
            if r.start < stretch.stop and r.stop > stretch.start
        ]
        clipped = packing_problem(self._view, OperatorSchedule(self._part.order, tuple(lived)))
        return [lived[index] for index in Attempt(clipped, self._run).core] or lived


WINDOW_METHOD: Final = "gaps of a window"


class GapWindows:
    """Windows of one order, in one scratchpad without overwriting. `lower_bound` grows with each window solved."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int], window_steps: int = STEP.window_steps) -> None:
        self.lower_bound = 0
        self._indexed = indexed
        self._order = tuple(order)
        self._uses = indexed.uses(order)
        self._window_steps = window_steps
        self._windows: list[list[IdleGap]] = [[] for _ in range(-(-len(self._order) // window_steps))]
        self._share_out_gaps()
        self._dropped: set[tuple[int, int]] = set()

    @property
    def is_exact(self) -> bool:
        """True if the capacity left in a step is known to the unit: no tensor may end within the last, partial unit."""
        return not self._indexed.room.may_end_short

    def solve(self, run: Run) -> OperatorSchedule:
        """Solve every window, each with its share of the time, and return the schedule."""
        for done, gaps in enumerate(self._windows):
            self._solve_window(gaps, run.within(run.seconds_left / (len(self._windows) - done)))
            run.report(None, 0, f"what stays, {min((done + 1) * self._window_steps, len(self._order))} steps")
        return self._schedule()

    def solve_by_states(self, run: Run) -> OperatorSchedule | None:
        """Return residencies of minimum cost, if the choices in every window are few and time is left."""
        if all(self._has_few_choices(gaps, run) for gaps in self._windows):
            return self._schedule()
        return None

    def _share_out_gaps(self) -> None:
        for tensor, uses in enumerate(self._uses):
            idle = [(last + 1, following) for last, following in pairwise(uses) if following > last + 1]
            placed = [self._window_of(start, stop) for start, stop in idle]
            store_cost = 0 if self._indexed.backed >> tensor & 1 else self._indexed.store_costs[tensor]
            share = store_cost // max(1, len({window for window, _ in placed}))
            for (start, _), (window, steps) in zip(idle, placed, strict=True):
                units, load_cost = self._indexed.room.units[tensor], self._indexed.load_costs[tensor]
                self._windows[window].append(IdleGap(tensor, start, steps, units, load_cost, share))

    def _window_of(self, start: int, stop: int) -> tuple[int, range]:
        """Return the first window with most of the steps, and its steps among them."""
        size, best = self._window_steps, (0, range(0))
        for window in range(start // size, (stop - 1) // size + 1):
            steps = range(max(start, window * size), min(stop, (window + 1) * size))
            if len(steps) == size:
                return window, steps
            if len(steps) > len(best[1]):
                best = window, steps
        return best

    def _solve_window(self, gaps: list[IdleGap], run: Run) -> None:
        if self._has_few_choices(gaps, run):
            return
        if cp_sat_is_within_reach(run):
            found = leaving_by_model(gaps, self._left, run, STEP.short_work if len(self._windows) > 1 else inf)
            self.lower_bound += found.lower_bound
            self._leave(gaps if found.answer is None else found.answer)
        else:
            self._leave(gaps)

    def _has_few_choices(self, gaps: list[IdleGap], run: Run) -> bool:
        """See all choices of a window, if they are few enough for that."""
        least = what_leaves(gaps, self._left, run)
        if least is None:
            return False
        self.lower_bound += least.cost
        self._leave(least.gaps)
        return True

    def _leave(self, gaps: Iterable[IdleGap]) -> None:
        self._dropped.update((gap.tensor, gap.start) for gap in gaps)

    def _left(self, step: int) -> int:
        """Return the units left by the operands; one more if a tensor may end within the last, partial unit."""
        room = self._indexed.room
        most = room.capacity_units + (1 if room.may_end_short else 0)
        return most - room.units_of_all(self._indexed.operand_lists[self._order[step]])

    def _schedule(self) -> OperatorSchedule:
        residencies = []
        for tensor, uses in enumerate(self._uses):
            start = uses[0] if uses else 0
            for last, following in pairwise(uses):
                if (tensor, last + 1) in self._dropped:
                    residencies.append(PlannedResidency(tensor, start, last + 1))
                    start = following
            if uses:
                residencies.append(PlannedResidency(tensor, start, uses[-1] + 1))
        return OperatorSchedule(self._order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))


def leaving_by_model(
    gaps: Sequence[IdleGap], left_units: Callable[[int], int], run: Run, most_work: float
) -> SearchResult[tuple[IdleGap, ...]]:
    """Return the gaps that leave, and a lower bound on their cost, as far as the run allows.

    The tensors that stay take at most `left_units` in each step. Without a time limit the solver does at most
    `most_work`.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    kept = [model.new_bool_var("") for _ in gaps]
    _each_step_holds_what_stays(model, gaps, kept, left_units)
    model.minimize(sum(_costs(model, gaps, kept)))
    solver = cp_model.CpSolver()
    solver.parameters.linearization_level = 2
    work = float("inf") if run.deadline.is_set else most_work

    def leaving() -> tuple[IdleGap, ...]:
        return tuple(gap for gap, stays in zip(gaps, kept, strict=True) if not solver.boolean_value(stays))

    return solve_for_result(solver, model, run, WINDOW_METHOD, leaving, work)


def _each_step_holds_what_stays(
    model: cp_model.CpModel, gaps: Sequence[IdleGap], kept: Sequence[cp_model.IntVar], left_units: Callable[[int], int]
) -> None:
    """Add a capacity row for each step that is too full, unless the row of an adjacent step implies it."""
    from ortools.sat.python import cp_model

    first, stop = min(gap.steps.start for gap in gaps), max(gap.steps.stop for gap in gaps)
    opening: list[list[int]] = [[] for _ in range(first, stop + 1)]
    closing: list[list[int]] = [[] for _ in range(first, stop + 1)]
    for number, gap in enumerate(gaps):
        opening[gap.steps.start - first].append(number)
        closing[gap.steps.stop - first].append(number)
    left = [left_units(step) for step in range(first, stop)]
    staying: dict[int, cp_model.IntVar] = {}
    asked = 0
    for at, units_left in enumerate(left):
        for number in closing[at]:
            del staying[number]
            asked -= gaps[number].units
        for number in opening[at]:
            staying[number] = kept[number]
            asked += gaps[number].units
        is_in_the_next = not closing[at + 1] and left[at + 1] <= units_left
        is_in_the_last = not opening[at] and left[at - 1] < units_left
        if asked > units_left and not is_in_the_next and not is_in_the_last:
            units = [gaps[number].units for number in staying]
            model.add(cp_model.LinearExpr.weighted_sum(list(staying.values()), units) <= units_left)


def _costs(
    model: cp_model.CpModel, gaps: Sequence[IdleGap], kept: Sequence[cp_model.IntVar]
) -> list[cp_model.LinearExprT]:
    """The reload of each gap that is left, and one share of storing each tensor that leaves (COSMA, Eq. 12)."""
    costs: list[cp_model.LinearExprT] = [gap.load_cost * (1 - stays) for gap, stays in zip(gaps, kept, strict=True)]
    stored: dict[int, cp_model.IntVar] = {}
    for gap, stays in zip(gaps, kept, strict=True):
        if gap.store_cost:
            if gap.tensor not in stored:
                stored[gap.tensor] = model.new_bool_var("")
                costs.append(gap.store_cost * stored[gap.tensor])
            model.add_bool_or(stored[gap.tensor], stays)
    return costs


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A tensor of size `units` is idle from the step `start` to its next use; `steps` are those steps looked at.

    If it leaves, `load_cost` is paid, and `store_cost` once for all gaps of the tensor that are looked at together.
    """

    tensor: int
    start: int
    steps: range
    units: int
    load_cost: int
    store_cost: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """Gaps that leave, and their cost."""

    gaps: tuple[IdleGap, ...]
    cost: int


def what_leaves(gaps: Sequence[IdleGap], left_units: Callable[[int], int], run: Run) -> Leaving | None:
    """Return the cheapest gaps that leave, so that those that stay take at most `left_units` in each step.

    None if the choices are too many (`native/stays.cpp`) or the run has to stop.
    """
    if not gaps:
        return Leaving((), 0)
    if run.stop is not None:
        return None
    first, stop = min(gap.steps.start for gap in gaps), max(gap.steps.stop for gap in gaps)
    search = StaySearch(
        [
            StayGap(
                tensor=gap.tensor,
                start=gap.steps.start - first,
                stop=gap.steps.stop - first,
                units=gap.units,
                load_cost=gap.load_cost,
                store_cost=gap.store_cost,
            )
            for gap in gaps
        ],
        [left_units(step) for step in range(first, stop)],
    )
    token, most_states = StopToken(), min(STEP.most_gap_states, STEP.gap_states * (stop - first))
    if not run_watched(lambda: search.run(most_states, token), token.ask, run):
        return None
    return Leaving(tuple(compress(gaps, (not stays for stays in search.stays))), search.cost)
