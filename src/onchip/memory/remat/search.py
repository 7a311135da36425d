"""Minimum cost in bytes with recomputation: best-first search, and a lower bound between moments of every plan.

A state has the operators that ran at least once, the resident tensors, and the spilled tensors with a copy in DRAM. A
tensor comes when an operator reads it, and leaves when another needs its capacity. Leaving is free: the first reload
of a tensor also pays for the store when it left (docs/recomputation.md has the proofs).

A moment is the first run of an operator. Its operands and the other residents then fit together. Any other tensor
needed later is loaded, or its operator runs again with inputs that are resident or come back themselves. One model has
all moments of a given order; a single moment bounds all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from onchip.answer.result import Status
from onchip.memory.decisions import SearchMove
from onchip.memory.remat.replay import NEVER, FirstRuns
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


SETS_BETWEEN_LOOKS = 1024


@dataclass(frozen=True, slots=True)
class RunState:
    """Masks: operators that have run, tensors resident, produced tensors that were spilled and are in DRAM."""

    run: int
    resident: int
    stored: int


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """`moves` of minimum cost, None if not found; a proven bound on the cost in bytes, None if no plan exists."""

    moves: tuple[SearchMove, ...] | None
    lower_bound: int | None


@dataclass(slots=True)
class _Frontier:
    """States that no other state dominates, by the operators that have run, and how each was reached."""

    heap: list[tuple[int, int, int, RunState]] = field(default_factory=list)
    reached: dict[RunState, tuple[RunState, SearchMove] | None] = field(default_factory=dict)
    _least: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    _number: Iterator[int] = field(default_factory=count)

    def offer(self, cost: int, state: RunState, origin: tuple[RunState, SearchMove] | None) -> None:
        """Keep a state unless one that has run the same holds and stores as much for no more."""
        others = self._least.setdefault(state.run, [])
        for resident, stored, other in others:
            if other <= cost and not state.resident & ~resident and not state.stored & ~stored:
                return
        others[:] = [one for one in others if not _is_useless(one, state, cost)]
        others.append((state.resident, state.stored, cost))
        self.reached[state] = origin
        heappush(self.heap, (cost, -state.run.bit_count(), next(self._number), state))

    def is_current(self, cost: int, state: RunState) -> bool:
        """True if no state has dominated this one since it was offered."""
        return (state.resident, state.stored, cost) in self._least[state.run]


def _is_useless(one: tuple[int, int, int], state: RunState, cost: int) -> bool:
    resident, stored, other = one
    return cost <= other and not resident & ~state.resident and not stored & ~state.stored


class RecomputationSearch:
    """Search over at most `most_sets` sets of tensors; `capacity_units` may be less than the scratchpad's."""

    def __init__(self, indexed: IndexedProblem, run: Run, most_sets: int, capacity_units: int | None = None) -> None:
        self._indexed = indexed
        self._run = run
        self._most_sets = most_sets
        self._looked = 0
        self._is_over = False
        self._capacity_units = capacity_units
        self._may_spill = not indexed.problem.objective.forbids_spills
        operators = indexed.problem.graph.operators
        self._costs = [indexed.problem.cost_again(one) for one in operators]
        self._may_run_again = [indexed.problem.may_run_again(one) for one in operators]
        self._useful: dict[int, int] = {}
        self._frontier = _Frontier()

    def search(self) -> SearchAnswer:
        """Search until the cheapest plan is found, nothing is left, or the limits end it."""
        frontier = self._frontier
        frontier.offer(0, RunState(0, 0, 0), None)
        while frontier.heap:
            cost, _, _, state = heappop(frontier.heap)
            if state.run == self._indexed.all_operators:
                return SearchAnswer(self._moves_to(state), cost)
            if not frontier.is_current(cost, state):
                continue
            self._expand(cost, state)
            if self._is_over:  # successors of this state are missing, and no other state is cheaper
                return SearchAnswer(None, cost)
        return SearchAnswer(None, None)

    def _moves_to(self, state: RunState) -> tuple[SearchMove, ...]:
        moves: list[SearchMove] = []
        while (origin := self._frontier.reached[state]) is not None:
            state, move = origin
            moves.append(move)
        return tuple(reversed(moves))

    def _expand(self, cost: int, state: RunState) -> None:
        useful = self._useful_after(state.run)
        for operator in range(self._indexed.operator_count):
            has_run = bool(state.run >> operator & 1)
            if has_run and not self._pays_again(operator, state, useful):
                continue
            if not has_run and self._indexed.predecessors[operator] & ~state.run:
                continue
            brought = self._brought(operator, state)
            if brought is not None:
                more = brought[0] + (self._costs[operator] if has_run else 0)
                self._run_operator(cost + more, state, operator, state.stored | brought[1])

    def _pays_again(self, operator: int, state: RunState, useful: int) -> bool:
        """True if the operator writes a tensor that may be needed and is not resident."""
        return self._may_run_again[operator] and bool(self._indexed.writes[operator] & useful & ~state.resident)

    def _brought(self, operator: int, state: RunState) -> tuple[int, int] | None:
        """Return the cost of bringing the missing inputs, and those stored by then; None if they cannot be brought."""
        indexed, cost, stored = self._indexed, 0, 0
        for tensor in bits(indexed.reads[operator] & ~state.resident):
            is_first = indexed.producer[tensor] < 0 and not indexed.readers[tensor] & state.run
            if is_first:
                continue
            if not self._may_spill:
                return None
            cost += indexed.load_costs[tensor]
            if not (indexed.backed | state.stored) >> tensor & 1:
                cost += indexed.store_costs[tensor]
                stored |= 1 << tensor
        return cost, stored

    def _run_operator(self, cost: int, state: RunState, operator: int, stored: int) -> None:
        """Offer the states after a run of the operator, one for each minimal set that has to leave for it."""
        indexed = self._indexed
        executed = state.run | 1 << operator
        staying = state.resident & ~indexed.operands[operator]
        for leaving in self._smallest_that_leave(indexed.operands[operator], staying):
            resident = (state.resident & ~leaving | indexed.operands[operator]) & self._useful_after(executed)
            move = SearchMove(operator, tuple(bits(leaving)))
            self._frontier.offer(cost, RunState(executed, resident, stored), (state, move))

    def _smallest_that_leave(self, needed: int, staying: int) -> Iterator[int]:
        """Yield minimal sets of tensors without which the others fit with the operands."""
        tensors = sorted(bits(staying), key=lambda tensor: -self._indexed.room.units[tensor])
        yield from self._without(needed | staying, tuple(tensors), 0, 0)

    def _without(self, there: int, tensors: tuple[int, ...], first: int, left: int) -> Iterator[int]:
        self._looked += 1
        if self._looked > self._most_sets or (self._looked % SETS_BETWEEN_LOOKS == 0 and self._run.stop is not None):
            self._is_over = True
        if self._is_over:
            return
        if self._fits(there):
            if not any(self._fits(there | 1 << tensor) for tensor in bits(left)):
                yield left
            return
        for place in range(first, len(tensors)):
            one = 1 << tensors[place]
            yield from self._without(there & ~one, tensors, place + 1, left | one)

    def _fits(self, tensors: int) -> bool:
        room = self._indexed.room
        units = room.units_of(tensors)
        if self._capacity_units is not None:
            return units <= self._capacity_units
        return room.holds(tensors, units)

    def _useful_after(self, run: int) -> int:
        """Return the tensors with a reader that has not run, or that may run again for such a reader."""
        if run not in self._useful:
            indexed, useful = self._indexed, 0
            for operator in reversed(range(indexed.operator_count)):
                has_run = bool(run >> operator & 1)
                if not has_run or (self._may_run_again[operator] and indexed.writes[operator] & useful):
                    useful |= indexed.reads[operator]
            self._useful[run] = useful
        return self._useful[run]


