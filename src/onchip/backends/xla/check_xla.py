"""XLA's buffer assignment held against its own live ranges, and how far its temporary memory could shrink.

A value is written by its first instruction and read until its last, which may write another over it: in place. So
values that share bytes may live at one instruction together where one ends as the other begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.backends.xla.assignment import (
    XlaAllocation,
    XlaRange,
    XlaValue,
    is_buffer_assignment,
    read_buffer_assignment,
    read_live_ranges,
)
from onchip.errors import UsageError
from onchip.memory.allocate.exact.attempt import least_arena_bytes
from onchip.memory.allocate.exact.pack import least_capacity
from onchip.reports.shared.answer_check import AnswerCheck
from onchip.reports.shared.words import counted
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits
from onchip.search.strategy.start import silent_run
from onchip.verify.packing import verify_packing
from onchip.verify.rules import Rule, Violation

PACKING_SECONDS: Final = 10.0
_TEMPORARY: Final = "preallocated-temp"
_GREATEST_ALIGNMENT_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class _Placed:
    """A value with its live range."""

    value: XlaValue
    live: XlaRange

    def buffer(self) -> Buffer:
        """Two units an instruction, half-open: a value that another may overwrite as it is read last has ended."""
        return Buffer(2 * self.live.start, max(2 * self.live.end, 2 * self.live.start + 1), self.value.size_bytes)

    def touches(self, other: _Placed) -> bool:
        """Whether both live at one instruction, with bytes in common: one ends there as the other begins."""
        here, there = self.value, other.value
        is_apart = here.offset_bytes + here.size_bytes <= there.offset_bytes
        is_apart = is_apart or there.offset_bytes + there.size_bytes <= here.offset_bytes
        return not is_apart and self.live.start <= other.live.end and other.live.start <= self.live.end


@phase("verifying")
def check_buffer_assignment(file: Path, ranges_file: str, target: Target) -> AnswerCheck | None:
    """Verify that values of an allocation that are live at once share no byte, and that each lies within it.

    For temporary memory, state a lower bound on its size and the size of a packing. Returns None for another kind of
    file. Raises InputError if a file cannot be read, UsageError if `target` states a memory.
    """
    if not is_buffer_assignment(file):
        return None
    if target != Target():
        what = "XLA's buffer assignment says its own memory"
        raise UsageError(what, place="--sram, --accelerator, --alignment", expected="nothing")
    allocations = read_buffer_assignment(file)
    ranges = read_live_ranges(Path(ranges_file))
    violations = [one for allocation in allocations for one in _violations(allocation, ranges)]
    temporary = [one for one in allocations if _TEMPORARY in one.kind]
    figures = [] if violations else [_figures(one, ranges) for one in temporary]
    return AnswerCheck("buffer assignment", file.name, "", violations, figures, (), _not_checked(allocations, ranges))


def _not_checked(allocations: Sequence[XlaAllocation], ranges: Mapping[str, XlaRange]) -> list[str]:
    without = sum(value.name not in ranges for allocation in allocations for value in allocation.values)
    placed = [_placed(one, ranges) for one in allocations]
    pairs = sum(len(list(_in_place(each))) for each in placed)
    said = [f"whether {counted(pairs, 'value')} may be written over the one read last"] if pairs else []
    return [f"{counted(without, 'value')} without a live range", *said] if without else said


def _placed(allocation: XlaAllocation, ranges: Mapping[str, XlaRange]) -> list[_Placed]:
    return [_Placed(value, ranges[value.name]) for value in allocation.values if value.name in ranges]


def _in_place(placed: Sequence[_Placed]) -> Iterator[tuple[int, int]]:
    """Pairs of values of which one ends as the other begins, with bytes in common; by their numbers."""
    for later, two in enumerate(placed):
        yield from ((earlier, later) for earlier in range(later) if placed[earlier].touches(two))


def _violations(allocation: XlaAllocation, ranges: Mapping[str, XlaRange]) -> Iterator[Violation]:
    for value in allocation.values:
        if (end := value.offset_bytes + value.size_bytes) > allocation.size_bytes:
            detail = f"it ends at {end} of {allocation.size_bytes} in allocation {allocation.number}"
            yield Violation(Rule.BEYOND_CAPACITY, value.name, detail)
    placed = _placed(allocation, ranges)
    offsets = tuple(one.value.offset_bytes for one in placed)
    problem = PackingProblem(tuple(one.buffer() for one in placed), 2**62)
    for violation in verify_packing(problem, Packing(offsets)):
        yield _named(violation, placed)


def _named(violation: Violation, placed: Sequence[_Placed]) -> Violation:
    """The violation with values in place of numbers of buffers."""

    def name(match: re.Match[str]) -> str:
        return repr(placed[int(match[1])].value.name)

    number = re.fullmatch(r"buffer (\d+)", violation.subject)
    subject = violation.subject if number is None else placed[int(number[1])].value.name
    return replace(violation, subject=subject, detail=re.sub(r"buffer (\d+)", name, violation.detail))


def _figures(allocation: XlaAllocation, ranges: Mapping[str, XlaRange]) -> dict[str, object]:
    """What temporary memory takes, what it could at least, and what it does take packed anew."""
    placed = _placed(allocation, ranges)
    alignment = _alignment_bytes(allocation)
    relaxed = PackingProblem(tuple(one.buffer() for one in placed), 0, alignment)
    return {
        "names": f"allocation {allocation.number}",
        "values": len(allocation.values),
        "alignment_bytes": alignment,
        "size_bytes": allocation.size_bytes,
        "packed_bytes": min(_packed_bytes(placed, alignment), allocation.size_bytes),
        "lower_bound_bytes": least_arena_bytes(relaxed),
    }


def _alignment_bytes(allocation: XlaAllocation) -> int:
    """The greatest power of two, up to that of GPUs, of which every offset is a multiple."""
    alignment = _GREATEST_ALIGNMENT_BYTES
    while any(value.offset_bytes % alignment for value in allocation.values):
        alignment //= 2
    return alignment


def _packed_bytes(placed: Sequence[_Placed], alignment_bytes: int) -> int:
    """The smallest arena found for groups of values that XLA has in one place, one written over another."""
    buffers = [_joined([placed[at] for at in group]) for group in _groups(placed)]
    if not buffers:
        return 0
    capacity = sum(-(-one.size_bytes // alignment_bytes) * alignment_bytes for one in buffers)
    with silent_run(Limits(time_limit_seconds=PACKING_SECONDS), Deadline.after(PACKING_SECONDS)) as run:
        result = least_capacity(PackingProblem(tuple(buffers), capacity, alignment_bytes), run)
    return capacity if result.objective_value is None else int(result.objective_value)


def _joined(group: Sequence[_Placed]) -> Buffer:
    first = min(one.value.offset_bytes for one in group)
    end = max(one.value.offset_bytes + one.value.size_bytes for one in group)
    return Buffer(min(one.live.start for one in group), 1 + max(one.live.end for one in group), end - first)


def _groups(placed: Sequence[_Placed]) -> list[list[int]]:
    """Values that have to stay in one place: those written over one another, and those with a phi for another name."""
    joined = list(range(len(placed)))

    def root(at: int) -> int:
        while joined[at] != at:
            at = joined[at]
        return at

    for earlier, later in _in_place(placed):
        joined[root(later)] = root(earlier)
    phis = {(one.value.offset_bytes, one.value.size_bytes) for one in placed if one.value.is_phi}
    firsts: dict[tuple[int, int], int] = {}
    for at, one in enumerate(placed):
        place = (one.value.offset_bytes, one.value.size_bytes)
        if place in phis:
            joined[root(at)] = root(firsts.setdefault(place, at))
    groups: dict[int, list[int]] = {}
    for at in range(len(placed)):
        groups.setdefault(root(at), []).append(at)
    return list(groups.values())
