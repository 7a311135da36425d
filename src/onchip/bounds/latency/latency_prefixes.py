"""What has ended when each operator ends: in whichever order they end, some moment bounds the latency.

The last bands of operators end one after another. When that of one operator ends, those before it are known: a prefix.
Of every order of ends it holds at each of its moments (docs/latency.md has the arguments):

* the array has run all bands of the prefix, and whatever it has run of other operators besides;
* what others still read is on the chip, beside the last band's own operands, or is loaded from then on.

The order whose worst such moment is soonest is a path over prefixes, found best first; where there are too many of
them, the soonest of all that are still open bounds the latency, too.
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
"""Of tensors by labels, about a second."""


class Label(NamedTuple):
    """An order of ends so far: the latency is at least `latency`, its operators compute for `computed` cycles and more.

    Of those that are as good the one that `waiting` operators have not joined comes first where these are fewest.
    The array begins no sooner than with the first load, which `computed` has, too. `ended` has a bit for each operator
    that has ended, `last` that of the last of them, which ends in cycle `end` at the earliest.
    """

    latency: int
    waiting: int
    computed: int
    end: int
    ended: int
    last: int


@dataclass(frozen=True)
class EndOfOperator:
    """The end of the last band of an operator, the last of those that have ended.

    By its ways `missing_bytes` are those that others read and that have no room beside the operands of that band, if
    no others have begun; `begun` may have.
    """

    missing_bytes: Mapping[int, int]
    begun: PartlyRun
    _works: dict[int, list[Work]] = field(default_factory=dict)

    def works(self, parts: int) -> list[Work]:
        """Return what others may have run besides when it is one of so many bands."""
        if parts not in self._works:
            self._works[parts] = self.begun.works(parts)
        return self._works[parts]


@dataclass(frozen=True)
class LatencyPrefixes:
    """The prefixes of a problem; `ends` says of each operator by its ways when it ends at the earliest.

    `first_load`, `last_store` and `tail` are the least cycles before any band, after all bands, and from the beginning
    of any band to the end of all; `load` is the rate of loads.
    """

    ways: WaysToRun
    ends: Mapping[int, Ends]
    load: Rate
    first_load: int
    last_store: int
    tail: int

    def bound(self, floor: int, most_labels: int | None = None) -> int:
        """Return a number of cycles before which no program has ended, at least the floor, before which none has, too.

        The fewer labels are looked at, the less it is.
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
        """Yield what an order becomes by each operator that may end next, in each of its ways."""
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
        """Those that have not ended, while all that they wait for has."""
        if self._is_given:
            return (ended.bit_length(),)
        return (one for one in self._reading(ended) if not self._writers[one] & ~ended)

    def _reading(self, ended: int) -> set[int]:
        """Those that have not ended, and of whose inputs one has been written, or comes from outside."""
        live = (tensor for tensor, writer, readers, _ in self._read if writer & ended and readers & ~ended)
        reading = self._sources.union(*(self.ways.readers[tensor] for tensor in live))
        return {one for one in reading if not ended >> one & 1}

    def moment(self, before: int, operator: int) -> EndOfOperator:
        """Return what is so when an operator ends after those with a bit in `before`, and before all others."""
        found = self._moments.get((before, operator))
        if found is None:
            ended = before | 1 << operator
            begun = PartlyRun(self.ways, ended, operator, self._that_may_have_begun(before, ended))
            found = self._moments[before, operator] = EndOfOperator(self._missing_bytes(ended, operator), begun)
        return found

    def _that_may_have_begun(self, before: int, ended: int) -> list[int]:
        """Those that have not ended, nor wait for the end of the last one or of one that has not begun."""
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
        """By ways of the last one."""
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
        """What reads nothing that is written."""
        return frozenset(one for one, writers in enumerate(self._writers) if not writers)

    @cached_property
    def _writers(self) -> tuple[int, ...]:
        """By operator a bit for each that writes what it reads."""
        return tuple(_bits(self._written_for(one.reads)) for one in self.ways.operators)

    @cached_property
    def _whole_writers(self) -> tuple[int, ...]:
        """The same of those for whose last band its first one waits."""
        reads = ([each for each in one.reads if each not in one.cut] for one in self.ways.operators)
        return tuple(_bits(self._written_for(each)) for each in reads)

    def _written_for(self, tensors: Iterable[int]) -> Iterator[int]:
        return (self.ways.writer[tensor] for tensor in tensors if tensor in self.ways.writer)

    @cached_property
    def _followers(self) -> tuple[frozenset[int], ...]:
        """By operator what reads what it writes."""
        readers = self.ways.readers
        return tuple(
            frozenset(each for tensor in one.writes for each in readers.get(tensor, ())) for one in self.ways.operators
        )

    @cached_property
    def _read(self) -> tuple[tuple[int, int, int, int], ...]:
        """Each tensor that is read, with a bit for what writes it, for each that reads it, and its bytes."""
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
    """So many cycles of the array, after which so many bytes less are needed; any share of it may be done.

    An operator that has run a share of its bands, but not the last, no longer needs that share of what it reads band by
    band, and nobody else reads; what it has written so is there, or is loaded, if somebody reads it whole.
    """

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
