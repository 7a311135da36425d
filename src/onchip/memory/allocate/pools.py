"""Several memories, or one and the buffers outside: the memory and the offset of each buffer, at the minimum cost.

Logic-based Benders decomposition: a CP-SAT model selects the memories, addresses aside, so its value is a lower bound.
The buffers of each memory are packed. Buffers that do not fit together return to the model as a cut, so the first
selection that packs everywhere is optimal if the model was solved to its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.packing import (
    Buffer,
    Overflow,
    Packing,
    PackingProblem,
    StaticMemory,
    StaticPacking,
    StaticPackingProblem,
    StaticPlace,
)
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.exact import Attempt, Knowledge, clip, least_arena_bytes
from onchip.memory.allocate.pack import conflict_of, least_capacity
from onchip.memory.allocate.sections import greatest_sum, has_too_many_pairs, lives_of, sections_of
from onchip.memory.effort import STEP
from onchip.native import StopToken
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, run_watched, solve_for_result
from onchip.search.strategy.portfolio import Incumbent, Portfolio, Stepped
from onchip.search.strategy.start import without_figures

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD: Final = "memories"
SLACKS: Final = (64, 32, 16, 8, 4)
"""Parts of the capacities that are left free, one after another, where packing stays open."""
OUTSIDE: Final = -1
MOST_ALIGNMENT: Final = 1 << 30
"""Bytes of an alignment common to all buffers, up to which memories are filled one buffer after another."""

Selection: TypeAlias = tuple[int, ...]  # by buffer: its memory


@dataclass(frozen=True, slots=True)
class Conflict:
    """Buffers, by index, that have no addresses together in a stretch of steps."""

    stretch: range
    indices: tuple[int, ...]


class MemoryModel:
    """The minimum cost of a selection under the conflicts learnt so far: never more than with addresses.

    Rows are missing, which leaves a weaker relaxation, if the run has to stop while the model is built.
    """

    def __init__(self, problem: StaticPackingProblem, run: Run) -> None:
        from ortools.sat.python import cp_model

        self._problem = problem
        self._model = cp_model.CpModel()
        self._never = self._model.new_constant(0)
        self._lies_in = [
            {memory: self._model.new_bool_var(f"in_{index}_{memory}") for memory in costs}
            for index, costs in enumerate(problem.costs)
        ]
        for lies_in in self._lies_in:
            self._model.add_exactly_one(lies_in.values())
        self._groups()
        for memory, one in enumerate(problem.memories):
            if one.capacity_bytes is not None:
                self._sections_hold(memory, run)
        self._cost = sum(
            problem.cost(index, memory) * literal
            for index, lies_in in enumerate(self._lies_in)
            for memory, literal in lies_in.items()
        )
        self._model.minimize(self._cost)

    def _groups(self) -> None:
        for group in self._problem.together:
            for memory in range(len(self._problem.memories)):
                literals = [self._literal(index, memory) for index in group]
                for one, other in pairwise(literals):
                    self._model.add(one == other)
        for group in self._problem.apart:
            for memory in range(len(self._problem.memories)):
                self._model.add_at_most_one(self._literal(index, memory) for index in set(group))

    def _literal(self, index: int, memory: int) -> cp_model.IntVar:
        return self._lies_in[index].get(memory, self._never)

    def _sections_hold(self, memory: int, run: Run) -> None:
        part = memory_problem(self._problem, range(len(self._problem.buffers)), memory)
        indices = []
        for index, lies_in in enumerate(self._lies_in):
            buffer = part.buffers[index]
            offset = buffer.offset_bytes or 0
            if memory not in lies_in:
                continue
            if offset % part.alignment_of(buffer) or offset + buffer.size_bytes > part.capacity_bytes:
                self._model.add(lies_in[memory] == 0)
            else:
                indices.append(index)
        for alive in _sections(part.buffers, indices):
            if run.stop is not None:
                return
            self._a_section_holds(part, alive, memory)

    def _a_section_holds(self, part: PackingProblem, indices: Sequence[int], memory: int) -> None:
        """Require at most the greatest sum of padded sizes within the capacity.

        A buffer that ends within the last, partial unit of alignment may lie there: one unit more if such a buffer is
        there.
        """
        whole, partial = divmod(part.capacity_bytes, part.alignment_bytes)
        sizes = [-(-part.buffers[index].size_bytes // part.alignment_bytes) for index in indices]
        unit = gcd(*sizes)
        sizes = [size // unit for size in sizes]
        limit, higher_limit = (greatest_sum(sizes, units // unit) for units in (whole, whole + 1))
        if sum(sizes) <= limit:
            return
        short = [index for index in indices if 0 < part.buffers[index].size_bytes % part.alignment_bytes <= partial]
        used = sum(size * self._literal(index, memory) for size, index in zip(sizes, indices, strict=True))
        if not short or limit == higher_limit:
            self._model.add(used <= limit)
            return
        ends_short = self._model.new_bool_var("")
        self._model.add(used <= limit + (higher_limit - limit) * ends_short)
        self._model.add_bool_or(*(self._literal(index, memory) for index in short), ends_short.negated())

    def forbid(self, conflict: Conflict, memory: int) -> None:
        """Forbid a conflict, in this memory and in all that hold no more, with buffers that are alike exchanged."""
        memories, shapes = self._problem.memories, list(self.shapes(conflict))
        for other, one in enumerate(memories):
            if _holds_no_more(one, memories[memory]):
                self._model.add_bool_or(self._are_fewer(count, indices, other) for count, indices in shapes)

    def shapes(self, conflict: Conflict) -> Iterable[tuple[int, list[int]]]:
        """Yield a number, and the buffers of one lifetime within the stretch, one alignment and at least one size.

        Any buffers that are as many of each shape can take the places of those of the conflict.
        """
        buffers = self._problem.buffers
        groups: dict[tuple[object, ...] | None, list[int]] = defaultdict(list)
        for index in range(len(buffers)):
            groups[_kind(buffers[index], conflict.stretch)].append(index)
        members = set(conflict.indices)
        for kind, alike in groups.items():
            sizes = sorted((buffers[index].size_bytes for index in alike if index in members), reverse=True)
            for size in dict.fromkeys(sizes) if kind is not None else ():
                count = sum(other >= size for other in sizes)
                yield count, [index for index in alike if buffers[index].size_bytes >= size]

    def _are_fewer(self, count: int, indices: Sequence[int], memory: int) -> cp_model.LiteralT:
        literals = [self._literal(index, memory) for index in indices]
        if len(literals) == 1:
            return literals[0].negated()
        are_fewer = self._model.new_bool_var("")
        self._model.add(sum(literals) < count).only_enforce_if(are_fewer)
        return are_fewer

    def cost_less_than(self, value: int) -> None:
        """Exclude selections that cost `value` or more."""
        self._model.add(self._cost < value)

    def set_aside(self, indices: Sequence[int], memory: int) -> None:
        """Do not select these together again, though it is not known whether they have addresses."""
        self._model.add_bool_or(self._literal(index, memory).negated() for index in indices)

    def solve(self, run: Run) -> SearchResult[Selection]:
        """Return the selection of minimum cost."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2

        def selection() -> Selection:
            return tuple(
                next(memory for memory, literal in lies_in.items() if solver.boolean_value(literal))
                for lies_in in self._lies_in
            )

        return solve_for_result(solver, self._model, run, METHOD, selection)


