"""Several memories: which memory holds each buffer, at the least cost, with addresses in each.

Logic-based Benders decomposition: a CP-SAT model selects the memories, addresses aside, so its value is a lower bound.
Each memory's buffers are packed (`general.py`). Buffers that do not fit together return to the model as a cut, so the
first selection that packs everywhere is optimal if the model was solved to its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.packing import (
    Buffer,
    Packing,
    PackingProblem,
    StaticMemory,
    StaticPacking,
    StaticPackingProblem,
    StaticPlace,
)
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.construct import Filling
from onchip.memory.allocate.exact import least_arena_bytes
from onchip.memory.allocate.general import conflict_of, solve_general
from onchip.memory.allocate.pack import least_capacity
from onchip.memory.allocate.sections import greatest_sum, sections_of
from onchip.memory.effort import STEP
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result
from onchip.search.strategy.portfolio import Incumbent
from onchip.search.strategy.start import without_figures

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD: Final = "memories"
SHARE_OF_ARENAS: Final = 0.25
"""Of the time that is left, for the least arenas of memories without a capacity."""

Selection: TypeAlias = tuple[int, ...]  # by buffer: its memory


class MemoryModel:
    """The least cost of a selection under the conflicts learnt so far: never more than with addresses.

    Rows are missing, which leaves a weaker relaxation, if the run has to stop while the model is built.
    """

    def __init__(self, problem: StaticPackingProblem, run: Run) -> None:
        from ortools.sat.python import cp_model

        self._problem = problem
        self._model = cp_model.CpModel()
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
        return self._lies_in[index].get(memory, self._model.new_constant(0))

    def _sections_hold(self, memory: int, run: Run) -> None:
        """Limit the padded bytes of each section; the last unit of alignment may be partly beyond the capacity."""
        part = memory_problem(self._problem, range(len(self._problem.buffers)), memory)
        indices = [index for index, lies_in in enumerate(self._lies_in) if memory in lies_in]
        alignment = part.alignment_bytes
        padded = {index: -(-part.buffers[index].size_bytes // alignment) for index in indices}
        for index in indices:
            offset = part.buffers[index].offset_bytes or 0
            is_misplaced = offset % part.alignment_of(part.buffers[index]) > 0
            if is_misplaced or offset + part.buffers[index].size_bytes > part.capacity_bytes:
                self._model.add(self._literal(index, memory) == 0)
        room = -(-part.capacity_bytes // alignment)
        has_sums = part.is_uniform and not any(part.buffers[index].offset_bytes is not None for index in indices)
        for alive in _sections(part.buffers, indices):
            if run.stop is not None:
                return
            sizes = [padded[index] for index in alive]
            unit = gcd(*sizes)
            sizes = [size // unit for size in sizes]
            limit = greatest_sum(sizes, room // unit) if has_sums else room // unit
            if sum(sizes) > limit:
                literals = [self._literal(index, memory) for index in alive]
                self._model.add(sum(size * one for size, one in zip(sizes, literals, strict=True)) <= limit)

    def forbid(self, conflict: Sequence[int], memory: int) -> None:
        """Forbid a conflict, in this memory and in all that hold no more, with buffers that are alike exchanged."""
        memories = self._problem.memories
        for other, one in enumerate(memories):
            if _holds_no_more(one, memories[memory]):
                self._model.add_bool_or(
                    self._are_fewer(count, indices, other) for count, indices in self._shapes(conflict)
                )

    def _shapes(self, conflict: Sequence[int]) -> Iterable[tuple[int, list[int]]]:
        """Yield a number, and the buffers of one lifetime and alignment and at least one size.

        Any buffers that are as many of each shape can take the places of those of the conflict.
        """
        groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for index in conflict:
            groups[self._kind(index)].append(index)
        buffers = self._problem.buffers
        for kind, members in groups.items():
            alike = [index for index in range(len(buffers)) if self._kind(index) == kind]
            for count, index in enumerate(sorted(members, key=lambda one: -buffers[one].size_bytes), 1):
                size = buffers[index].size_bytes
                yield count, [other for other in alike if buffers[other].size_bytes >= size]

    def _kind(self, index: int) -> tuple[object, ...]:
        one = self._problem.buffers[index]
        is_fixed = one.offset_bytes is not None
        return one.lives, one.alignment_bytes, one.offset_bytes, one.size_bytes if is_fixed else None

    def _are_fewer(self, count: int, indices: Sequence[int], memory: int) -> cp_model.LiteralT:
        literals = [self._literal(index, memory) for index in indices]
        are_fewer = self._model.new_bool_var("")
        self._model.add(sum(literals) < count).only_enforce_if(are_fewer)
        return are_fewer

    def cost_less_than(self, value: int) -> None:
        """Select only what is cheaper than the best answer."""
        self._model.add(self._cost < value)

    def set_aside(self, indices: Sequence[int], memory: int) -> None:
        """Do not select these together again, though it is not known whether they have addresses."""
        self._model.add_bool_or(self._literal(index, memory).negated() for index in indices)

    def solve(self, run: Run) -> SearchResult[Selection]:
        """Return the selection of least cost."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2

        def selection() -> Selection:
            return tuple(
                next(memory for memory, literal in lies_in.items() if solver.boolean_value(literal))
                for lies_in in self._lies_in
            )

        return solve_for_result(solver, self._model, run, METHOD, selection)


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
        yield [index for index, _ in alive]


