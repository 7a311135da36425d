"""A lower bound between moments of every plan, and the tensors to keep at each moment.

A moment is the first run of an operator. Its operands and the other residents then fit together. Any other tensor
needed later is loaded, or its operator runs again with inputs that are resident or come back themselves. One model has
all moments of a given order; a single moment bounds all orders (docs/recomputation.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onchip.answer.result import SearchResult, Status
from onchip.memory.remat.replay import NEVER, FirstRuns
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


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
        result: SearchResult[tuple[frozenset[int], ...]] = solve_for_result(
            solver, self._model, run, METHOD, lambda: self._kept_in(solver), most_work
        )
        if result.status is Status.INFEASIBLE:
            return StagesAnswer(0, is_infeasible=True)
        return StagesAnswer(result.lower_bound << self._shift, result.answer or ())

    def _kept_in(self, solver: cp_model.CpSolver) -> tuple[frozenset[int], ...]:
        return tuple(
            frozenset(tensor for tensor, one in kept.items() if solver.boolean_value(one)) for kept in self._kept
        )
