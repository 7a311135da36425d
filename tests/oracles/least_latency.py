"""Exhaustive checks for a program that ends sooner: all programs, in all bands, at every address.

`ends_before` is the plain one. `some_program_ends_before`, in numbers, serves problems of up to six operators. Programs
are extended copy by copy and operator by operator, in one or several scratchpads, at every address. Two programs that
have done the same, with all tensors at the same addresses, differ only in times. If no time of one is later than the
other's, the other is dropped, as nothing ends sooner because it is free later. Times that nothing can wait for count as
0. A tensor in several scratchpads may leave any of them at any time, since the array reads it in the first that has it;
otherwise leaving early has no benefit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Operand
from onchip.ir.tensor import Role
from onchip.transform.slices.emission import ChannelBands
from oracles.byte_clock import ByteClock
from support.timed_problems import ProgramSoFar, begun


def in_all_bands(problem: Problem) -> Iterator[Problem]:
    """Yield the problem with its operators in every choice of the bands that they state."""
    operators = problem.graph.operators
    splits = [operator.stated.splits for operator in operators]
    ways = [[1, *(parts for parts, _ in one.ways)] if one else [1] for one in splits]
    for choice in product(*ways):
        parts = {one.name: count for one, count in zip(operators, choice, strict=True) if count > 1}
        yield replace(problem, graph=ChannelBands(parts)(problem.graph))


class TooManyProgramsError(Exception):
    """Raised if there are more programs than can be enumerated."""


def ends_before(problem: Problem, cycles: int, most_states: int = 3_000) -> bool:
    """Return True if some program ends before that cycle; raises TooManyProgramsError beyond `most_states` states.

    Equal states are visited once.
    """
    for banded in in_all_bands(problem):
        if _is_ended(begun(banded), ByteClock.at_start(banded), cycles, set(), most_states):
            return True
    return False


def _is_ended(so_far: ProgramSoFar, clock: ByteClock, cycles: int, seen: set[object], most: int) -> bool:
    durations = so_far.problem.durations
    assert durations is not None
    left = (durations.of_operator(one) for one in so_far.problem.graph.operators if one.name not in so_far.has_run)
    if max(clock.latest, clock.array_free + sum(left), clock.loads_free + _to_load(so_far)) >= cycles:
        return False
    if so_far.is_done:
        return True
    key = (so_far.resident, so_far.in_dram, so_far.has_run, clock.moment)
    if key in seen:
        return False
    if len(seen) == most:
        raise TooManyProgramsError
    seen.add(key)
    for longer in so_far.next_steps():
        then = clock
        for instruction in longer.instructions[len(so_far.instructions) :]:
            then = then.after(instruction)
        if _is_ended(longer, then, cycles, seen, most):
            return True
    return False


def _to_load(so_far: ProgramSoFar) -> int:
    """Return the cycles of the loads that the remaining operators need."""
    problem, resident = so_far.problem, {name for name, _, _ in so_far.resident}
    assert problem.durations is not None
    missing = [one for one in problem.counted_tensors if one.name in so_far.in_dram and one.name not in resident]
    read = {name for one in problem.graph.operators if one.name not in so_far.has_run for name in one.reads}
    names = [memory.name for memory in problem.memories]
    costs = (min(problem.transfer_cost(one, DRAM, name) for name in names) for one in missing if one.name in read)
    return sum(cost - problem.durations.setup_cycles for cost in costs)


# States in numbers

ABSENT = -1
OFF_CHIP = -1


@dataclass
class TimedNumbers:
    """The numbers of a problem; place t + m * tensors is tensor t in scratchpad m; sets are bit masks.

    `cycles` are those of each copy by tensor, set-up included; `loads` and `stores` are the least over all scratchpads.
    """

    problem: Problem

    def __post_init__(self) -> None:
        """Number everything."""
        problem, graph, durations = self.problem, self.problem.graph, self.problem.durations
        assert durations is not None
        tensors = problem.counted_tensors
        self.setup, self.is_one_channel = durations.setup_cycles, durations.has_one_channel
        self.queue_count, self.is_given = durations.queues, problem.order is Order.GIVEN
        number_of = {one.name: number for number, one in enumerate(tensors)}
        self.sizes = [one.size_bytes for one in tensors]
        self._number_scratchpads()
        self.loads = [min(self.cycles[OFF_CHIP, memory][tensor] for memory in self.memories) for tensor in self.all]
        self.stores = [min(self.cycles[memory, OFF_CHIP][tensor] for memory in self.memories) for tensor in self.all]
        self.reads = [sorted({number_of[name] for name in one.reads}) for one in graph.operators]
        self.writes = [[number_of[name] for name in one.outputs] for one in graph.operators]
        self.lasting = [durations.of_operator(one) for one in graph.operators]
        self.readers = [sum(1 << at for at, names in enumerate(self.reads) if number in names) for number in self.all]
        self.writer = [next((at for at, names in enumerate(self.writes) if one in names), ABSENT) for one in self.all]
        self.outputs = sum(1 << number for number, one in enumerate(tensors) if one.role is Role.OUTPUT)
        outside = (Role.INPUT, Role.PARAMETER)
        self.from_outside = sum(1 << number for number, one in enumerate(tensors) if one.role in outside)
        self.all_run = (1 << len(self.lasting)) - 1
        self.before = self.ancestors()
        self.after = self.tails()

    def _number_scratchpads(self) -> None:
        """Set the cost of each copy, and the scratchpads where the array reads each tensor, and where it writes."""
        problem, tensors = self.problem, self.problem.counted_tensors
        names = [memory.name for memory in problem.memories]
        self.memories = range(len(names))
        number = {DRAM: OFF_CHIP, **{name: at for at, name in enumerate(names)}}
        self.links = [(number[source], number[target]) for source, target in problem.transfers.links]
        ways = [*self.links, *((OFF_CHIP, at) for at in self.memories), *((at, OFF_CHIP) for at in self.memories)]
        named = {at: name for name, at in number.items()}
        self.cycles = {
            (source, target): [problem.transfer_cost(one, named[source], named[target]) for one in tensors]
            for source, target in ways
        }
        operands = [Operand.WEIGHT if one.role is Role.PARAMETER else Operand.INPUT for one in tensors]
        self.read_in = [[at for at in self.memories if one in problem.memories[at].holds] for one in operands]
        self.written_in = [at for at in self.memories if Operand.OUTPUT in problem.memories[at].holds]
        capacities = [memory.capacity_bytes for memory in problem.memories]
        self.bases = [sum(capacities[:at]) for at in self.memories]
        self.capacity = sum(capacities)
        self.starts = [range(0, one.capacity_bytes, one.alignment_bytes) for one in problem.memories]

    @property
    def all(self) -> range:
        """Return the numbers of the tensors."""
        return range(len(self.sizes))

    def place(self, tensor: int, memory: int) -> int:
        """Return the number of the place of a tensor in a scratchpad."""
        return tensor + memory * len(self.sizes)

    def ancestors(self) -> list[int]:
        """Return, by operator, the mask of its ancestors and itself; a graph's operators are in topological order."""
        found: list[int] = []
        for at, reads in enumerate(self.reads):
            mine = 1 << at
            for one in reads:
                mine |= found[self.writer[one]] if self.writer[one] != ABSENT else 0
            found.append(mine)
        return found

    def tails(self) -> list[int]:
        """Return, by operator, the least cycles from its end to the end of the program."""
        found = [0] * len(self.lasting)
        for at in reversed(range(len(self.lasting))):
            for one in self.writes[at]:
                found[at] = max(found[at], self.stores[one] if self.outputs >> one & 1 else 0)
                for reader in range(at + 1, len(self.lasting)):
                    if self.readers[one] >> reader & 1:
                        found[at] = max(found[at], self.lasting[reader] + found[reader])
        return found


