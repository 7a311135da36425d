"""Addresses for a schedule whose outputs may lie in bytes of inputs, and which of them do: one CP-SAT model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from onchip.answer.result import Result, Status, Stop
from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD = "tied"
PlacedSchedule: TypeAlias = tuple[OperatorSchedule, tuple[int, ...]]
"""A schedule whose residencies have the ties chosen, and their offsets in bytes."""


def pack_with_ties(
    indexed: IndexedProblem,
    schedule: OperatorSchedule,
    run: Run,
    most_work: float = float("inf"),
) -> Result[PlacedSchedule]:
    """Find offsets within the scratchpad, or prove that the residencies have none, whatever is tied.

    There is no objective. UNKNOWN where no time is left to load the solver, or after so much work, as
    `solve_interruptibly` counts it.
    """
    if not cp_sat_is_within_reach(run):
        return Result(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)
    return _TiedModel(indexed, schedule).solve(run, most_work)


class _TiedModel:
    """A rectangle of steps and units for each residency; one that lies within another at a step is not there then."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        from ortools.sat.python import cp_model

        self._indexed, self._schedule = indexed, schedule
        self._residencies = schedule.residencies
        self._alignment = indexed.memory.alignment_bytes
        self._model = cp_model.CpModel()
        self._offsets = [self._model.new_int_var(0, self._last_offset(r), "") for r in self._residencies]
        self._inside: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        self._ties: dict[int, list[tuple[tuple[int, int], cp_model.IntVar]]] = {}
        self._outputs_may_be_tied()
        self._residencies_do_not_overlap()

    def _last_offset(self, residency: PlannedResidency) -> int:
        return (self._indexed.memory.capacity_bytes - self._indexed.sizes_bytes[residency.tensor]) // self._alignment

    def _outputs_may_be_tied(self) -> None:
        """To what ends with their step, each to one of a group."""
        ending = {(one.tensor, one.stop): at for at, one in enumerate(self._residencies)}
        beginning = {(one.tensor, one.start): at for at, one in enumerate(self._residencies)}
        for step, operator in enumerate(self._schedule.order):
            groups: dict[tuple[int, int], list[cp_model.IntVar]] = {}
            for one in self._indexed.overwritable_lists[operator]:
                if (one.tensor, step + 1) not in ending:
                    continue
                lender = ending[one.tensor, step + 1]
                for written, shift_bytes in one.ties:
                    output = beginning[written, step]
                    tie = self._tie(output, lender, shift_bytes)
                    groups.setdefault((one.group, written), []).append(tie)
                    inside = output if written in one.inside else lender
                    self._inside.setdefault((inside, step), []).append(tie)
            for ties in groups.values():
                self._model.add_at_most_one(ties)

    def _tie(self, output: int, lender: int, shift_bytes: int) -> cp_model.IntVar:
        """Whether an output lies in the bytes of an input in the last step of that."""
        tie = self._model.new_bool_var(f"tie_{output}_{lender}")
        difference = self._offsets[output] - self._offsets[lender]
        self._model.add(difference == shift_bytes // self._alignment).only_enforce_if(tie)
        self._ties.setdefault(output, []).append(((self._residencies[lender].tensor, shift_bytes), tie))
        return tie

    def _residencies_do_not_overlap(self) -> None:
        model, lives, ranges = self._model, [], []
        for at, residency in enumerate(self._residencies):
            size = self._indexed.room.units[residency.tensor]
            range_ = model.new_fixed_size_interval_var(self._offsets[at], size, "")
            apart = [step for place, step in self._inside if place == at]
            for start, stop in _between(residency, apart):
                lives.append(model.new_fixed_size_interval_var(start, stop - start, ""))
                ranges.append(range_)
            for step in apart:
                is_apart = model.new_bool_var("")
                model.add(sum(self._inside[at, step]) + is_apart == 1)
                lives.append(model.new_optional_fixed_size_interval_var(step, 1, is_apart, ""))
                ranges.append(range_)
        model.add_no_overlap_2d(lives, ranges)

    def solve(self, run: Run, most_work: float) -> Result[PlacedSchedule]:
        """Solve for so much work."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        return solve_for_result(solver, self._model, run, METHOD, lambda: self._placed(solver), most_work)

    def _placed(self, solver: cp_model.CpSolver) -> PlacedSchedule:
        residencies = tuple(
            replace(one, ties=tuple(tie for tie, literal in self._ties.get(at, ()) if solver.boolean_value(literal)))
            for at, one in enumerate(self._residencies)
        )
        offsets = tuple(solver.value(offset) * self._alignment for offset in self._offsets)
        return OperatorSchedule(self._schedule.order, residencies), offsets


def _between(residency: PlannedResidency, steps: list[int]) -> list[tuple[int, int]]:
    """Return the stretches of steps of a residency that are left without these steps."""
    ends = [residency.start, *(end for step in sorted(steps) for end in (step, step + 1)), residency.stop]
    return [(start, stop) for start, stop in zip(ends[::2], ends[1::2], strict=True) if start < stop]
