"""What operators that have not ended may have run: it takes the array time, and then less is left to be loaded.

An operator that has run a share of its bands, but not the last, no longer needs that share of what it reads band by
band, and nobody else reads; what it has written so is there, or is loaded, if somebody reads it whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from onchip.answer.problem import Rate
from onchip.bounds.latency.ways_to_run import WaysToRun


class Work(NamedTuple):
    """So many cycles of the array, after which so many bytes less are needed; any share of it may be done."""

    cycles: int
    saved_bytes: int

    def part(self, numerator: int, denominator: int) -> Work:
        """Return a share of it: no fewer bytes, and no more cycles."""
        return Work(self.cycles * numerator // denominator, -(-self.saved_bytes * numerator // denominator))

    def beside(self, other: Work) -> Work:
        """Return the cycles and the saved bytes of both, added up."""
        return Work(self.cycles + other.cycles, self.saved_bytes + other.saved_bytes)

    def saves_more_than(self, other: Work) -> bool:
        """Whether it saves more bytes a cycle."""
        return self.saved_bytes * other.cycles > other.saved_bytes * self.cycles

    @property
    def bytes_per_cycle(self) -> Fraction:
        """Return what it saves in a cycle, where it takes any."""
        return Fraction(self.saved_bytes, self.cycles)


@dataclass(frozen=True)
class PartlyRun:
    """Operators of which some bands may have run, not all, when those with a bit in `ended` have ended, `last` last."""

    ways: WaysToRun
    ended: int
    last: int
    operators: Sequence[int]

    def works(self, parts: int) -> list[Work]:
        """Return what may have been run when the last of so many bands of `last` ends.

        Whatever bands have run, shares of these works take no longer and save as much.
        """
        works, others = dict(self._of_whole_readers), list[Work]()
        for reader, writers in self._run_before.items():
            count = min(parts if one == self.last else self._most_parts(one) for one in (reader, *writers))
            writer = max((one for one in writers if one in works), key=lambda one: works[one].cycles, default=None)
            alone = self._work(reader)
            if writer is None or not alone.saves_more_than(works[writer]):
                others.append(alone.part(count - 1, count))
                continue
            before = works.pop(writer)  # of which it has run every share that its reader has
            others += [alone.beside(before).part(count - 1, count), before.part(1, count)]
        return [one for one in (*works.values(), *others) if one.saved_bytes > 0]

    @cached_property
    def _run_before(self) -> Mapping[int, Sequence[int]]:
        """By cut reader the writers that run every share before it does: those that have not ended, and the last."""
        return {
            one: [each for each in cut_writers(self.ways, one) if each == self.last or not self.ended >> each & 1]
            for one in self.operators
            if self.ways.operators[one].cuts_inputs
        }

    @cached_property
    def _of_whole_readers(self) -> Mapping[int, Work]:
        others = (one for one in self.operators if one not in self._run_before and self._most_parts(one) > 1)
        return {one: self._work(one) for one in others}

    def _most_parts(self, operator: int) -> int:
        return max(self.ways.possible_parts(operator))

    def _work(self, operator: int) -> Work:
        one = self.ways.operators[operator]
        saved = sum(self.ways.tensors[tensor].size_bytes for tensor in one.reads if self._saver(tensor) == operator)
        for tensor in one.writes:
            if any(tensor not in self.ways.operators[each].cut for each in self.ways.readers.get(tensor, ())):
                saved -= self.ways.tensors[tensor].size_bytes
        return Work(one.least_cycles, saved)

    def _saver(self, tensor: int) -> int | None:
        """Of all that reads a tensor band by band and has not ended the longest; None if one reads it whole, or later.

        All of these have run the share that is no longer needed. None also of what has not been written.
        """
        readers = [one for one in self.ways.readers[tensor] if not self.ended >> one & 1]
        writer = self.ways.writer.get(tensor)
        if writer is not None and not self.ended >> writer & 1:
            return None
        if any(one not in self.operators or tensor not in self.ways.operators[one].cut for one in readers):
            return None
        return max(readers, key=lambda one: self.ways.operators[one].least_cycles)


def cut_writers(ways: WaysToRun, operator: int) -> list[int]:
    """Return what writes for an operator that cuts its inputs."""
    one = ways.operators[operator]
    return sorted({ways.writer[tensor] for tensor in one.reads if tensor in one.cut and tensor in ways.writer})


@dataclass(frozen=True, slots=True)
class Missing:
    """Bytes that are not there in cycle `end`, when the array has run `computed_cycles`, if it has run nothing else.

    What reads the last of them takes `tail` cycles or more, up to the end of all.
    """

    end: int
    computed_cycles: int
    size_bytes: int
    tail: int

    def least_latency(self, works: Iterable[Work], load: Rate) -> int:
        """Return before which cycle not all has ended, whatever shares of these works have been run besides.

        What saves most in a cycle is best run first; as long as the array would be idle it costs nothing.
        """
        least, before = self._latency_after(Work(0, 0), load), Work(0, 0)
        for work in _corners(works, self.end - self.computed_cycles):
            if work.saved_bytes >= self.size_bytes:
                share = self.size_bytes - before.saved_bytes, work.saved_bytes - before.saved_bytes
                cycles = before.cycles + (work.cycles - before.cycles) * share[0] // share[1]
                return min(least, max(self.end, self.computed_cycles + cycles))
            least, before = min(least, self._latency_after(work, load)), work
        return least

    def _latency_after(self, work: Work, load: Rate) -> int:
        end, missing_bytes = max(self.end, self.computed_cycles + work.cycles), self.size_bytes - work.saved_bytes
        if missing_bytes <= 0:
            return end
        return end + sum(missing_bytes * 8 * cycles // unit_bits for unit_bits, cycles in load.terms) + self.tail


def _corners(works: Iterable[Work], idle_cycles: int) -> Iterator[Work]:
    """Yield what has been run at most, work after work, and in as many cycles as are idle."""
    done = Work(0, 0)
    for work in sorted(works, key=lambda one: (not one.cycles, one.cycles and one.bytes_per_cycle), reverse=True):
        left = idle_cycles - done.cycles
        if 0 < left < work.cycles:
            yield done.beside(work.part(left, work.cycles))
        done = done.beside(work)
        yield done
