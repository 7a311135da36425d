"""Residencies tied to one another, outputs in bytes of inputs: what moves together is one buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onchip.answer.packing import Buffer, PackingProblem
from onchip.facts.indexed import IndexedProblem
from onchip.solve.run.compose import OperatorSchedule


@dataclass(frozen=True, slots=True)
class ChainedSchedule:
    """A schedule as a packing: residency i lies `shifts_bytes[i]` behind the beginning of buffer `buffer_of[i]`.

    A chain takes all bytes from its lowest to its highest for its whole life. That is exact where each has as many
    bytes, and begins where the one before began; otherwise some of it is never used, and `is_exact` is False.
    """

    problem: PackingProblem
    buffer_of: tuple[int, ...]
    shifts_bytes: tuple[int, ...]
    is_exact: bool

    def offsets_bytes(self, of_buffers: Sequence[int]) -> tuple[int, ...]:
        """Return the offset in bytes of each residency, from those of the buffers."""
        return tuple(of_buffers[at] + shift for at, shift in zip(self.buffer_of, self.shifts_bytes, strict=True))


def chained(
    indexed: IndexedProblem, schedule: OperatorSchedule, capacity_bytes: int | None = None
) -> ChainedSchedule:
    """Return the packing that gives the schedule its addresses, a buffer for each chain of residencies."""
    sizes, residencies, memory = indexed.sizes_bytes, schedule.residencies, indexed.memory
    buffers: list[Buffer] = []
    buffer_of, shifts = [0] * len(residencies), [0] * len(residencies)
    is_exact = True
    for members in _chains(schedule):
        lowest = min(shift for _, shift in members)
        highest = max(shift + sizes[residencies[at].tensor] for at, shift in members)
        start, stop = (min(residencies[at].start for at, _ in members), max(residencies[at].stop for at, _ in members))
        is_exact = is_exact and all(sizes[residencies[at].tensor] == highest - lowest for at, _ in members)
        for at, shift in members:
            buffer_of[at], shifts[at] = len(buffers), shift - lowest
        buffers.append(Buffer(start, stop, highest - lowest))
    problem = PackingProblem(tuple(buffers), capacity_bytes or memory.capacity_bytes, memory.alignment_bytes)
    return ChainedSchedule(problem, tuple(buffer_of), tuple(shifts), is_exact)


def _chains(schedule: OperatorSchedule) -> Iterator[list[tuple[int, int]]]:
    """Yield the residencies tied together, by number, each with its bytes behind the first, in order of the first."""
    neighbours = _ties_both_ways(schedule)
    seen = [False] * len(schedule.residencies)
    for first in range(len(schedule.residencies)):
        if seen[first]:
            continue
        seen[first] = True
        members = [(first, 0)]
        for at, shift in members:
            for other, more in neighbours.get(at, ()):
                if not seen[other]:
                    seen[other] = True
                    members.append((other, shift + more))
        yield members


def _ties_both_ways(schedule: OperatorSchedule) -> dict[int, list[tuple[int, int]]]:
    """Return by residency what is tied to it, and how far behind it that begins: whoever is overwritten ends then."""
    if not any(residency.ties for residency in schedule.residencies):
        return {}
    ending = {(one.tensor, one.stop): at for at, one in enumerate(schedule.residencies)}
    neighbours: dict[int, list[tuple[int, int]]] = {}
    for at, residency in enumerate(schedule.residencies):
        for tensor, shift in residency.ties:
            other = ending[tensor, residency.start + 1]
            neighbours.setdefault(other, []).append((at, shift))
            neighbours.setdefault(at, []).append((other, -shift))
    return neighbours