def _kind(buffer: Buffer, stretch: range) -> tuple[object, ...] | None:
    """Return a buffer's lifetime within a stretch, alignment and fixed place; None if it is not live there."""
    one = clip(buffer, stretch)
    if one is None:
        return None
    return one.lives, one.alignment_bytes, one.offset_bytes, None if one.offset_bytes is None else one.size_bytes


def _sections(buffers: Sequence[Buffer], indices: Sequence[int]) -> Iterable[list[int]]:
    """Yield the buffers alive in each section."""
    lives = [
        (index, replace(buffers[index], start=a, stop=b, gaps=())) for index in indices for a, b in buffers[index].lives
    ]
    spans, steps = sections_of([live for _, live in lives])
    begins: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (index, _), (first, stop) in zip(lives, spans, strict=True):
        begins[first].append((index, stop))
    alive: list[tuple[int, int]] = []
    for section in range(len(steps)):
        alive = [*((index, stop) for index, stop in alive if stop > section), *begins[section]]
        yield sorted(index for index, _ in alive)


def _holds_no_more(one: StaticMemory, other: StaticMemory) -> bool:
    """True if buffers that do not fit in `other` do not fit in `one` either, wherever they are not fixed."""
    if one == other:
        return True
    if one.capacity_bytes is None or other.capacity_bytes is None or one.reserved_bytes or other.reserved_bytes:
        return False
    return one.capacity_bytes <= other.capacity_bytes and one.alignment_bytes % other.alignment_bytes == 0