METHOD = "moments"
MOST_BITS: Final = 48
"""Of a cost in the model: larger ones lose their last bits, rounded down, so that sums stay exact."""


@dataclass(frozen=True, slots=True)
class Moment:
    """`operator` runs for the first time, at `step` of an order, when at least the operators `before` have run.

    The tensors of `needed` have been on the chip before, and are read for the first runs from then on, until the next
    moment.
    """

    operator: int
    step: int
    before: frozenset[int]
    needed: tuple[int, ...]

    def was_there(self, first_runs: FirstRuns, tensor: int) -> bool:
        """True if the tensor has been on the chip before in every order."""
        producer = first_runs.indexed.producer[tensor]
        if producer >= 0:
            return producer in self.before
        return not self.before.isdisjoint(first_runs.indexed.reader_lists[tensor])


@dataclass(frozen=True, slots=True)
class StagesAnswer:
    """A bound on the cost of every plan, and for each moment the tensors resident in the best answer found.

    `is_infeasible` is true if no plan exists.
    """

    lower_bound: int
    kept: tuple[frozenset[int], ...] = ()
    is_infeasible: bool = False


def moments_of_order(first_runs: FirstRuns, steps: Sequence[int]) -> tuple[Moment, ...]:
    """Return the moments at ascending steps of an order."""
    ends = (*steps[1:], len(first_runs.order))
    moments = []
    for step, end in zip(steps, ends, strict=True):
        before, operators = frozenset(first_runs.order[:step]), first_runs.order[step:end]
        read = dict.fromkeys(tensor for one in operators for tensor in first_runs.indexed.read_lists[one])
        plain = Moment(first_runs.order[step], step, before, ())
        needed = tuple(tensor for tensor in read if plain.was_there(first_runs, tensor))
        moments.append(Moment(plain.operator, step, before, needed))
    return tuple(moments)


