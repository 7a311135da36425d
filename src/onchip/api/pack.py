"""The `pack` use case, and packing for backends: the smallest arena, and checks of buffers that a tool has placed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path
from typing import Any, Final, TypeAlias

from onchip.answer.options.verb_options import PackOptions
from onchip.answer.packing import Buffer, Packing, PackingProblem, StaticMemory, StaticPacking, StaticPackingProblem
from onchip.answer.result import SearchResult, Status
from onchip.api.phases import phase
from onchip.arch.memory import Memory
from onchip.errors import InputError, InternalError, UsageError
from onchip.formats.minimalloc import BufferTable
from onchip.formats.packing_files import read_packing_file
from onchip.memory.allocate.exact import least_arena_bytes
from onchip.memory.allocate.pack import conflict_of, least_capacity, pack
from onchip.memory.allocate.pools import fewest_allocations, least_cost, least_overflow, least_static_arena
from onchip.reports.packing import MemoriesOutcome, OverflowOutcome, PackingOutcome
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.start import RunStarter, silent_run
from onchip.verify.packing import ALL_BUFFERS, verify_overflow, verify_packing, verify_static_packing
from onchip.verify.rules import Rule, Violation
from onchip.without_collecting import without_collecting

__all__ = ["Limits", "PlacedBuffers", "Rule", "Violation", "smallest_arena", "static_packing", "verify_packing"]

CHECKING_TO_READING: Final = 1.0
"""Verifying and writing take 0.65 times as long as reading 200,000 buffers, and 0.8 times as long as a million."""


PackedOutcome: TypeAlias = PackingOutcome | OverflowOutcome | MemoriesOutcome
_Violations: TypeAlias = Callable[[Any], Sequence[Violation]]
"""The verification of an answer."""


@phase("packing")
@without_collecting()
def pack_buffers(
    buffers: Path | BufferTable,
    capacity_bytes: int | None,
    options: PackOptions,
    limits: Limits,
    start: RunStarter = silent_run,
    memories: tuple[Memory, ...] = (),
    *,
    minimize: bool = False,
) -> PackedOutcome:
    """Pack buffers as the options and the file require, verify; raises InternalError for an illegal packing.

    Buffers lie in one memory, some of them outside of it, or in several memories in the order of preference; without
    any, these are the memories of the file, or one of the capacity. Without a capacity all buffers fit side by side.
    """
    deadline = Deadline.after(limits.time_limit_seconds)
    table, problem = _packing_problem(buffers, capacity_bytes, options.alignment_bytes)
    has_memories = bool(memories or table.memories or table.together or table.apart)
    outcome: PackedOutcome
    checking = CHECKING_TO_READING * deadline.seconds
    with start(limits, deadline.within(deadline.seconds_left - checking)) as run:
        if has_memories or options.together or options.apart or options.splits:
            outcome, violations = _in_memories(table, problem, memories, options, run)
        elif options.overflow and capacity_bytes is not None:
            outcome, violations = _partly_outside(table, problem, run)
        else:
            outcome, violations = _in_one_memory(table, problem, capacity_bytes, run, minimize=minimize)
    if outcome.result.answer is not None:
        with phase("verifying"):
            if found := violations(outcome.result.answer):
                what = f"the packing has {len(found)} violations, the first: {found[0]}"
                raise InternalError(what, place=f"method {outcome.result.method}")
    return outcome


def _in_one_memory(
    table: BufferTable, problem: PackingProblem, capacity_bytes: int | None, run: Run, *, minimize: bool
) -> tuple[PackingOutcome, _Violations]:
    """Pack into one memory; if the buffers do not fit, the outcome names a conflict."""
    result = _packed(problem, table.parts, run, minimize=minimize)
    conflict, is_irreducible = tuple[str, ...](), False
    if result.status is Status.INFEASIBLE:
        found = conflict_of(problem, run)
        conflict, is_irreducible = tuple(table.ids[index] for index in found.buffers), found.is_irreducible
    outcome = PackingOutcome(table.ids, problem, result, capacity_bytes, run.seconds, conflict, is_irreducible)
    return outcome, lambda answer: verify_packing(problem, answer, result.objective_value)


def _partly_outside(table: BufferTable, problem: PackingProblem, run: Run) -> tuple[OverflowOutcome, _Violations]:
    """Minimise the bytes of the buffers outside the capacity."""
    result = least_overflow(problem, run)
    outcome = OverflowOutcome(table.ids, problem, result, run.seconds)
    return outcome, lambda answer: verify_overflow(problem, answer, result.objective_value or 0)


def _in_memories(
    table: BufferTable, single: PackingProblem, memories: tuple[Memory, ...], options: PackOptions, run: Run
) -> tuple[MemoriesOutcome, _Violations]:
    """Give each buffer a memory and an offset."""
    if options.splits:
        result = fewest_allocations(single, run)
        count = result.objective_value or 0
        allocations = (StaticMemory(single.capacity_bytes, single.alignment_bytes),) * count
        costs = (dict.fromkeys(range(count), 0),) * len(table.ids)
        problem = StaticPackingProblem(single.buffers, allocations, costs)
        names: tuple[str | None, ...] = tuple(f"allocation {number}" for number in range(count))
    else:
        problem, names = _static_problem(table, single, memories, options)
        result = least_cost(problem, run)
    objective = "allocations" if options.splits else "cost" if len(names) > 2 else "bytes outside"
    cost = None if options.splits else result.objective_value
    outcome = MemoriesOutcome(table.ids, problem, names, objective, result, run.seconds)
    return outcome, lambda answer: verify_static_packing(problem, answer, cost)


def _packed(problem: PackingProblem, parts: Sequence[range], run: Run, *, minimize: bool) -> SearchResult[Packing]:
    """Pack; parts in separate memories are packed one by one, with `minimize` each in the smallest arena."""
    engine = least_capacity if minimize else pack
    if not parts:
        return engine(problem, run)
    results = [engine(replace(problem, buffers=problem.buffers[part.start : part.stop]), run) for part in parts]
    worst = next((one for one in results if one.answer is None), None)
    if worst is not None:
        return worst
    offsets = tuple(offset for one in results if one.answer for offset in one.answer.offsets_bytes)
    arena, bound = max(one.objective_value or 0 for one in results), max(one.lower_bound for one in results)
    are_optimal = all(one.status is Status.OPTIMAL for one in results)
    last = results[-1]
    return replace(
        last,
        status=Status.OPTIMAL if are_optimal else Status.FEASIBLE,
        answer=Packing(offsets),
        objective_value=arena,
        lower_bound=bound,
    )


def _static_problem(
    table: BufferTable, single: PackingProblem, given: tuple[Memory, ...], options: PackOptions
) -> tuple[StaticPackingProblem, tuple[str | None, ...]]:
    """Return the problem and the name of each memory; a byte costs its memory's rank in the buffer's preferences."""
    memories = given or table.memories or (Memory("memory", single.capacity_bytes),)
    names = [one.name for one in memories]
    alignment = single.alignment_bytes
    pools = [StaticMemory(one.capacity_bytes, lcm(one.alignment_bytes, alignment)) for one in memories]
    if options.overflow:
        pools.append(StaticMemory(None, alignment))
    outside = len(names)
    costs = []
    for name, buffer in zip(table.ids, table.buffers, strict=True):
        for each in buffer.memories:
            if each not in names:
                raise InputError(f"buffer {name!r} may lie in {each!r}", expected=" or ".join(names))
        ranked = buffer.memories or names
        own = {names.index(each): rank for rank, each in enumerate(ranked)}
        costs.append(own | ({outside: len(ranked)} if options.overflow else {}))
    index = {name: at for at, name in enumerate(table.ids)}

    def groups(given: Sequence[Sequence[str]], option: str) -> tuple[tuple[int, ...], ...]:
        for name in (name for group in given for name in group):
            if name not in index:
                raise InputError(f"there is no buffer {name!r}", place=option, expected="names of buffers")
        return tuple(tuple(index[name] for name in group) for group in given)

    together, apart = (*table.together, *options.together), (*table.apart, *options.apart)
    problem = StaticPackingProblem(
        single.buffers, tuple(pools), tuple(costs), groups(together, "together"), groups(apart, "apart")
    )
    return problem, (*names, None) if options.overflow else tuple(names)


@phase("reading")
def _packing_problem(
    buffers: Path | BufferTable, capacity_bytes: int | None, alignment_bytes: int | None
) -> tuple[BufferTable, PackingProblem]:
    table, file = (buffers, None) if isinstance(buffers, BufferTable) else (read_packing_file(buffers), buffers)
    asked = alignment_bytes or table.alignment_bytes or 1
    if table.alignment_bytes not in (None, asked):
        raise UsageError(f"the file says {table.alignment_bytes}", place="alignment", expected="the same or none")
    return table, packing_problem(table, file, capacity_bytes, asked)


def packing_problem(
    table: BufferTable, file: Path | None, capacity_bytes: int | None, alignment_bytes: int
) -> PackingProblem:
    """Return the problem of a file's buffers, by default with a capacity that always suffices.

    Raises InputError for a fixed offset that is not aligned.
    """
    for name, buffer in zip(table.ids, table.buffers, strict=True):
        alignment = lcm(alignment_bytes, buffer.alignment_bytes)
        if (buffer.offset_bytes or 0) % alignment:
            what = f"buffer {name!r} is fixed at {buffer.offset_bytes}"
            named = None if file is None else str(file)
            raise InputError(what, file=named, place="offset", expected=f"a multiple of {alignment}")
    problem = PackingProblem(table.buffers, 1, alignment_bytes)
    return replace(problem, capacity_bytes=capacity_bytes or max(problem.roomy_bytes, 1))


PACKING_SECONDS: Final = 10.0


def smallest_arena(problem: PackingProblem) -> tuple[tuple[int, ...], int, int]:
    """Return the offsets of the lowest packing found in ten seconds, at any capacity, its end, and a lower bound.

    All are in the unit of the sizes. Raises InternalError if the packing is not legal.
    """
    problem = replace(problem, capacity_bytes=max(problem.roomy_bytes, 1))
    with silent_run(Limits(time_limit_seconds=PACKING_SECONDS), Deadline.after(PACKING_SECONDS)) as run:
        result = least_capacity(problem, run)
    if result.answer is None or result.objective_value is None:
        raise InternalError("the buffers do not pack in an arena of their total size", place="packing")
    if violations := verify_packing(problem, result.answer, result.objective_value):
        raise InternalError(f"the packing is not legal: {violations[0]}", place="packing")
    return result.answer.offsets_bytes, result.objective_value, result.lower_bound


def static_packing(problem: StaticPackingProblem, limits: Limits, *, is_arena: bool) -> SearchResult[StaticPacking]:
    """Return verified places of buffers in memories, of least cost or, with `is_arena`, in the smallest arena.

    Raises InternalError if the packing is not legal.
    """
    run = Run(limits, deadline=Deadline.after(limits.time_limit_seconds))
    result = (least_static_arena if is_arena else least_cost)(problem, run)
    if result.answer is not None and (violations := verify_static_packing(problem, result.answer)):
        what = f"its places have {len(violations)} violations, the first: {violations[0]}"
        raise InternalError(what, place=f"method {result.method}")
    return result


@dataclass(frozen=True, slots=True)
class PlacedBuffers:
    """Buffers of one memory with their offsets in bytes, and the names of the tensors in each buffer."""

    name: str
    buffers: tuple[Buffer, ...]
    offsets_bytes: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]

    @property
    def end_bytes(self) -> int:
        """Highest end address of a buffer."""
        return max((at + one.size_bytes for at, one in zip(self.offsets_bytes, self.buffers, strict=True)), default=0)

    def violations(
        self, capacity_bytes: int, alignment_bytes: int = 1, peak_bytes: int | None = None
    ) -> list[Violation]:
        """Return the violations of a packing, and of a claimed peak, with tensors in place of numbers of buffers."""
        problem = PackingProblem(self.buffers, capacity_bytes, alignment_bytes)
        return [self._named(one) for one in verify_packing(problem, Packing(self.offsets_bytes), peak_bytes)]

    def least_bytes(self, alignment_bytes: int = 1) -> int:
        """Return a lower bound on the end of any packing of the buffers."""
        return least_arena_bytes(PackingProblem(self.buffers, 0, alignment_bytes))

    def figures(self) -> dict[str, object]:
        """Return the number of tensors, the end and the lower bound of the arena, for JSON."""
        return {
            "names": self.name,
            "tensors": sum(map(len, self.names)),
            "arena_bytes": self.end_bytes,
            "most_live_bytes": self.least_bytes(),
        }

    def _named(self, violation: Violation) -> Violation:
        def name(match: re.Match[str]) -> str:
            return self.names[int(match[1])][0]

        subject = self.name if violation.subject == ALL_BUFFERS else re.sub(r"buffer (\d+)", name, violation.subject)
        detail = re.sub(r"buffer (\d+)", lambda match: repr(name(match)), violation.detail)
        return replace(violation, subject=subject, detail=detail)