class TimedState(NamedTuple):
    """The executed operators and the tensors in DRAM (bits); the offset of each place, and the cycle of its last write.

    Place t + m * tensors is tensor t in scratchpad m. `stored` is the cycle since when DRAM has each tensor, `busy` the
    end of the last use of each byte of all scratchpads, `queues` the cycle in which each queue is free, the next one
    first. `channels` are the cycles in which loads, stores, and copies over each link can begin.
    """

    has_run: int
    in_dram: int
    offsets: tuple[int, ...]
    written: tuple[int, ...]
    stored: tuple[int, ...]
    busy: tuple[int, ...]
    queues: tuple[int, ...]
    channels: tuple[int, ...]
    array_free: int
    latest: int


@dataclass
class TimedStates(TimedNumbers):
    """The states of a problem in given bands; `left` is the number of states that may still be visited."""

    left: int
    seen: dict[tuple[int, int, tuple[int, ...]], list[tuple[int, ...]]] = field(default_factory=dict)

    def begun(self) -> TimedState:
        """Return the state before the first instruction."""
        nothing = (0,) * len(self.sizes)
        nowhere = (ABSENT,) * (len(self.sizes) * len(self.memories))
        queues, channels = (0,) * self.queue_count, (0,) * (2 + len(self.links))
        written, busy = (0,) * len(nowhere), (0,) * self.capacity
        return TimedState(0, self.from_outside, nowhere, written, nothing, busy, queues, channels, 0, 0)

    def ends_before(self, state: TimedState, cycles: int) -> bool:
        """Return True if some continuation of the state ends before that cycle."""
        going_on = [iter([state])]
        while going_on:
            longer = next(going_on[-1], None)
            if longer is None:
                going_on.pop()
            elif self.floor(longer) < cycles:
                if longer.has_run == self.all_run and self.outputs & ~longer.in_dram == 0:
                    return True
                if self._is_new(longer):
                    going_on.append(self.longer(longer))
        return False

    def _is_new(self, state: TimedState) -> bool:
        """Return True if no visited state had done the same no later in every respect."""
        known = self.seen.setdefault((state.has_run, state.in_dram, state.offsets), [])
        times = self._times(state)
        if any(all(mine <= theirs for mine, theirs in zip(one, times, strict=True)) for one in known):
            return False
        if self.left == 0:
            raise TooManyProgramsError
        self.left -= 1
        known.append(times)
        return True

    def _times(self, state: TimedState) -> tuple[int, ...]:
        """Return all times that later steps depend on; no copy begins before a queue and a channel are free.

        With several channels, the copy after the next may begin before the next.
        """
        is_in_turn = self.is_one_channel and not self.links
        queue_free = state.queues[0] if is_in_turn else min(state.queues)
        channels = [free for at, free in enumerate(state.channels) if at != 1 or not self.is_one_channel]
        floor = min(state.array_free, max(queue_free, min(channels) - self.setup))
        waited_for = (*state.written, *state.stored, *state.busy)
        late = tuple(time if time > floor else 0 for time in waited_for)
        return (*late, *state.queues, *state.channels, state.array_free, state.latest)

    def longer(self, state: TimedState) -> Iterator[TimedState]:
        """Yield the states after one more operator, copy or eviction; overwritten tensors leave."""
        for at, reads in enumerate(self.reads):
            places = [self._read_place(state, one) for one in reads]
            is_in_turn = not self.is_given or state.has_run == (1 << at) - 1
            if is_in_turn and not state.has_run >> at & 1 and ABSENT not in places:
                for placed, made in self._placed(state, self.writes[at], self.written_in, frozenset(places)):
                    yield self._computed(placed, at, places, made)
        for one in self.all:
            if not self._is_needed(state, one):
                continue
            there = [memory for memory in self.memories if state.offsets[self.place(one, memory)] != ABSENT]
            if not state.in_dram >> one & 1:
                yield from (self._copied(state, one, memory, OFF_CHIP) for memory in there)
            for memory in self._of_use(one):
                if memory not in there:
                    yield from self._brought(state, one, there, memory)
            if len(there) > 1:
                yield from (self._without(state, self.place(one, memory)) for memory in there)

    def _of_use(self, tensor: int) -> list[int]:
        """Return the scratchpads where the array may read it, or from which a link leads on."""
        leading_on = {source for source, _ in self.links}
        return [memory for memory in self.memories if memory in self.read_in[tensor] or memory in leading_on]

    def _brought(self, state: TimedState, tensor: int, there: list[int], memory: int) -> Iterator[TimedState]:
        sources = [one for one in there if (one, memory) in self.links]
        if state.in_dram >> tensor & 1:
            sources.append(OFF_CHIP)
        for source in sources:
            staying = frozenset() if source == OFF_CHIP else frozenset({self.place(tensor, source)})
            for placed, _ in self._placed(state, [tensor], [memory], staying):
                yield self._copied(placed, tensor, source, memory)

    def _read_place(self, state: TimedState, tensor: int) -> int:
        """Return the place where the array reads it, in the first scratchpad that has it; else ABSENT."""
        places = (self.place(tensor, memory) for memory in self.read_in[tensor])
        return next((place for place in places if state.offsets[place] != ABSENT), ABSENT)

    def _without(self, state: TimedState, place: int) -> TimedState:
        return state._replace(offsets=_with(state.offsets, place, ABSENT), written=_with(state.written, place, 0))

    def _is_needed(self, state: TimedState, tensor: int) -> bool:
        is_read = self.readers[tensor] & ~state.has_run
        return bool(is_read) or bool(self.outputs & ~state.in_dram & 1 << tensor)

    def _placed(
        self, state: TimedState, tensors: list[int], memories: list[int], staying: frozenset[int]
    ) -> Iterator[tuple[TimedState, list[int]]]:
        """Yield each placement of the tensors one after another, with the places; `staying` ones are kept."""
        if not tensors:
            yield state, []
            return
        tensor, *others = tensors
        for memory in memories:
            room = self.problem.memories[memory].capacity_bytes
            for start in self.starts[memory]:
                if start + self.sizes[tensor] > room:
                    break
                overwritten = self._overwritten(state, memory, start, start + self.sizes[tensor])
                if overwritten & staying or self._loses(state, overwritten):
                    continue
                placed, mine = state, self.place(tensor, memory)
                for place in overwritten:
                    placed = self._without(placed, place)
                placed = placed._replace(offsets=_with(placed.offsets, mine, start))
                for longer, made in self._placed(placed, others, memories, staying | {mine}):
                    yield longer, [mine, *made]

    def _overwritten(self, state: TimedState, memory: int, start: int, stop: int) -> set[int]:
        """Return the places that overlap these bytes."""
        places = ((one, self.place(one, memory)) for one in self.all)
        return {
            place
            for one, place in places
            if state.offsets[place] != ABSENT
            and state.offsets[place] < stop
            and start < state.offsets[place] + self.sizes[one]
        }

    def _loses(self, state: TimedState, leaving: set[int]) -> bool:
        """Return True if a needed tensor would be in no memory."""
        tensors = {place % len(self.sizes) for place in leaving}
        return any(
            not state.in_dram >> one & 1 and self._is_needed(state, one) and self._count(state, one) == 1
            for one in tensors
        )

    def _count(self, state: TimedState, tensor: int) -> int:
        """Return the number of scratchpads that have the tensor."""
        return sum(state.offsets[self.place(tensor, memory)] != ABSENT for memory in self.memories)

    def _bytes(self, state: TimedState, place: int) -> slice:
        """Return the bytes of a place among all bytes."""
        memory, tensor = divmod(place, len(self.sizes))
        start = self.bases[memory] + state.offsets[place]
        return slice(start, start + self.sizes[tensor])

    def _free_at(self, state: TimedState, place: int) -> int:
        return max(state.busy[self._bytes(state, place)])

    def _used(self, state: TimedState, places: list[int], end: int) -> tuple[int, ...]:
        busy = list(state.busy)
        for place in places:
            until = max(end, self._free_at(state, place))
            mine = self._bytes(state, place)
            busy[mine] = [until] * (mine.stop - mine.start)
        return tuple(busy)

    def _copied(self, state: TimedState, tensor: int, source: int, target: int) -> TimedState:
        channel = 2 + self.links.index((source, target)) if (source, target) in self.links else 0
        if target == OFF_CHIP and not self.is_one_channel:
            channel = 1
        places = [self.place(tensor, memory) for memory in (source, target) if memory != OFF_CHIP]
        ready = state.stored[tensor] if source == OFF_CHIP else state.written[self.place(tensor, source)]
        if target != OFF_CHIP:
            ready = max(ready, self._free_at(state, self.place(tensor, target)))
        start = max(ready, state.queues[0], state.channels[channel] - self.setup)
        end = start + self.cycles[source, target][tensor]
        done = state._replace(
            queues=(*state.queues[1:], end),
            channels=_with(state.channels, channel, end),
            latest=max(state.latest, end),
            busy=self._used(state, places, end),
        )
        if target != OFF_CHIP:
            return done._replace(written=_with(state.written, self.place(tensor, target), end))
        return done._replace(in_dram=state.in_dram | 1 << tensor, stored=_with(state.stored, tensor, end))

    def _computed(self, state: TimedState, at: int, reads: list[int], writes: list[int]) -> TimedState:
        ready = [*(state.written[one] for one in reads), *(self._free_at(state, one) for one in writes)]
        end = max(state.array_free, *ready) + self.lasting[at]
        written = state.written
        for one in writes:
            written = _with(written, one, end)
        return state._replace(
            has_run=state.has_run | 1 << at,
            written=written,
            busy=self._used(state, [*reads, *writes], end),
            array_free=end,
            latest=max(state.latest, end),
        )

    def floor(self, state: TimedState) -> int:
        """Return a lower bound on the end of every continuation of the state.

        Before an operator ends, its ancestors have run, and their inputs have arrived. After it its descendants run one
        after another, then a store. DRAM serves one transfer at a time.
        """
        missing = [one for one in self.all if self._is_missing(state, one)]
        to_store = [one for one in self.all if self.outputs & ~state.in_dram & 1 << one]
        loading = self._loading(missing)
        storing = sum(self.stores[one] - self.setup for one in to_store)
        loads_begin, stores_begin = (max(free, min(state.queues) + self.setup) for free in state.channels[:2])
        found = state.latest
        if to_store:
            found = max(found, (loads_begin + loading if self.is_one_channel else stores_begin) + storing)
        left = [at for at in range(len(self.lasting)) if not state.has_run >> at & 1]
        if not left:
            return found
        coming = {at: [one for one in missing if self.readers[one] >> at & 1] for at in left}
        last = [self.lasting[at] + self.after[at] for at in left if coming[at]]
        if last:
            found = max(found, loads_begin + loading + min(last))
        ready = {at: loads_begin + self._loading(coming[at]) if coming[at] else 0 for at in left}
        first = min(ready[at] for at in left if self.before[at] & ~state.has_run == 1 << at)
        starts = max(state.array_free, first)
        found = max(found, starts + sum(self.lasting[at] for at in left) + min(self.after[at] for at in left))
        for at in left:
            mine = self.before[at] & ~state.has_run
            running = sum(self.lasting[one] for one in left if mine >> one & 1)
            needed = [one for one in missing if self.readers[one] & mine]
            begins = loads_begin + self._loading(needed) + self.lasting[at] if needed else 0
            found = max(found, max(starts + running, begins) + self.after[at])
        return found

    def _loading(self, tensors: list[int]) -> int:
        """Return the cycles for which these loads occupy DRAM."""
        return sum(self.loads[one] - self.setup for one in tensors)

    def _is_missing(self, state: TimedState, tensor: int) -> bool:
        """Return True if the tensor must be loaded: it is read, not on chip, and not written later."""
        is_written_later = self.writer[tensor] != ABSENT and not state.has_run >> self.writer[tensor] & 1
        is_read = self.readers[tensor] & ~state.has_run
        return bool(is_read) and not self._count(state, tensor) and not is_written_later


def _with(times: tuple[int, ...], at: int, time: int) -> tuple[int, ...]:
    return (*times[:at], time, *times[at + 1 :])


def some_program_ends_before(problem: Problem, cycles: int, most_states: int = 20_000) -> bool:
    """Return True if some program ends before that cycle; raises TooManyProgramsError beyond `most_states` states."""
    every = (TimedStates(banded, most_states) for banded in in_all_bands(problem))
    return any(one.ends_before(one.begun(), cycles) for one in every)
