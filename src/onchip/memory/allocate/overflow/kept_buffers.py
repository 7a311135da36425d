"""Which buffers are kept within a capacity, addresses left aside: a small exact model that can learn.

One boolean per buffer, one row per section; what turns out to have no addresses comes back as a cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.result import Result
from onchip.memory.allocate.exact.sections import greatest_sum, sections_of
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

METHOD = "kept buffers"
LINEAR_RELAXATION_OF_ALL = 2

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
        """No more than the greatest sum of sizes within the capacity.

        What ends within the last, partial unit of alignment may lie there: one unit more if such a buffer is kept.
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
        """Some shape of the conflict has to be kept less often.

        Whatever lives as long within the stretch, and is as large, may stand for a part: so one conflict forbids
        all that are alike.
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
        """The bytes outside: all that are not kept, and what is larger than the capacity."""
        buffers = self._problem.buffers
        kept_bytes = sum(buffers[index].size_bytes * is_kept for index, is_kept in self._is_kept.items())
        self._model.minimize(sum(buffer.size_bytes for buffer in buffers) - kept_bytes)

    # Extract

    def solve(self, run: Run) -> Result[Kept]:
        """Return what is kept where the fewest bytes are outside."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = LINEAR_RELAXATION_OF_ALL

        def kept() -> Kept:
            return tuple(index for index, is_kept in self._is_kept.items() if solver.boolean_value(is_kept))

        return solve_for_result(solver, self._model, run, METHOD, kept)