def memory_problem(problem: StaticPackingProblem, indices: Sequence[int], memory: int) -> PackingProblem:
    """Return these buffers in one memory, above its reserved bytes; without a capacity, all of them fit."""
    one = problem.memories[memory]
    buffers = tuple(problem.buffers[index] for index in indices)
    if one.capacity_bytes is None:
        buffers = tuple(replace(buffer, offset_bytes=None) for buffer in buffers)
    part = PackingProblem(buffers, 0, one.alignment_bytes)
    capacity = part.roomy_bytes if one.capacity_bytes is None else max(one.capacity_bytes - one.first_free_byte, 0)
    return replace(part, capacity_bytes=capacity)


def conflict_in(part: PackingProblem, stretch: range, run: Run) -> Conflict:
    """Return the buffers of a stretch without a packing that the proof needs; small ones are left out first."""
    cut = [(index, one) for index, buffer in enumerate(part.buffers) if (one := clip(buffer, stretch)) is not None]
    cut.sort(key=lambda each: each[1].size_bytes * (each[1].stop - each[1].start))
    clipped = replace(part, buffers=tuple(one for _, one in cut))
    found = conflict_of(clipped, run, STEP.stretch_nodes).buffers
    return Conflict(stretch, tuple(sorted(cut[at][0] for at in found)))


@dataclass(eq=False)
class _OpenChoice:
    """A selection whose packing stays open in some memories.

    The model excludes it, and others with the same buffers in one memory: they cost at least `lower_bound`.
    """

    selection: Selection
    attempts: dict[int, Attempt]
    lower_bound: int
    is_cheapest: bool
    """True if none of the excluded selections costs less than this one."""


