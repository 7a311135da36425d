"""Audit of a packing's bound: a CP-SAT model of the offsets of buffers with known live ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from ortools.sat.python import cp_model

from onchip.answer.packing import Overflow, Packing, PackingProblem
from onchip.audits.finding import Answered, Finding, OutOfTimeError, Ruling, in_time, searched
from onchip.search.budget.clock import Deadline
from onchip.verify.packing import verify_overflow, verify_packing


def audit_arena(problem: PackingProblem, bound: int, seconds: float, workers: int = 1) -> Finding:
    """Rule on whether the buffers pack into less than `bound` bytes; the problem's capacity is ignored."""
    audit = _PackingAudit(problem, bound, Deadline.after(seconds), workers)
    return audit.in_time(audit.of_the_arena)


def audit_overflow(problem: PackingProblem, bound: int, seconds: float, workers: int = 1) -> Finding:
    """Rule on whether less than `bound` bytes can be left outside the capacity, with each buffer entirely in or out."""
    audit = _PackingAudit(problem, bound, Deadline.after(seconds), workers)
    return audit.in_time(audit.of_the_overflow)


@dataclass
class _PackingAudit:
    """An audit of one packing: first a relaxation to live bytes, which can only confirm the bound, then offsets."""

    problem: PackingProblem
    bound: int
    deadline: Deadline
    workers: int

    def in_time(self, finding: Callable[[], Finding]) -> Finding:
        """Return the finding, or an undecided one if there is no time to build a model."""
        try:
            return finding()
        except OutOfTimeError:
            return self._by(Answered.OPEN, "")

    def of_the_arena(self) -> Finding:
        """Rule on the arena; live buffers are disjoint at each step, and all but one of them are padded."""
        if self.bound <= self._live_bytes():
            return self._ruled(Ruling.CONFIRMED, "so many bytes live at one step")
        model = _PackingModel(self.problem, self.bound - 1, self.deadline)
        model.everything_is_kept()
        answered, solver = searched(model.model, self.deadline.seconds_left, self.workers)
        if answered is Answered.SOLUTION:
            packing = Packing(tuple(model.offset_bytes(solver, at) or 0 for at in range(len(self.problem.buffers))))
            return self._refuted_by_packing(packing)
        return self._by(answered, "exact model: an offset for each buffer")

    def _live_bytes(self) -> int:
        alignment, most = self.problem.alignment_bytes, 0
        for live in _crowds(self.problem, self.deadline):
            sizes = [self.problem.buffers[at].size_bytes for at in live]
            padded = sum(_units(size, alignment) for size in sizes) * alignment - (alignment - 1)
            most = max(most, padded, sum(sizes))
        return most

    def _refuted_by_packing(self, packing: Packing) -> Finding:
        pairs = zip(packing.offsets_bytes, self.problem.buffers, strict=True)
        arena = max((offset + buffer.size_bytes for offset, buffer in pairs), default=0)
        within = PackingProblem(self.problem.buffers, self.bound - 1, self.problem.alignment_bytes)
        if verify_packing(within, packing) or arena >= self.bound:
            return self._ruled(Ruling.UNDECIDED, "the model's packing does not pass the verifier")
        return self._refuted(packing, arena)

    def of_the_overflow(self) -> Finding:
        """Rule on the bytes outside: first with the total size of live buffers, then with offsets."""
        if self.bound <= 0:
            return self._ruled(Ruling.CONFIRMED, "nothing less than 0 bytes can be outside")
        for with_offsets in (False, True):
            capacity_bytes = self.problem.capacity_bytes
            model = _PackingModel(self.problem, capacity_bytes, self.deadline, with_offsets=with_offsets)
            model.less_is_outside_than(self.bound)
            answered, solver = searched(model.model, self.deadline.seconds_left, self.workers)
            if answered is Answered.NONE:
                named = "exact model: offsets of what is kept" if with_offsets else "relaxation: what lives at a time"
                return self._ruled(Ruling.CONFIRMED, named)
            if answered is Answered.SOLUTION and with_offsets:
                offsets = (model.offset_bytes(solver, at) for at in range(len(self.problem.buffers)))
                return self._refuted_by_overflow(Overflow(tuple(offsets)))
        return self._by(Answered.OPEN, "")

    def _refuted_by_overflow(self, overflow: Overflow) -> Finding:
        outside = sum(self.problem.buffers[at].size_bytes for at in overflow.outside)
        if verify_overflow(self.problem, overflow, outside) or outside >= self.bound:
            return self._ruled(Ruling.UNDECIDED, "the model's packing does not pass the verifier")
        return self._refuted(overflow, outside)

    def _refuted(self, better: Packing | Overflow, value: int) -> Finding:
        detail = "exact model: a better packing, which passes the verifier"
        return Finding(Ruling.REFUTED, self.bound, value, better, self.deadline.seconds, detail)

    def _by(self, answered: Answered, detail: str) -> Finding:
        if answered is Answered.NONE:
            return self._ruled(Ruling.CONFIRMED, detail)
        return self._ruled(Ruling.UNDECIDED, "neither a proof nor a better packing in time")

    def _ruled(self, ruling: Ruling, detail: str) -> Finding:
        return Finding(ruling, self.bound, None, None, self.deadline.seconds, detail)


