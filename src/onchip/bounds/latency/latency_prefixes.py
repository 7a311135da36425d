"""A lower bound on the latency from the operators that have ended when each operator ends, over all orders of ends.

The last bands of operators end one after another. When an operator's last band ends, the operators that ended before it
form a prefix. For every order of ends, this holds at each end (docs/latency.md has the proofs):

* the array has run all bands of the prefix, and possibly some bands of other operators;
* the inputs of the remaining operators are on chip, next to the last band's own operands, or are loaded later.

The order with the least maximum over its ends is a path over prefixes, found by best-first search. If there are too
many prefixes, the least value of the open ones is a lower bound too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from heapq import heappop, heappush
from typing import Final, NamedTuple

from onchip.answer.problem import Order, Rate
from onchip.bounds.latency.latency_chains import Ends
from onchip.bounds.latency.ways_to_run import WaysToRun

MOST_WORK: Final = 3_000_000
"""Most work, in tensors times labels, about a second."""


class Label(NamedTuple):
    """A partial order of ends: the latency is at least `latency`, and its operators compute at least `computed` cycles.

    Among equal latencies, labels with the fewest `waiting` (not yet ended) operators come first. The array begins only
    after the first load, which `computed` includes. `ended` has a bit for each ended operator, `last` for the last of
    them, whose end is in cycle `end` at the earliest.
    """

    latency: int
    waiting: int
    computed: int
    end: int
    ended: int
    last: int


@dataclass(frozen=True)
class EndOfOperator:
    """The end of an operator's last band, as the latest end so far.

    `missing_bytes` are, by number of parts, the bytes that others still read and that do not fit next to the operands
    of that band, if no others have begun. The operators in `begun` may have run some bands.
    """

    missing_bytes: Mapping[int, int]
    begun: PartlyRun
    _works: dict[int, list[Work]] = field(default_factory=dict)

    def works(self, parts: int) -> list[Work]:
        """Return the optional work of other operators when the ended operator runs in `parts` bands."""
        if parts not in self._works:
            self._works[parts] = self.begun.works(parts)
        return self._works[parts]


@dataclass(frozen=True)
class LatencyPrefixes:
    """The prefixes of a problem; `ends` maps each operator to its earliest ends by number of parts.

    `first_load`, `last_store` and `tail` are the least cycles before any band, after all bands, and from the start of
    any band to the end of the program. `load` is the rate of loads.
    """

    ways: WaysToRun
    ends: Mapping[int, Ends]
    load: Rate
    first_load: int
    last_store: int
    tail: int

    def bound(self, floor: int, most_labels: int | None = None) -> int:
        """Return a lower bound on the latency in cycles, at least the valid bound `floor`.

        With a smaller `most_labels` the bound is weaker.
        """
        start = Label(floor, len(self.ways.operators), self.first_load, self.first_load, 0, 0)
        heap, known = [start], defaultdict[tuple[int, int], list[Label]](list)
        left = MOST_WORK // (1 + len(self.ways.tensors)) if most_labels is None else most_labels
        while heap[0].waiting and left > 0:
            label = heappop(heap)
            others = known[label.ended, label.last]
            if any(one.computed <= label.computed and one.end <= label.end for one in others):
                continue  # none of these is worse: labels come by their latency
            others.append(label)
            for longer in self._longer(label):
                heappush(heap, longer)
                left -= 1
        return heap[0].latency

    def _longer(self, label: Label) -> Iterator[Label]:
        """Yield the labels that extend an order by each operator that may end next, with each number of parts."""
        for operator in self._next(label.ended):
            one, moment = self.ways.operators[operator], self.moment(label.ended, operator)
            is_after_last = self._whole_writers[operator] & label.last
            for parts, earliest in self.ends[operator].items():
                cycles = one.cycles[parts]
                computed = label.computed + parts * cycles
                end = max(computed, label.end + (parts * cycles if is_after_last else cycles), earliest)
                missing = Missing(end, computed, moment.missing_bytes[parts], self.tail)
                latency = missing.least_latency(moment.works(parts), self.load)
                latency = max(label.latency, latency, end + self.last_store)
                yield Label(latency, label.waiting - 1, computed, end, label.ended | 1 << operator, 1 << operator)

    def _next(self, ended: int) -> Iterable[int]:
        """Return the operators that have not ended and whose predecessors all have."""
        if self._is_given:
            return (ended.bit_length(),)
        return (one for one in self._reading(ended) if not self._writers[one] & ~ended)

    def _reading(self, ended: int) -> set[int]:
        """Return the operators that have not ended and have an input that is written or comes from outside."""
        live = (tensor for tensor, writer, readers, _ in self._read if writer & ended and readers & ~ended)
        reading = self._sources.union(*(self.ways.readers[tensor] for tensor in live))
        return {one for one in reading if not ended >> one & 1}

    def moment(self, before: int, operator: int) -> EndOfOperator:
        """Return the state when an operator ends after the operators marked in `before`, and before all others."""
        found = self._moments.get((before, operator))
        if found is None:
            ended = before | 1 << operator
            begun = PartlyRun(self.ways, ended, operator, self._that_may_have_begun(before, ended))
            found = self._moments[before, operator] = EndOfOperator(self._missing_bytes(ended, operator), begun)
        return found

    def _that_may_have_begun(self, before: int, ended: int) -> list[int]:
        """Return unfinished operators that depend neither on the last one's end nor on one that cannot have begun."""
        begun, waiting = 0, set[int]() if self._is_given else self._reading(ended)
        while waiting:
            is_free = (
                not self._whole_writers[one] & ~before and not self._writers[one] & ~(ended | begun) for one in waiting
            )
            fresh = [one for one, free in zip(waiting, is_free, strict=True) if free]
            begun |= sum(1 << one for one in fresh)
            waiting = {reader for one in fresh for reader in self._followers[one] if not begun >> reader & 1}
        return [one for one in range(begun.bit_length()) if begun >> one & 1]

    def _missing_bytes(self, ended: int, last: int) -> dict[int, int]:
        """Return the missing bytes by number of parts of the last operator."""
        needed = {
            tensor: size_bytes
            for tensor, writer, readers, size_bytes in self._read
            if readers & ~ended and not writer & ~ended
        }
        one, room = self.ways.operators[last], self.ways.problem.memories[0].capacity_bytes
        missing_bytes = sum(needed.values()) - room
        own = [tensor for tensor in (*one.reads, *one.writes) if tensor not in needed]
        return {
            parts: missing_bytes + sum(self.ways.operand_bytes(last, tensor, parts) for tensor in own)
            for parts in self.ends[last]
        }

    @cached_property
    def _is_given(self) -> bool:
        return self.ways.problem.order is Order.GIVEN

    @cached_property
    def _sources(self) -> frozenset[int]:
        """Return the operators that read no written tensor."""
        return frozenset(one for one, writers in enumerate(self._writers) if not writers)

    @cached_property
    def _writers(self) -> tuple[int, ...]:
        """Return, by operator, a bit mask of the writers of its inputs."""
        return tuple(_bits(self._written_for(one.reads)) for one in self.ways.operators)

    @cached_property
    def _whole_writers(self) -> tuple[int, ...]:
        """Return, by operator, a bit mask of the writers whose last band its first band waits for."""
        reads = ([each for each in one.reads if each not in one.cut] for one in self.ways.operators)
        return tuple(_bits(self._written_for(each)) for each in reads)

    def _written_for(self, tensors: Iterable[int]) -> Iterator[int]:
        return (self.ways.writer[tensor] for tensor in tensors if tensor in self.ways.writer)

    @cached_property
    def _followers(self) -> tuple[frozenset[int], ...]:
        """Return, by operator, the readers of its outputs."""
        readers = self.ways.readers
        return tuple(
            frozenset(each for tensor in one.writes for each in readers.get(tensor, ())) for one in self.ways.operators
        )

    @cached_property
    def _read(self) -> tuple[tuple[int, int, int, int], ...]:
        """Return each tensor with readers, the bits of its writer and of its readers, and its size in bytes."""
        return tuple(
            (tensor, _bits(self._written_for([tensor])), _bits(readers), self.ways.tensors[tensor].size_bytes)
            for tensor, readers in self.ways.readers.items()
        )

    @cached_property
    def _moments(self) -> dict[tuple[int, int], EndOfOperator]:
        return {}