def moment_of_any_order(first_runs: FirstRuns, step: int) -> Moment:
    """Return the moment of the operator at a step, reduced to facts that hold in every order."""
    indexed, operator = first_runs.indexed, first_runs.order[step]
    producer, readers = indexed.producer, indexed.reader_lists
    before = _reached(operator, lambda one: (producer[tensor] for tensor in indexed.read_lists[one]))
    after = _reached(operator, lambda one: (each for tensor in indexed.write_lists[one] for each in readers[tensor]))
    plain = Moment(operator, step, before, ())
    later = after | {operator}
    needed = (
        tensor
        for tensor, its_readers in enumerate(readers)
        if not later.isdisjoint(its_readers) and plain.was_there(first_runs, tensor)
    )
    return Moment(operator, step, before, tuple(needed))


def _reached(operator: int, following: Callable[[int], Iterable[int]]) -> frozenset[int]:
    """Return all operators reachable from `operator`, without itself."""
    reached: set[int] = set()
    waiting = [operator]
    while waiting:
        for other in following(waiting.pop()):
            if other >= 0 and other not in reached:
                reached.add(other)
                waiting.append(other)
    return frozenset(reached)


class StageModel:
    """Model with a boolean for each moment and tensor that may be resident or loaded, or operator that may run again.

    Loads and reruns happen between their moment and the next.
    """

    def __init__(self, first_runs: FirstRuns, moments: Sequence[Moment]) -> None:
        from ortools.sat.python import cp_model

        self._first_runs, self._moments, self._indexed = first_runs, tuple(moments), first_runs.indexed
        self._operands = [frozenset(self._indexed.read_lists[one.operator]) for one in moments]
        self._model = cp_model.CpModel()
        self._kept: list[dict[int, cp_model.IntVar]] = [{} for _ in moments]
        self._loaded: list[dict[int, cp_model.IntVar]] = [{} for _ in moments]
        self._again: list[dict[int, cp_model.IntVar]] = [{} for _ in moments]
        self._new: list[tuple[int, int, bool]] = []
        for at, moment in enumerate(self._moments):
            for tensor in moment.needed:
                self._model.add_bool_or(self._ways(at, tensor))
        self._what_is_there_has_come_and_what_runs_again_has_its_inputs()
        for at in range(len(self._moments)):
            self._what_is_resident_fits(at)
        self._shift = self._minimise()

    # Variables and constraints

    def _ways(self, at: int, tensor: int) -> list[cp_model.IntVar]:
        """Return literals: it is resident at a moment, is loaded after it, or its operator runs again after it."""
        kept, loaded, again = self._kept[at], self._loaded[at], self._again[at]
        if tensor not in kept:
            kept[tensor] = self._model.new_bool_var(f"kept_{at}_{tensor}")
            self._new.append((at, tensor, False))
            if self._first_runs.return_costs(tensor)[1] < NEVER:
                loaded[tensor] = self._model.new_bool_var(f"loaded_{at}_{tensor}")
            if tensor in self._operands[at]:
                self._model.add(kept[tensor] == 1)
        producer = self._indexed.producer[tensor]
        ways = [kept[tensor]]
        if tensor in loaded:
            ways.append(loaded[tensor])
        if producer in self._moments[at].before and self._first_runs.costs[producer] < NEVER:
            if producer not in again:
                again[producer] = self._model.new_bool_var(f"again_{at}_{producer}")
                self._new.append((at, producer, True))
            ways.append(again[producer])
        return ways

    def _what_is_there_has_come_and_what_runs_again_has_its_inputs(self) -> None:
        """K[i+1,t] <= K[i,t] + L[i,t] + C[i,writer of t], and C[i,o] <= the same of each input of o."""
        while self._new:
            at, one, is_operator = self._new.pop()
            if is_operator:
                for tensor in self._indexed.read_lists[one]:
                    if self._moments[at].was_there(self._first_runs, tensor):
                        self._model.add_bool_or(self._ways(at, tensor)).only_enforce_if(self._again[at][one])
            elif at and self._moments[at - 1].was_there(self._first_runs, one):
                self._model.add_bool_or(self._ways(at - 1, one)).only_enforce_if(self._kept[at][one])

    def _what_is_resident_fits(self, at: int) -> None:
        """Fit residents and operands at a moment; the last, partial unit of the capacity counts as a whole."""
        room, operator = self._indexed.room, self._moments[at].operator
        units = room.units_of_all(self._indexed.operand_lists[operator])
        others = ((tensor, one) for tensor, one in self._kept[at].items() if tensor not in self._operands[at])
        used = sum(room.units[tensor] * one for tensor, one in others)
        self._model.add(used <= room.capacity_units + bool(room.may_end_short) - units)

    def _minimise(self) -> int:
        """Minimise the cost of reruns, loads and one store per tensor; return the bits by which costs are shifted."""
        first_runs = self._first_runs
        stored: dict[int, cp_model.IntVar] = {}
        costs: list[tuple[int, cp_model.IntVar]] = []
        for again in self._again:
            costs += [(first_runs.costs[operator], one) for operator, one in again.items()]
        for loaded in self._loaded:
            for tensor, one in loaded.items():
                store, load = first_runs.return_costs(tensor)
                costs.append((load, one))
                if store:
                    if tensor not in stored:
                        stored[tensor] = self._model.new_bool_var(f"stored_{tensor}")
                        costs.append((store, stored[tensor]))
                    self._model.add_implication(one, stored[tensor])
        most = max((cost for cost, _ in costs), default=0)
        shift = max(0, most.bit_length() - MOST_BITS)
        self._model.minimize(sum((cost >> shift) * one for cost, one in costs))
        return shift

    # Extract

    def solve(self, run: Run, most_work: float = float("inf")) -> StagesAnswer:
        """Return the bound and the tensors to keep, as far as the limits allow."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 2

        def extract() -> tuple[frozenset[int], ...]:
            return tuple(
                frozenset(one for one, there in stage.items() if solver.boolean_value(there)) for stage in self._kept
            )

        result = solve_for_result(solver, self._model, run, METHOD, extract, most_work)
        if result.status is Status.INFEASIBLE:
            return StagesAnswer(0, is_infeasible=True)
        return StagesAnswer(result.lower_bound << self._shift, result.answer or ())