class MemorySearch:
    """Selects memories by a model, packs each, and teaches the model which buffers do not fit together.

    A selection that stays open is set aside, and a separate strategy packs it for longer. The bound is the minimum of
    the model's bound and those of open selections. Buffers in memories without a capacity are placed last.
    """

    def __init__(self, problem: StaticPackingProblem, run: Run, lower_bound: int = 0) -> None:
        self._problem = problem
        self._run = run
        self._incumbent = Incumbent[StaticPacking](run, lower_bound)
        self._incumbent.stopped_by = Stop.TIME_LIMIT if run.deadline.is_set else Stop.COMPLETED
        self._held = [memory for memory, one in enumerate(problem.memories) if one.capacity_bytes is not None]
        self._open: list[_OpenChoice] = []
        self._least_of_model = 0

    @property
    def _buffers(self) -> range:
        return range(len(self._problem.buffers))

    def solve(self) -> SearchResult[StaticPacking]:
        """Raise the bound and offer answers until they meet, or nothing is left to select."""
        if any(not costs for costs in self._problem.costs):
            self._incumbent.is_infeasible = True
            return self._result()
        if not (self._problem.together or self._problem.apart):
            self._offer_selection(tuple(self._roomy(index) for index in self._buffers), {}, "nothing kept")
        self._fill()
        if self._incumbent.is_proven or not cp_sat_is_within_reach(self._run):
            return self._result()
        if has_too_many_pairs(self._problem.buffers):
            self._incumbent.stopped_by = Stop.MEMORY_LIMIT
            return self._result()
        watch = Stopwatch()
        self._model = MemoryModel(self._problem, self._run)
        # Loading the model, and listing the pairs of an attempt, take about as long as building it and do not stop.
        self._run = self._run.within(self._run.seconds_left - watch.seconds)
        strategies = [
            Stepped("model", self._incumbent, self._run, self._select),
            Stepped("packing", self._incumbent, self._run, self._pack_open, is_ready=lambda: bool(self._open)),
            Stepped("slack", self._incumbent, self._run, self._leave_slack, is_ready=lambda: bool(self._open)),
        ]
        self._incumbent.stopped_by = Portfolio(self._incumbent, strategies, Budget(self._run)).solve()
        return self._result()

    def _result(self) -> SearchResult[StaticPacking]:
        self._incumbent.stopped_by = self._run.stop or self._incumbent.stopped_by
        return self._incumbent.result(METHOD)

    def _raise_bound(self) -> None:
        bounds = [self._least_of_model, *(one.lower_bound for one in self._open)]
        if self._incumbent.value is not None:
            bounds.append(self._incumbent.value)
        self._incumbent.raise_bound(min(bounds))

    # Strategies

    def _select(self, turn: Stepped) -> Iterator[float]:
        """Select by the model until it has nothing better than selections set aside; yield the nodes of packing."""
        while True:
            if self._incumbent.value is not None:
                self._model.cost_less_than(self._incumbent.value)
            chosen = self._model.solve(turn.run)
            if chosen.status is Status.INFEASIBLE:
                self._incumbent.is_infeasible = self._incumbent.value is None and not self._open
                problem = self._problem
                most = sum(max(problem.cost(one, at) for at in problem.costs[one]) for one in self._buffers)
                self._least_of_model = max(self._least_of_model, most)
                if not self._incumbent.is_infeasible:
                    self._raise_bound()
                return
            self._least_of_model = max(self._least_of_model, chosen.lower_bound)
            self._raise_bound()
            nodes = 0
            if chosen.answer is not None:
                nodes = self._offer_or_learn(chosen.answer, is_cheapest=chosen.status is Status.OPTIMAL)
            yield float(max(1, nodes))

    def _pack_open(self, _turn: Stepped) -> Iterator[float]:
        """Pack selections set aside, or prove that they do not pack, with more nodes in each round."""
        nodes = STEP.plan_nodes
        while True:
            nodes *= STEP.node_growth
            for one in [*self._open]:
                before = sum(attempt.nodes for attempt in one.attempts.values())
                findings = {attempt.go_on(nodes) for attempt in one.attempts.values() if attempt.offsets_bytes is None}
                if not findings - {Knowledge.PACKED}:
                    self._offer_selection(one.selection, one.attempts)
                if Knowledge.UNPACKABLE in findings or (not findings - {Knowledge.PACKED} and one.is_cheapest):
                    self._open.remove(one)
                    self._raise_bound()
                yield float(max(1, sum(attempt.nodes for attempt in one.attempts.values()) - before))

    def _leave_slack(self, turn: Stepped) -> Iterator[None]:
        """Select for smaller capacities and pack into the whole: that costs more and is only an answer."""
        for part in SLACKS:
            memories = tuple(
                one
                if one.capacity_bytes is None
                else replace(one, capacity_bytes=one.capacity_bytes * (part - 1) // part)
                for one in self._problem.memories
            )
            chosen = MemoryModel(replace(self._problem, memories=memories), turn.run).solve(turn.run).answer
            if chosen is not None:
                attempts = self._attempts(chosen)
                if {attempt.go_on(STEP.plan_nodes) for attempt in attempts.values()} <= {Knowledge.PACKED}:
                    self._offer_selection(chosen, attempts)
                    return
            yield

    def _attempts(self, selection: Selection) -> dict[int, Attempt]:
        """Return an attempt for each memory with a capacity that holds a buffer."""
        parts = ((memory, self._within(selection, memory)) for memory in self._held)
        return {
            memory: Attempt(memory_problem(self._problem, indices, memory), self._run)
            for memory, indices in parts
            if indices
        }

    def _within(self, selection: Selection, memory: int) -> list[int]:
        return [index for index, at in enumerate(selection) if at == memory]

    def _offer_or_learn(self, selection: Selection, *, is_cheapest: bool) -> int:
        """Offer the selection if it packs; otherwise teach the model why it does not, or set it aside. Return nodes."""
        attempts, conflicts = self._attempts(selection), 0
        findings = {memory: attempt.go_on(STEP.plan_nodes) for memory, attempt in attempts.items()}
        open_memories = [memory for memory, finding in findings.items() if finding is not Knowledge.PACKED]
        if not open_memories:
            self._offer_selection(selection, attempts)
        for memory in open_memories:
            attempt, indices = attempts[memory], self._within(selection, memory)
            is_unpackable = findings[memory] is Knowledge.UNPACKABLE
            part = memory_problem(self._problem, indices, memory)
            for stretch in [attempt.hard_stretch] if is_unpackable else attempt.unpackable_stretches():
                conflict = conflict_in(part, stretch, self._run)
                self._model.forbid(Conflict(stretch, tuple(indices[at] for at in conflict.indices)), memory)
                conflicts += 1
        if open_memories:
            self._fill(selection)
        if open_memories and not conflicts:
            self._open.append(_OpenChoice(selection, attempts, self._least_of_model, is_cheapest))
            self._model.set_aside(self._within(selection, open_memories[0]), open_memories[0])
        return sum(attempt.nodes for attempt in attempts.values())

    # Answers

    def _roomy(self, index: int) -> int:
        """Return the cheapest memory without a capacity that may hold a buffer, or OUTSIDE."""
        costs = self._problem.costs[index]
        return min((memory for memory in costs if memory not in self._held), key=costs.__getitem__, default=OUTSIDE)

    @property
    def _is_filled(self) -> bool:
        """True if buffers may be placed one by one: without groups and fixed offsets."""
        problem = self._problem
        has_groups = bool(problem.together or problem.apart)
        return not has_groups and all(one.offset_bytes is None for one in problem.buffers)

    def _fill(self, first: Selection = ()) -> None:
        """Fill one memory after another in one pass over time, then in several orders, chosen buffers first."""
        if not self._is_filled:
            return
        if not first:
            self._offer_filled(None, {}, "filling")
        for order in self._orders(first):
            if self._run.stop is not None:
                return
            self._offer_filled(order, {}, "filling")

    def _orders(self, first: Selection = ()) -> Iterator[list[int]]:
        """Yield all buffers by size, lifetime, start, and size times lifetime; buffers chosen to be held come first."""
        buffers = self._problem.buffers
        keys = (
            lambda i: (-buffers[i].size_bytes, buffers[i].stop - buffers[i].start),
            lambda i: (buffers[i].stop - buffers[i].start, -buffers[i].size_bytes),
            lambda i: (buffers[i].start, -buffers[i].size_bytes),
            lambda i: ((buffers[i].start - buffers[i].stop) * buffers[i].size_bytes, buffers[i].start),
        )
        for key in keys:
            by_key = sorted(self._buffers, key=key)
            yield sorted(by_key, key=lambda i: first[i] not in self._held) if first else by_key

    def _offer_filled(self, order: Sequence[int] | None, given: Mapping[int, StaticPlace], phase: str) -> None:
        """Place each buffer not given in the cheapest memory that has a gap; without an order, in order of time."""
        places = dict(given)
        for memory in sorted(self._held, key=self._cheapness):
            indices = [
                index
                for index in order or self._buffers
                if memory in self._problem.costs[index] and (index not in places or places[index].memory == memory)
            ]
            if not indices:
                continue
            part = memory_problem(self._problem, indices, memory)
            strict = replace(part, alignment_bytes=_common_alignment(part))
            if strict.alignment_bytes > MOST_ALIGNMENT:
                continue
            floor = self._problem.memories[memory].first_free_byte
            if order is None:
                offsets = lives_of(strict).sweep(part.capacity_bytes)
            else:
                known = [places[i].offset_bytes - floor if i in places else OUTSIDE for i in indices]
                offsets = self._filled(strict, known)
            for index, offset in zip(indices, offsets, strict=True):
                if offset != OUTSIDE:
                    places[index] = StaticPlace(memory, floor + offset)
        for index in self._buffers:
            if index not in places and (memory := self._roomy(index)) != OUTSIDE:
                places[index] = StaticPlace(memory, 0)
        self._offer(places, phase)

    def _filled(self, part: PackingProblem, known: list[int]) -> list[int]:
        lives, token = lives_of(part), StopToken()
        order = list(range(len(known)))
        return run_watched(lambda: lives.fill(order, known, part.capacity_bytes, token), token.ask, self._run)

    def _cheapness(self, memory: int) -> tuple[int, int]:
        costs = [costs[memory] for costs in self._problem.costs if memory in costs]
        return min(costs, default=0), memory

    def _offer_selection(self, selection: Selection, attempts: Mapping[int, Attempt], phase: str = "packing") -> None:
        """Offer a selection that packs, with other buffers that fit into its gaps."""
        places = {
            index: StaticPlace(memory, 0)
            for index, memory in enumerate(selection)
            if memory != OUTSIDE and memory not in self._held
        }
        for memory, attempt in attempts.items():
            packing = Packing(attempt.offsets_bytes or ())
            places |= _at(self._problem, memory, self._within(selection, memory), packing)
        self._offer(places, phase)
        if self._is_filled and attempts and all(one.alignment_bytes == 1 for one in self._problem.buffers):
            given = {index: place for index, place in places.items() if place.memory in self._held}
            for order in self._orders() if self._run.stop is None else ():
                self._offer_filled(order, given, phase)

    def _offer(self, places: Mapping[int, StaticPlace], phase: str) -> None:
        if len(places) == len(self._problem.buffers):
            packing = StaticPacking(tuple(places[index] for index in self._buffers))
            cost = sum(self._problem.cost(index, place.memory) for index, place in enumerate(packing.places))
            self._incumbent.keep(packing, cost, phase)


def _common_alignment(part: PackingProblem) -> int:
    alignment = part.alignment_bytes
    for one in part.buffers:
        alignment = replace(part, alignment_bytes=alignment).alignment_of(one)
    return alignment


def _at(problem: StaticPackingProblem, memory: int, indices: Sequence[int], packing: Packing) -> dict[int, StaticPlace]:
    """Return the places of buffers that were packed above the reserved bytes of a memory."""
    floor = problem.memories[memory].first_free_byte
    return {index: StaticPlace(memory, floor + at) for index, at in zip(indices, packing.offsets_bytes, strict=True)}


def least_cost(problem: StaticPackingProblem, run: Run) -> SearchResult[StaticPacking]:
    """Give each buffer a memory and an offset at the minimum cost, the objective value.

    INFEASIBLE if no memories hold the buffers. An answer without time needs a memory without a capacity.
    """
    has_arenas = run.deadline.is_set and any(one.capacity_bytes is None for one in problem.memories)
    searching = run.within(run.seconds_left * (1 - STEP.arena_share)) if has_arenas else run
    result = MemorySearch(problem, searching).solve()
    if result.answer is None:
        return result
    places = dict(enumerate(result.answer.places))
    for memory, one in enumerate(problem.memories):
        indices = [index for index, place in places.items() if place.memory == memory]
        if one.capacity_bytes is None and indices:
            packed = least_capacity(memory_problem(problem, indices, memory), without_figures(run)).answer
            assert packed is not None, "there is room for all"
            places |= _at(problem, memory, indices, packed)
    return replace(result, answer=StaticPacking(tuple(places[index] for index in range(len(places)))))


def least_overflow(problem: PackingProblem, run: Run) -> SearchResult[Overflow]:
    """Keep whole buffers for their whole lives, with the fewest bytes outside.

    The objective value is the sum of the sizes outside. An answer always exists, at worst with all buffers outside.
    """
    memories = (StaticMemory(problem.capacity_bytes, problem.alignment_bytes), StaticMemory())
    asked = StaticPackingProblem(problem.buffers, memories, ({0: 0, 1: 1},) * len(problem.buffers))
    found = MemorySearch(asked, run, bytes_surely_outside(problem)).solve()
    assert found.answer is not None, "all buffers may lie outside"
    overflow = Overflow(tuple(None if place.memory else place.offset_bytes for place in found.answer.places))
    return SearchResult(
        found.status, overflow, found.objective_value, found.lower_bound, found.seconds, "overflow", found.stopped_by
    )


def bytes_surely_outside(problem: PackingProblem) -> int:
    """Return a lower bound without a solver: buffers above the capacity, and the greatest excess of the others."""
    too_large = 0
    changes: dict[int, int] = {}
    for buffer in problem.buffers:
        if buffer.size_bytes > problem.capacity_bytes:
            too_large += buffer.size_bytes
            continue
        for start, stop in buffer.lives:
            changes[start] = changes.get(start, 0) + buffer.size_bytes
            changes[stop] = changes.get(stop, 0) - buffer.size_bytes
    live = most = 0
    for step in sorted(changes):
        live += changes[step]
        most = max(most, live)
    return too_large + max(0, most - problem.capacity_bytes)


def fewest_allocations(problem: PackingProblem, run: Run) -> SearchResult[StaticPacking]:
    """Split the buffers over the fewest allocations, each at most as large as the capacity; minimise their number.

    Memory k of the answer is allocation k. The lower bound counts allocations, too.
    """
    # Every allocation may end with a buffer that is not padded, so the bound counts bytes without alignment.
    loose = replace(
        problem,
        alignment_bytes=1,
        buffers=tuple(replace(one, offset_bytes=None, alignment_bytes=1) for one in problem.buffers),
    )
    count = proven = max(1, -(-least_arena_bytes(loose) // max(problem.capacity_bytes, 1)))
    if any(buffer.size_bytes > problem.capacity_bytes for buffer in problem.buffers):
        return SearchResult(Status.INFEASIBLE, None, None, proven, run.seconds, METHOD)
    while count <= len(problem.buffers) or count == 1:
        # Allocations are numbered by their first buffer.
        costs = tuple(dict.fromkeys(range(min(index + 1, count)), 0) for index in range(len(problem.buffers)))
        memories = (StaticMemory(problem.capacity_bytes, problem.alignment_bytes),) * count
        split = least_cost(StaticPackingProblem(problem.buffers, memories, costs), without_figures(run))
        if split.answer is not None:
            status = Status.OPTIMAL if count == proven else Status.FEASIBLE
            return replace(split, status=status, objective_value=count, lower_bound=proven)
        if split.status is Status.INFEASIBLE and proven == count:
            proven += 1
        elif run.stop is not None:
            break
        count += 1
    status = Status.INFEASIBLE if proven > len(problem.buffers) else Status.UNKNOWN
    return SearchResult(status, None, None, proven, run.seconds, METHOD, run.stop or Stop.COMPLETED)


def least_static_arena(problem: StaticPackingProblem, run: Run) -> SearchResult[StaticPacking]:
    """Place each buffer in its cheapest memory, each memory in its minimum arena.

    The objective value is the sum of the arenas, reserved bytes included. INFEASIBLE if a memory is proven too small
    for its buffers, UNKNOWN if that stays open; the bound is then that of this memory.
    """
    places: dict[int, StaticPlace] = {}
    arenas = bound = 0
    for memory, one in enumerate(problem.memories):
        indices = [index for index, costs in enumerate(problem.costs) if min(costs, key=costs.__getitem__) == memory]
        floor = one.first_free_byte
        if not indices:
            arenas, bound = arenas + one.reserved_bytes, bound + one.reserved_bytes
            continue
        packed = least_capacity(memory_problem(problem, indices, memory), without_figures(run))
        if packed.answer is None or packed.objective_value is None:
            return SearchResult(
                packed.status, None, None, packed.lower_bound + floor, run.seconds, METHOD, packed.stopped_by
            )
        places |= _at(problem, memory, indices, packed.answer)
        arenas, bound = arenas + packed.objective_value + floor, bound + packed.lower_bound + floor
    packing = StaticPacking(tuple(places[index] for index in range(len(problem.buffers))))
    status = Status.OPTIMAL if arenas == bound else Status.FEASIBLE
    stop = Stop.COMPLETED if status is Status.OPTIMAL else run.stop or Stop.TIME_LIMIT
    return SearchResult(status, packing, arenas, bound, run.seconds, METHOD, stop)
