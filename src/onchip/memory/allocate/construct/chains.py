"""Residencies tied to one another, outputs in bytes of inputs: what moves together is one buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.model.lifetimes.indexed import IndexedProblem


@dataclass(frozen=True, slots=True)
class ChainedSchedule:
    """A schedule as a packing: residency i lies `shifts_bytes[i]` behind the beginning of buffer `buffer_of[i]`.

    A chain takes all bytes from its lowest to its highest for its whole life, also where it does not use them. What
    cannot be tied, since then others of the chain would overlap, has lost that tie in the `schedule`.
    """

    schedule: OperatorSchedule
    problem: PackingProblem
    buffer_of: tuple[int, ...]
    shifts_bytes: tuple[int, ...]

    def offsets_bytes(self, of_buffers: Sequence[int]) -> tuple[int, ...]:
        """Return the offset in bytes of each residency, from those of the buffers."""
        return tuple(of_buffers[at] + shift for at, shift in zip(self.buffer_of, self.shifts_bytes, strict=True))


@dataclass(slots=True)
class _Member:
    """A residency, by number, in a chain: bytes [start_bytes, stop_bytes) of it over its steps."""

    at: int
    residency: PlannedResidency
    start_bytes: int
    stop_bytes: int

    def overlaps(self, other: _Member, shift: int) -> bool:
        """Whether it shares a byte in some step with one that is so many bytes further behind."""
        mine, its = self.residency, other.residency
        meet = mine.start < its.stop and its.start < mine.stop
        return meet and self.start_bytes < other.stop_bytes + shift and other.start_bytes + shift < self.stop_bytes


@dataclass(slots=True)
class _Chain:
    """Its members, and for each the last step that any up to it has."""

    members: list[_Member] = field(default_factory=list)
    latest: list[int] = field(default_factory=list)

    def append(self, member: _Member) -> None:
        self.members.append(member)
        self.latest.append(max(self.latest[-1] if self.latest else 0, member.residency.stop))

    def overlaps(self, other: _Member, shift: int, but: tuple[int, int]) -> bool:
        """Whether any of its members overlaps another; the two that are tied do."""
        for place in range(len(self.members) - 1, -1, -1):
            if self.latest[place] <= other.residency.start:
                return False
            one = self.members[place]
            if {one.at, other.at} != {*but} and one.overlaps(other, shift):
                return True
        return False


def packing_problem(
    indexed: IndexedProblem, schedule: OperatorSchedule, capacity_bytes: int | None = None
) -> PackingProblem:
    """Return the packing that gives a schedule in which nothing is overwritten its addresses: a buffer a residency."""
    buffers = tuple(Buffer(r.start, r.stop, indexed.sizes_bytes[r.tensor]) for r in schedule.residencies)
    memory = indexed.memory
    return PackingProblem(buffers, capacity_bytes or memory.capacity_bytes, memory.alignment_bytes)


def chained(indexed: IndexedProblem, schedule: OperatorSchedule, capacity_bytes: int | None = None) -> ChainedSchedule:
    """Return the packing that gives the schedule its addresses, a buffer for each chain of residencies."""
    if not any(residency.ties for residency in schedule.residencies):
        count = len(schedule.residencies)
        problem = packing_problem(indexed, schedule, capacity_bytes)
        return ChainedSchedule(schedule, problem, tuple(range(count)), (0,) * count)
    chains = _Chains(indexed, schedule)
    kept = tuple(chains.tie(at) for at in range(len(schedule.residencies)))
    buffers: list[Buffer] = []
    buffer_of, shifts = [0] * len(kept), [0] * len(kept)
    for members in chains.each():
        lowest, highest = min(one.start_bytes for one in members), max(one.stop_bytes for one in members)
        start, stop = min(one.residency.start for one in members), max(one.residency.stop for one in members)
        for one in members:
            buffer_of[one.at], shifts[one.at] = len(buffers), one.start_bytes - lowest
        buffers.append(Buffer(start, stop, highest - lowest))
    memory = indexed.memory
    problem = PackingProblem(tuple(buffers), capacity_bytes or memory.capacity_bytes, memory.alignment_bytes)
    return ChainedSchedule(OperatorSchedule(schedule.order, kept), problem, tuple(buffer_of), tuple(shifts))


class _Chains:
    """At first every residency by itself."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        self._residencies = schedule.residencies
        self._ending = {(one.tensor, one.stop): at for at, one in enumerate(self._residencies)}
        self._members: list[_Member] = []
        self._chain_of: list[_Chain] = []
        for at, residency in enumerate(self._residencies):
            self._members.append(_Member(at, residency, 0, indexed.sizes_bytes[residency.tensor]))
            chain = _Chain()
            chain.append(self._members[-1])
            self._chain_of.append(chain)

    def each(self) -> Iterator[list[_Member]]:
        """Yield the members of each chain, chains in order of their first residency."""
        seen: set[int] = set()
        for chain in self._chain_of:
            if id(chain) not in seen:
                seen.add(id(chain))
                yield chain.members

    def tie(self, at: int) -> PlannedResidency:
        """Tie a residency to what it overwrites, which ends with its first step; return it with the ties it got."""
        residency = self._residencies[at]
        if not residency.ties:
            return residency
        ends = residency.start + 1
        ties = tuple(tie for tie in residency.ties if self._is_tied(at, self._ending[tie[0], ends], tie[1]))
        return replace(residency, ties=ties)

    def _is_tied(self, output: int, lender: int, shift_bytes: int) -> bool:
        """Join their chains, the smaller one to the larger, unless members would overlap."""
        one, other = self._chain_of[lender], self._chain_of[output]
        shift = self._members[lender].start_bytes + shift_bytes - self._members[output].start_bytes
        if one is other:
            return shift == 0
        if len(one.members) < len(other.members):
            one, other, shift = other, one, -shift
        if any(one.overlaps(member, shift, (output, lender)) for member in other.members):
            return False
        for member in other.members:
            member.start_bytes += shift
            member.stop_bytes += shift
            one.append(member)
            self._chain_of[member.at] = one
        return True