def _holds_no_more(one: StaticMemory, other: StaticMemory) -> bool:
    """True if buffers that do not fit in `other` do not fit in `one` either, wherever they are not fixed."""
    if one == other:
        return True
    if one.capacity_bytes is None or other.capacity_bytes is None or one.reserved_bytes or other.reserved_bytes:
        return False
    return one.capacity_bytes <= other.capacity_bytes and one.alignment_bytes % other.alignment_bytes == 0


def memory_problem(problem: StaticPackingProblem, indices: Sequence[int], memory: int) -> PackingProblem:
    """Return these buffers in one memory, above its reserved bytes; without a capacity there is room for all."""
    one = problem.memories[memory]
    buffers = tuple(problem.buffers[index] for index in indices)
    if one.capacity_bytes is None:
        buffers = tuple(replace(buffer, offset_bytes=None) for buffer in buffers)
    part = PackingProblem(buffers, 0, one.alignment_bytes)
    capacity = part.roomy_bytes if one.capacity_bytes is None else max(one.capacity_bytes - one.first_free_byte, 0)
    return replace(part, capacity_bytes=capacity)


def least_cost(problem: StaticPackingProblem, run: Run) -> SearchResult[StaticPacking]:
    """Give each buffer a memory and an offset at the least cost, the objective value.

    INFEASIBLE if no memories hold the buffers. An answer without time needs a memory without a capacity.
    """
    search = MemorySearch(problem, run)
    search.solve()
    return search.result()