def _bits(operators: Iterable[int]) -> int:
    found = 0
    for one in operators:
        found |= 1 << one
    return found


class Work(NamedTuple):
    """Optional work: `cycles` of the array that reduce the needed bytes by `saved_bytes`; any share of it may be done.

    An operator that has run a share of its bands, but not the last one, no longer needs that share of inputs that only
    it reads, band by band. Its written share is on chip, or is loaded later, if an operator reads that tensor whole.
    """

    cycles: int
    saved_bytes: int

    def part(self, numerator: int, denominator: int) -> Work:
        """Return a share of the work: saved bytes rounded up, cycles rounded down."""
        return Work(self.cycles * numerator // denominator, -(-self.saved_bytes * numerator // denominator))

    def beside(self, other: Work) -> Work:
        """Return the sum of both works' cycles and saved bytes."""
        return Work(self.cycles + other.cycles, self.saved_bytes + other.saved_bytes)

    def saves_more_than(self, other: Work) -> bool:
        """Return True if this work saves more bytes per cycle."""
        return self.saved_bytes * other.cycles > other.saved_bytes * self.cycles

    @property
    def bytes_per_cycle(self) -> Fraction:
        """Return the bytes saved per cycle; `cycles` must not be 0."""
        return Fraction(self.saved_bytes, self.cycles)


@dataclass(frozen=True)
class PartlyRun:
    """Operators that may have run some bands without the last, when those in `ended` have ended, `last` as the last."""

    ways: WaysToRun
    ended: int
    last: int
    operators: Sequence[int]

    def works(self, parts: int) -> list[Work]:
        """Return the optional work possible when the last of `parts` bands of `last` ends.

        Whichever bands have run, shares of these works take no longer and save at least as much.
        """
        works, others = dict(self._of_whole_readers), list[Work]()
        for reader, writers in self._run_before.items():
            count = min(parts if one == self.last else self._most_parts(one) for one in (reader, *writers))
            writer = max((one for one in writers if one in works), key=lambda one: works[one].cycles, default=None)
            alone = self._work(reader)
            if writer is None or not alone.saves_more_than(works[writer]):
                others.append(alone.part(count - 1, count))
                continue
            before = works.pop(writer)  # the writer has run every share that its reader has run
            others += [alone.beside(before).part(count - 1, count), before.part(1, count)]
        return [one for one in (*works.values(), *others) if one.saved_bytes > 0]

    @cached_property
    def _run_before(self) -> Mapping[int, Sequence[int]]:
        """Return, for each reader in bands, the unfinished or last writers that run every share before it does."""
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
        """Return the longest unfinished operator that reads a tensor band by band, if all unfinished readers do.

        All of these readers have run the share that is no longer needed. Returns None if a reader reads the tensor
        whole or cannot have begun, or if the tensor is not written yet.
        """
        readers = [one for one in self.ways.readers[tensor] if not self.ended >> one & 1]
        writer = self.ways.writer.get(tensor)
        if writer is not None and not self.ended >> writer & 1:
            return None
        if any(one not in self.operators or tensor not in self.ways.operators[one].cut for one in readers):
            return None
        return max(readers, key=lambda one: self.ways.operators[one].least_cycles)


def cut_writers(ways: WaysToRun, operator: int) -> list[int]:
    """Return the writers of the cut inputs of an operator."""
    one = ways.operators[operator]
    return sorted({ways.writer[tensor] for tensor in one.reads if tensor in one.cut and tensor in ways.writer})


@dataclass(frozen=True, slots=True)
class Missing:
    """Bytes that are missing in cycle `end`, after `computed_cycles` of the array without optional work.

    The readers of the last of them take at least `tail` cycles, up to the end of the program.
    """

    end: int
    computed_cycles: int
    size_bytes: int
    tail: int

    def least_latency(self, works: Iterable[Work], load: Rate) -> int:
        """Return a lower bound on the latency over all shares of optional work.

        The work that saves most bytes per cycle is best done first; in idle cycles of the array it is free.
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
    """Yield cumulative work in the order of savings per cycle, and the work that exactly fills the idle cycles."""
    done = Work(0, 0)
    for work in sorted(works, key=lambda one: (not one.cycles, one.cycles and one.bytes_per_cycle), reverse=True):
        left = idle_cycles - done.cycles
        if 0 < left < work.cycles:
            yield done.beside(work.part(left, work.cycles))
        done = done.beside(work)
        yield done