class _PackingModel:
    """A model with a literal for each kept buffer and, unless only sizes count, its first unit.

    Raises OutOfTimeError if the deadline passes during construction.
    """

    def __init__(
        self, problem: PackingProblem, capacity_bytes: int, deadline: Deadline, *, with_offsets: bool = True
    ) -> None:
        self.model = cp_model.CpModel()
        self._problem = problem
        self._capacity_bytes = capacity_bytes
        self._is_kept = [self.model.new_bool_var("") for _ in problem.buffers]
        self._begin: list[cp_model.IntVar] = []
        self._what_lives_at_a_time_fits(deadline)
        if with_offsets:
            self._no_two_share_bytes_and_a_step()

    def everything_is_kept(self) -> None:
        """Require that no buffer is outside."""
        for is_kept in self._is_kept:
            self.model.add(is_kept == 1)

    def less_is_outside_than(self, bound: int) -> None:
        """Require that the total size of the buffers outside is less than `bound`."""
        pairs = zip(self._problem.buffers, self._is_kept, strict=True)
        outside = sum(buffer.size_bytes * (1 - is_kept) for buffer, is_kept in pairs)
        self.model.add(outside <= bound - 1)
        self.model.minimize(outside)

    def offset_bytes(self, solver: cp_model.CpSolver, buffer: int) -> int | None:
        """Return the offset of a buffer in bytes; None outside."""
        if not solver.boolean_value(self._is_kept[buffer]):
            return None
        return solver.value(self._begin[buffer]) * self._problem.alignment_bytes

    def _what_lives_at_a_time_fits(self, deadline: Deadline) -> None:
        """Limit live buffers in alignment units, which buffers do not share; the last unit may be partly outside."""
        alignment = self._problem.alignment_bytes
        room = _units(self._capacity_bytes, alignment)
        for live in _crowds(self._problem, deadline):
            units = [_units(self._problem.buffers[at].size_bytes, alignment) for at in live]
            self.model.add(sum(unit * self._is_kept[at] for unit, at in zip(units, live, strict=True)) <= room)
        for buffer, is_kept in zip(self._problem.buffers, self._is_kept, strict=True):
            if buffer.size_bytes > self._capacity_bytes:
                self.model.add(is_kept == 0)

    def _no_two_share_bytes_and_a_step(self) -> None:
        alignment = self._problem.alignment_bytes
        lives, places = [], []
        for buffer, is_kept in zip(self._problem.buffers, self._is_kept, strict=True):
            last = max(self._capacity_bytes - buffer.size_bytes, 0) // alignment
            begin = self.model.new_int_var(0, last, "")
            if buffer.offset_bytes is not None:
                self.model.add(begin * alignment == buffer.offset_bytes)
            if (own := self._problem.alignment_of(buffer) // alignment) > 1:
                self.model.add_modulo_equality(0, begin, own)
            units = _units(buffer.size_bytes, alignment)
            self._begin.append(begin)
            for start, stop in buffer.lives:
                places.append(self.model.new_optional_fixed_size_interval_var(begin, units, is_kept, ""))
                lives.append(self.model.new_optional_fixed_size_interval_var(start, stop - start, is_kept, ""))
        self.model.add_no_overlap_2d(lives, places)


def _crowds(problem: PackingProblem, deadline: Deadline) -> Iterator[list[int]]:
    """Yield the live buffers at each step at which a buffer begins; other steps have subsets of these.

    Raises OutOfTimeError once the deadline is past.
    """
    live: list[tuple[int, int]] = []  # buffers, and the end of each life
    lives = sorted((start, stop, at) for at, one in enumerate(problem.buffers) for start, stop in one.lives)
    for step, beginning in groupby(lives, key=itemgetter(0)):
        in_time(deadline)
        live = [*((at, stop) for at, stop in live if stop > step), *((at, stop) for _, stop, at in beginning)]
        yield [at for at, _ in live]


def _units(size_bytes: int, alignment_bytes: int) -> int:
    return -(-size_bytes // alignment_bytes)