class MemorySearch:
    """Selects memories by a model, packs each, and teaches the model which buffers do not fit together."""

    def __init__(self, problem: StaticPackingProblem, run: Run) -> None:
        self._problem = problem
        self._whole_run = run
        self._run = run.within(run.seconds_left * (1 - SHARE_OF_ARENAS)) if run.deadline.is_set else run
        self._incumbent = Incumbent[StaticPacking](self._run, 0)
        self._least_open: list[int] = []
        self._is_infeasible = any(not costs for costs in problem.costs)

    def solve(self) -> None:
        """Raise the bound and offer answers until they meet, or nothing is left to select."""
        if self._is_infeasible:
            return
        self._offer_filling()
        if self._incumbent.is_proven or not cp_sat_is_within_reach(self._run):
            return
        model = MemoryModel(self._problem, self._run)
        while self._run.stop is None and not self._incumbent.is_proven:
            chosen = model.solve(self._run)
            if chosen.status is Status.INFEASIBLE:
                self._is_infeasible = self._incumbent.value is None and not self._least_open
                self._raise_bound([])
                return
            self._raise_bound([chosen.lower_bound])
            if chosen.answer is None:
                return
            if not self._offer_or_learn(model, chosen.answer, chosen.lower_bound):
                return
            if self._incumbent.value is not None:
                model.cost_less_than(self._incumbent.value)

    def _raise_bound(self, bounds: Sequence[int]) -> None:
        """Raise the bound to the least of these, of the selections set aside, and of the best answer."""
        value = [] if self._incumbent.value is None else [self._incumbent.value]
        if candidates := [*bounds, *self._least_open, *value]:
            self._incumbent.raise_bound(min(candidates))

    def _offer_or_learn(self, model: MemoryModel, selection: Selection, bound: int) -> bool:
        """Offer the selection if it packs, else teach the model why it does not; False if the time is over."""
        places: dict[int, StaticPlace] = {}
        open_parts, is_learnt = [], False
        for memory in range(len(self._problem.memories)):
            indices = [index for index, at in enumerate(selection) if at == memory]
            if not indices:
                continue
            part = memory_problem(self._problem, indices, memory)
            packed = solve_general(part, self._run, minimize=False, most_nodes=STEP.proof_nodes)
            if packed.answer is not None:
                places |= _at(self._problem, memory, indices, packed.answer)
            elif packed.status is Status.INFEASIBLE:
                conflict = conflict_of(part, self._run)
                model.forbid([indices[at] for at in conflict.buffers], memory)
                is_learnt = True
            elif self._run.stop is not None:
                return False
            else:
                open_parts.append((indices, memory))
        if not is_learnt and not open_parts:
            self._offer(places)
        if open_parts and not is_learnt:
            self._least_open.append(bound)
        for indices, memory in open_parts if not is_learnt else ():
            model.set_aside(indices, memory)
            break
        return True

    def _offer_filling(self) -> None:
        """Fill one memory after another in one pass over time, if no group and no fixed offset asks for more."""
        problem = self._problem
        if problem.together or problem.apart or any(one.offset_bytes is not None for one in problem.buffers):
            return
        left, places = list(range(len(problem.buffers))), dict[int, StaticPlace]()
        for memory in sorted(range(len(problem.memories)), key=self._cheapness):
            indices = [index for index in left if memory in problem.costs[index]]
            if not indices:
                continue
            part = memory_problem(problem, indices, memory)
            for index, offset in zip(indices, _swept(part), strict=True):
                if offset is not None:
                    floor = problem.memories[memory].first_free_byte
                    places[index] = StaticPlace(memory, floor + offset)
            left = [index for index in left if index not in places]
        if not left:
            self._offer(places)

    def _cheapness(self, memory: int) -> tuple[int, int]:
        costs = [costs[memory] for costs in self._problem.costs if memory in costs]
        return min(costs, default=0), memory

    def _offer(self, places: Mapping[int, StaticPlace]) -> None:
        packing = StaticPacking(tuple(places[index] for index in range(len(self._problem.buffers))))
        cost = sum(self._problem.cost(index, place.memory) for index, place in enumerate(packing.places))
        self._incumbent.keep(packing, cost, METHOD)

    def result(self) -> SearchResult[StaticPacking]:
        """Return the state of the search; memories without a capacity get their least arena."""
        if self._is_infeasible:
            return SearchResult(Status.INFEASIBLE, None, None, self._incumbent.lower_bound, self._run.seconds, METHOD)
        self._incumbent.stopped_by = self._run.stop or Stop.COMPLETED
        result = self._incumbent.result(METHOD)
        if result.answer is None:
            return result
        places = dict(enumerate(result.answer.places))
        for memory, one in enumerate(self._problem.memories):
            indices = [index for index, place in places.items() if place.memory == memory]
            if one.capacity_bytes is None and indices:
                part = memory_problem(self._problem, indices, memory)
                packed = least_capacity(part, without_figures(self._whole_run)).answer
                if packed is not None:
                    places |= _at(self._problem, memory, indices, packed)
        return replace(result, answer=StaticPacking(tuple(places[index] for index in range(len(places)))))


def _swept(part: PackingProblem) -> Sequence[int | None]:
    """Place each buffer when it begins, as if it had no gaps and all had the strictest alignment."""
    strict = replace(part, alignment_bytes=_common_alignment(part))
    return Filling(strict).sweep().offsets_bytes


def _common_alignment(part: PackingProblem) -> int:
    alignment = part.alignment_bytes
    for one in part.buffers:
        alignment = replace(part, alignment_bytes=alignment).alignment_of(one)
    return alignment


def _at(problem: StaticPackingProblem, memory: int, indices: Sequence[int], packing: Packing) -> dict[int, StaticPlace]:
    """Return the places of buffers that were packed above the reserved bytes of a memory."""
    floor = problem.memories[memory].first_free_byte
    return {index: StaticPlace(memory, floor + at) for index, at in zip(indices, packing.offsets_bytes, strict=True)}


def fewest_allocations(problem: PackingProblem, run: Run) -> SearchResult[StaticPacking]:
    """Split the buffers over the fewest allocations, each at most as large as the capacity; minimise their number.

    Memory k of the answer is allocation k. The lower bound counts allocations, too.
    """
    count = proven = max(1, -(-least_arena_bytes(problem) // max(problem.capacity_bytes, 1)))
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
    """Place each buffer in its cheapest memory, each memory in its least arena.

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
